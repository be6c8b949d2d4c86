"""A device for `khz rtt send` that misbehaves on purpose and keeps count of what it did."""

import socket
import struct
import threading
import time
import zlib
from types import TracebackType

HEADER = 48


def reply(request: bytes) -> bytes:
    """The answer to a request, as docs/ethernet.md and the datagram's table define it."""
    bare = request[:7] + b"\x02" + bytes(8) + request[16:HEADER]
    return bare[:8] + struct.pack("<I", zlib.crc32(bare)) + bare[12:] + request[HEADER:]


class Device:
    """Answers at once, but for every fifth request, where it does what its name implies."""

    def __init__(self, behaviour: str) -> None:
        self.behaviour = behaviour
        self.asked = self.answered = self.dropped = self.duplicated = self.corrupted = self.overtaken = 0
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.socket.settimeout(0.05)
        self.address = "127.0.0.1:%d" % self.socket.getsockname()[1]
        self.held: list[tuple[float, bytes, tuple[str, int]]] = []
        self.highest = 0
        self.over = False
        self.thread = threading.Thread(target=self.serve)

    def __enter__(self) -> "Device":
        if self.behaviour == "closed port":
            self.socket.close()
        else:
            self.thread.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.over = True
        if self.thread.ident:
            self.thread.join()
        self.socket.close()

    def serve(self) -> None:
        while not self.over:
            try:
                self.socket.settimeout(0.002 if self.held else 0.05)
                request, sender = self.socket.recvfrom(2000)
            except TimeoutError:
                request = b""
            if request:
                self.take(request, sender)
            due = [entry for entry in self.held if entry[0] <= time.monotonic()]
            self.held = [entry for entry in self.held if entry not in due]
            for _, answer, to in due:
                self.answer(answer, to)

    def answer(self, answer: bytes, to: tuple[str, int]) -> None:
        self.socket.sendto(answer, to)
        self.answered += 1
        sequence = struct.unpack("<Q", answer[24:32])[0]
        self.overtaken += sequence < self.highest
        self.highest = max(self.highest, sequence)

    def take(self, request: bytes, sender: tuple[str, int]) -> None:
        fifth = self.asked % 5 == 2
        self.asked += 1
        answer = request if self.behaviour == "plain echo" else reply(request)
        if not fifth or self.behaviour in ("calm", "frozen", "plain echo"):
            self.answer(answer, sender)
        elif self.behaviour == "drops":
            self.dropped += 1
        elif self.behaviour == "duplicates":
            self.answer(answer, sender)
            self.socket.sendto(answer, sender)
            self.duplicated += 1
        elif self.behaviour == "corrupts":
            self.socket.sendto(answer[:40] + bytes([answer[40] ^ 1]) + answer[41:], sender)
            self.corrupted += 1
            self.answer(answer, sender)
        else:
            # Two periods and a half later, or just more than one: late, and overtaken by the answers between, if any.
            later_s = 0.0125 if self.behaviour == "delays" else 0.0055
            self.held.append((time.monotonic() + later_s, answer, sender))
