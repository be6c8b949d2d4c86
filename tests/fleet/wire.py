"""A network that can be cut, slow and lossy: a network namespace, joined to this one by two TUN devices with a process in
between. What runs there sends real packets through the kernel's own TCP."""

import dataclasses
import fcntl
import heapq
import multiprocessing
import os
import random
import select
import struct
import subprocess
import time
from multiprocessing.connection import Connection

TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000


@dataclasses.dataclass
class Quality:
    """How packets fare, in both directions."""

    cut: bool = False
    # Of them, how many get lost: 0 to 1.
    loss: float = 0.0
    delay_s: float = 0.0
    # What passes in a second; None: all.
    bytes_per_s: float | None = None


class Direction:
    """Packets on their way from one device to the other."""

    # What waits for a slow line, as in a router: the rest is dropped.
    QUEUE = 64 * 1024

    def __init__(self, source: int, sink: int) -> None:
        self.source, self.sink = source, sink
        self.under_way: list[tuple[float, int, bytes]] = []
        self.free_at, self.count, self.random = 0.0, 0, random.Random(1)

    def take(self, quality: Quality, now: float) -> None:
        packet = os.read(self.source, 65536)
        if quality.cut or self.random.random() < quality.loss:
            return
        sent = now
        if quality.bytes_per_s:
            self.free_at = max(self.free_at, now)
            if (self.free_at - now) * quality.bytes_per_s > self.QUEUE:
                return
            sent = self.free_at = self.free_at + len(packet) / quality.bytes_per_s
        self.count += 1
        heapq.heappush(self.under_way, (sent + quality.delay_s, self.count, packet))

    def deliver(self, now: float) -> None:
        while self.under_way and self.under_way[0][0] <= now:
            os.write(self.sink, heapq.heappop(self.under_way)[2])


def carry(ends: tuple[int, int], orders: Connection) -> None:
    """Passes packets on until the connection for orders is closed."""
    ways = [Direction(*ends), Direction(*reversed(ends))]
    quality = Quality()
    while True:
        due = [way.under_way[0][0] for way in ways if way.under_way]
        wait = max(0.0, min(due) - time.monotonic()) if due else None
        ready, _, _ = select.select([*ends, orders], [], [], wait)
        if orders in ready:
            try:
                quality = orders.recv()
            except EOFError:
                return
        for way in ways:
            if way.source in ready:
                way.take(quality, time.monotonic())
            way.deliver(time.monotonic())


def device(name: str) -> int:
    end = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(end, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    return end


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, stdin=subprocess.DEVNULL)


class Wire:
    """The namespace, and the way to it. Only root may make one."""

    def __init__(self) -> None:
        number = os.getpid() % 60000
        self.name = f"khzfleet{number}"
        network = f"10.{100 + number // 250 % 100}.{number % 250}"
        # This side, and the other.
        self.here, self.there = f"{network}.1", f"{network}.2"
        ip("netns", "add", self.name)
        names = f"khzh{number}", f"khzt{number}"
        ends = device(names[0]), device(names[1])
        ip("link", "set", names[1], "netns", self.name)
        for words, at, to in (([], self.here, names[0]), (["-n", self.name], self.there, names[1])):
            ip(*words, "addr", "add", f"{at}/30", "dev", to)
            ip(*words, "link", "set", to, "up")
        ip("-n", self.name, "link", "set", "lo", "up")
        theirs, self.orders = multiprocessing.Pipe(duplex=False)
        # A fork: the devices must go with it.
        fork = multiprocessing.get_context("fork")
        self.process = fork.Process(target=self.alone, args=(ends, theirs))
        self.process.start()
        theirs.close()
        for end in ends:
            os.close(end)

    def alone(self, ends: tuple[int, int], orders: Connection) -> None:
        self.orders.close()
        carry(ends, orders)

    @property
    def within(self) -> tuple[str, ...]:
        """What a command begins with, to run on the other side."""
        return "ip", "netns", "exec", self.name

    def be(self, **quality: float | bool) -> None:
        """From now on the network is like this, and otherwise good."""
        self.orders.send(Quality(**quality))  # type: ignore[arg-type]

    def end(self) -> None:
        self.orders.close()
        self.process.join()
        ip("netns", "del", self.name)
