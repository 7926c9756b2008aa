"""A network of one machine with a way of its own length.

Opens a TUN device and gives back each packet that the kernel sends to it, after a delay, with source and destination exchanged. A
connection from here to the far address so comes back as a connection from the far address to a server here; both ends are in one
network namespace, and each packet between them has taken the delay. (Sums over a header do not change when the two addresses change
places, so the checksums stay right.)

    python3 delay.py DEVICE MILLISECONDS     runs until standard input closes; says `ready` when packets go through
"""

import fcntl, heapq, os, select, struct, sys, time

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
PACKETS_MAX = 100_000  # more are dropped, as a full router does

device, delay = sys.argv[1], float(sys.argv[2]) / 1000
tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH", device.encode(), IFF_TUN | IFF_NO_PI))
print("ready", flush=True)
waiting, serial = [], 0
while True:
    left = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
    ready, _, _ = select.select([tun, 0], [], [], left)
    if 0 in ready and not os.read(0, 1):
        break
    while tun in ready:
        try:
            packet = os.read(tun, 65536)
        except BlockingIOError:
            break
        if packet[0] >> 4 == 4 and len(waiting) < PACKETS_MAX:
            mirrored = packet[:12] + packet[16:20] + packet[12:16] + packet[20:]
            serial += 1
            heapq.heappush(waiting, (time.monotonic() + delay, serial, mirrored))
    while waiting and waiting[0][0] <= time.monotonic():
        os.write(tun, heapq.heappop(waiting)[2])
