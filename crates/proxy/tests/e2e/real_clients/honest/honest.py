# What an honest client of Python's httpx does: small pieces, many at once, slow reading. Each step is said as it passes.
import asyncio, httpx, ssl, sys

base, _, ca = sys.argv[1:]
trust = ssl.create_default_context(cafile=ca)

def lines(count, line):
    for _ in range(count):
        yield line

with httpx.Client(http2=True, verify=trust, trust_env=False, timeout=60) as client:
    for count, line in [(1000, b'a line of a generator\n'), (3000, b'y')]:
        answer = client.post(base + '/up', content=lines(count, line))
        assert answer.http_version == 'HTTP/2', answer
        assert (answer.status_code, int(answer.text)) == (200, count * len(line)), answer.text
    print('pieces')

    # It sends all of it, and reads the answer then.
    for _ in range(5):
        answer = client.post(base + '/refused', content=lines(1000, b'z'))
        assert answer.status_code == 403, answer
    print('refused')

    cookies = '; '.join(f'name{n}=' + 'v' * 60 for n in range(115))
    answer = client.get(base + '/cookies', headers={'Cookie': cookies})
    assert (answer.status_code, answer.text) == (200, '115'), answer
    print('cookies')

    with client.stream('GET', base + '/large') as answer:
        assert sum(len(piece) for piece in answer.iter_raw(1000)) == 4 << 20
    print('slow reader')

    with client.stream('GET', base + '/long') as answer:
        pieces = answer.iter_raw(1)
        assert next(pieces) == b'0'
        with httpx.Client(http2=True, verify=trust, trust_env=False, timeout=60) as other:
            other.get(base + '/open')
        assert len(list(pieces)) == 1000
    print('long stream')

async def many():
    async with httpx.AsyncClient(http2=True, verify=trust, trust_env=False, timeout=60) as client:
        answers = await asyncio.gather(*(client.get(f'{base}/small?{n % 50}') for n in range(300)))
        assert {(one.status_code, one.text, one.http_version) for one in answers} == {(200, 'hello', 'HTTP/2')}
asyncio.run(many())
print('300 at once')
