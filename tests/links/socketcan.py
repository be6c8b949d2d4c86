"""CAN interfaces on a kernel without CAN, for programs that open SocketCAN and nothing else: see can_stand_in.c.

An interface is a Unix socket; its bus is an emulated slcan adapter on a terminal.
"""

import os
import pathlib
import socket
import struct
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager

EXTENDED = 0x8000_0000
LENGTHS = [0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 20, 24, 32, 48, 64]


def line(raw: bytes) -> bytes:
    """A frame of the kernel's as an slcan adapter is sent it."""
    number, length, flags = struct.unpack_from("=IBB", raw)
    fd, extended = len(raw) == 72, bool(number & EXTENDED)
    kind = ("b" if flags & 1 else "d") if fd else "t"
    head = f"{number & 0x1FFF_FFFF:08X}" if extended else f"{number:03X}"
    data = raw[8 : 8 + length].hex().upper()
    return f"{kind.upper() if extended else kind}{head}{LENGTHS.index(length):X}{data}\r".encode()


def frame(line: bytes) -> "bytes | None":
    """What an slcan adapter reports, as the kernel's frame."""
    text = line.lstrip(b"\a").decode("ascii")
    if text[:1] not in tuple("tTdDbB"):
        return None
    end = 9 if text[0].isupper() else 4
    number = int(text[1:end], 16) | (EXTENDED if text[0].isupper() else 0)
    data = bytes.fromhex(text[end + 1 : end + 1 + 2 * LENGTHS[int(text[end], 16)]])
    if text[0] in "tT":
        return struct.pack("=IB3x8s", number, len(data), data)
    return struct.pack("=IBB2x64s", number, len(data), int(text[0] in "bB"), data)


class Interface:
    """Passes frames on between an adapter and the programs that open the interface, until the adapter is gone."""

    def __init__(self, path: pathlib.Path, terminal: str, fd: bool) -> None:
        self.adapter = os.open(terminal, os.O_RDWR | os.O_NOCTTY)
        os.write(self.adapter, b"C\rS8\r" + (b"Y5\r" if fd else b"") + b"O\r")
        self.listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listening.bind(str(path))
        self.listening.listen()
        self.clients: "list[socket.socket]" = []
        for work in (self.accept, self.receive):
            threading.Thread(target=work, daemon=True).start()

    def accept(self) -> None:
        while True:
            try:
                client, _ = self.listening.accept()
            except OSError:
                return
            self.clients.append(client)
            threading.Thread(target=self.send, args=[client], daemon=True).start()

    def send(self, client: socket.socket) -> None:
        try:
            while raw := client.recv(72):
                os.write(self.adapter, line(raw))
                # As the kernel does, other programs receive it, too.
                self.forward(raw, [other for other in self.clients if other is not client])
        except OSError:
            # It has gone with frames that it did not read, or the adapter has.
            pass
        self.clients.remove(client)

    def receive(self) -> None:
        rest = b""
        while True:
            try:
                rest += os.read(self.adapter, 65536)
            except OSError:
                return
            *lines, rest = rest.split(b"\r")
            for raw in filter(None, map(frame, lines)):
                self.forward(raw, self.clients[:])

    def forward(self, raw: bytes, clients: "list[socket.socket]") -> None:
        for client in clients:
            try:
                client.send(raw, socket.MSG_DONTWAIT)
            except OSError:
                # It does not read, or has gone.
                pass

    def close(self) -> None:
        self.listening.close()
        os.close(self.adapter)


def arm(family: str, settings: str) -> str:
    """The robot file of one joint, whose servo has id 1 and these settings of its family."""
    return f"""
[bus.main]
link = "slcan"
path = "/dev/null"

[[servo]]
name = "hip"
bus = "main"
family = "{family}"
id = 1
{family} = {{ {settings} }}
limits = {{ position = [-1.5, 1.5], velocity = 3 }}
joint = {{ inertia = 0.02, viscous = 0, coulomb = 0 }}
"""


@contextmanager
def interface(folder: pathlib.Path, terminal: str, fd: bool = False) -> "Iterator[dict[str, str]]":
    """The interface `can0`; the environment in which a program finds it."""
    library = folder / "can_stand_in.so"
    source = pathlib.Path(__file__).with_name("can_stand_in.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-Wall", "-Werror", "-o", library, source, "-ldl"], check=True)
    interface = Interface(folder / "can0", terminal, fd)
    try:
        yield {**os.environ, "LD_PRELOAD": str(library), "CAN_STAND_IN": str(folder)}
    finally:
        interface.close()
