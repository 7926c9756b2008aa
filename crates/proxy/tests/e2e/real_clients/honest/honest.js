// What an honest client of Node does: small pieces, many at once, slow reading. Each step is said as it passes.
const http2 = require('http2'), fs = require('fs'), net = require('net');
const [base, forward, ca] = process.argv.slice(1);
const fail = why => { console.error(why); process.exit(1); };
const connect = url => http2.connect(url, { ca: fs.readFileSync(ca) }).on('error', fail).on('goaway', code => code && fail('GOAWAY ' + code));
const session = connect(base);
const check = (ok, ...said) => ok || fail(said.join(' '));

// What came of a request: its status and its body. `on`: what is done with its stream.
const ask = (head, on, by = session) => new Promise((done, failed) => {
  const stream = by.request(head, { endStream: !on });
  let status, body = '';
  stream.setEncoding('latin1');
  stream.on('response', head => status = head[':status']);
  stream.on('data', piece => body += piece);
  stream.on('end', () => done([status, body]));
  stream.on('error', failed);
  if (on) on(stream);
});
const pieces = (count, piece) => stream => {
  for (let n = 0; n < count; n++) stream.write(piece);
  stream.end();
};

(async () => {
  for (const [count, piece] of [[2000, 'x'.repeat(50)], [3000, 'y']]) {
    const [status, body] = await ask({ ':method': 'POST', ':path': '/up' }, pieces(count, piece));
    check(status === 200 && +body === count * piece.length, status, body);
  }
  console.log('pieces');

  for (let n = 0; n < 5; n++) {
    const [status] = await ask({ ':method': 'POST', ':path': '/refused' }, pieces(1000, 'z'));
    check(status === 403, status);
  }
  console.log('refused');

  const all = await Promise.all(Array.from({ length: 300 }, (_, n) => ask({ ':path': '/small?' + n % 50 })));
  check(all.every(([status, body]) => status === 200 && body === 'hello'));
  console.log('300 at once');

  const cookie = Array.from({ length: 115 }, (_, n) => 'name' + n + '=' + 'v'.repeat(60));
  const [status, body] = await ask({ ':path': '/cookies', cookie });
  check(status === 200 && body === '115', status, body);
  console.log('cookies');

  const size = await new Promise((done, failed) => {
    const stream = session.request({ ':path': '/large' });
    let total = 0;
    stream.on('error', failed).on('end', () => done(total));
    stream.on('data', piece => {
      total += piece.length;
      stream.pause();
      setImmediate(() => stream.resume());
    });
  });
  check(size === 4 << 20, size);
  console.log('slow reader');

  for (let n = 0; n < 4; n++) {
    await Promise.all(Array.from({ length: 75 }, () => new Promise((done, failed) => {
      const stream = session.request({ ':path': '/large' });
      stream.on('error', failed).on('close', done);
      stream.on('response', () => stream.close(http2.constants.NGHTTP2_CANCEL));
    })));
  }
  console.log('given up');

  const [, long] = await ask({ ':path': '/long' }, stream => {
    stream.end();
    stream.once('data', () => ask({ ':path': '/open' }));
  });
  check(long.length === 1001, long.length);
  console.log('long stream');

  const echo = net.createServer(socket => socket.pipe(socket)).listen(0, '127.0.0.1', async () => {
    const by = connect(forward);
    const head = { ':method': 'CONNECT', ':authority': '127.0.0.1:' + echo.address().port };
    const [status, body] = await ask(head, pieces(2000, 't'.repeat(50)), by);
    check(status === 200 && body.length === 100000, status, body.length);
    console.log('tunnel');
    process.exit(0);
  });
})().catch(fail);
