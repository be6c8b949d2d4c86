"""A reader of TLOG0003 logs, from the format's description alone: nothing of it is shared with the code under test."""

import struct
import zlib
from dataclasses import dataclass
from typing import Any

Value = Any
FIXED = {(3, 1): "b", (3, 2): "h", (3, 4): "i", (3, 8): "q", (4, 1): "B", (4, 2): "H", (4, 4): "I", (4, 8): "Q"}


class Bytes:
    """A cursor over bytes."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def left(self) -> int:
        return len(self.data) - self.at

    def take(self, count: int) -> bytes:
        assert 0 <= count <= self.left(), "cut off"
        self.at += count
        return self.data[self.at - count : self.at]

    def unpack(self, form: str) -> Value:
        return struct.unpack("<" + form, self.take(struct.calcsize("<" + form)))[0]

    def varuint(self) -> int:
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def counted(self) -> bytes:
        return self.take(self.varuint())

    def text(self) -> str:
        return self.counted().decode()


@dataclass
class Type:
    """A type of a schema: its code and, depending on it, fields, names or items."""

    code: int
    size: int = 0
    fields: "list[tuple[str, Type]] | None" = None
    names: dict[int, str] | None = None
    items: "list[Type] | None" = None

    @staticmethod
    def read(data: Bytes) -> "Type":
        code = data.varuint()
        if code in (3, 4):
            return Type(code, size=data.take(1)[0])
        if code == 16:
            assert data.varuint() == 0
            return Type(code, fields=read_fields(data))
        if code == 17:
            child = Type.read(data)
            names = {}
            for _ in range(data.varuint()):
                value = child.value(data)
                names[value] = data.text()
            return Type(code, names=names, items=[child])
        if code == 18:
            return Type(code, items=[Type.read(data)])
        if code == 19:
            size = data.varuint()
            return Type(code, size=size, items=[Type.read(data)])
        if code == 20:
            return Type(code, items=[Type.read(data)])
        if code == 21:
            items = []
            while (item := Type.read(data)).code:
                items.append(item)
            return Type(code, items=items)
        assert code < 24, f"type {code}"
        return Type(code)

    def value(self, data: Bytes) -> Value:
        code, items = self.code, self.items or []
        if code == 1:
            return None
        if code == 2:
            return data.take(1) != b"\0"
        if code in (3, 4):
            return data.unpack(FIXED[code, self.size])
        if code == 5:
            zigzag = data.varuint()
            return (zigzag >> 1) ^ -(zigzag & 1)
        if code == 6:
            return data.varuint()
        if code in (7, 8):
            return data.unpack("f" if code == 7 else "d")
        if code == 9:
            return data.counted()
        if code == 10:
            return data.text()
        if code == 16:
            return {name: field.value(data) for name, field in self.fields or []}
        if code == 17:
            value = items[0].value(data)
            return (self.names or {}).get(value, str(value))
        if code == 18:
            return [items[0].value(data) for _ in range(data.varuint())]
        if code == 19:
            return [items[0].value(data) for _ in range(self.size)]
        if code == 20:
            return {data.text(): items[0].value(data) for _ in range(data.varuint())}
        if code == 21:
            return items[data.varuint()].value(data)
        return data.unpack("q")


def read_fields(data: Bytes) -> list[tuple[str, Type]]:
    fields = []
    while True:
        data.varuint()
        name = data.text()
        for _ in range(data.varuint()):
            data.text()
        kind = Type.read(data)
        if data.take(1) != b"\0":
            kind.value(data)
        if kind.code == 0:
            return fields
        fields.append((name, kind))


def unsnappy(block: bytes) -> bytes:
    """A raw snappy block."""
    data, out = Bytes(block), bytearray()
    length = data.varuint()
    while data.left():
        tag = data.take(1)[0]
        if tag & 3 == 0:
            count = tag >> 2
            if count >= 60:
                count = int.from_bytes(data.take(count - 59), "little")
            out += data.take(count + 1)
            continue
        if tag & 3 == 1:
            count, offset = (tag >> 2 & 7) + 4, (tag >> 5) << 8 | data.take(1)[0]
        else:
            count, offset = (tag >> 2) + 1, int.from_bytes(data.take(2 if tag & 3 == 2 else 4), "little")
        for _ in range(count):
            out.append(out[-offset])
    assert len(out) == length
    return bytes(out)


def read(log: bytes) -> dict[str, list[dict[str, Value]]]:
    """All samples of a whole log, by the name of their record."""
    data = Bytes(log)
    assert data.take(8) == b"TLOG0003" and data.varuint() == 0
    schemas: dict[int, tuple[str, Type]] = {}
    samples: dict[str, list[dict[str, Value]]] = {}
    while data.left():
        begin = data.at
        kind, size = data.varuint(), data.varuint()
        head = data.at - begin
        body = Bytes(data.take(size))
        if kind == 1:
            identifier = body.varuint()
            assert body.varuint() == 0
            name = body.text()
            schemas[identifier] = (name, Type.read(body))
            samples[name] = []
        elif kind == 2:
            name, schema = schemas[body.varuint()]
            samples[name].append(sample(log[begin : begin + head + size], head, body, schema))
    assert log.endswith(b"TLOGIDEX"), "the log was not ended"
    return samples


def sample(block: bytes, head: int, body: Bytes, schema: Type) -> Value:
    flags = body.varuint()
    assert flags & ~0x17 == 0, f"flags {flags:#x}"
    if flags & 1:
        body.varuint()
    if flags & 2:
        body.unpack("q")
    if flags & 4:
        crc = body.unpack("I")
        at = head + body.at - 4
        assert zlib.crc32(block[:at] + bytes(4) + block[at + 4 :]) == crc, "checksum"
    payload = body.take(body.left())
    data = Bytes(unsnappy(payload) if flags & 0x10 else payload)
    value = schema.value(data)
    assert data.left() == 0
    return value
