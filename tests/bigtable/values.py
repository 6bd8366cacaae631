"""Types of keys, qualifiers and values: how a value is written in SQL, its bytes in Bigtable, and its form in JSON.

Bytes of keys and qualifiers sort as Keyspan sorts the values, so that ranges are the same on both sides.
"""

import dataclasses
import datetime
import json
import struct
import typing

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


def quoted(text):
    return "'" + text.replace("'", "''") + "'"


def time_literal(stamp):
    return f"'{(EPOCH + datetime.timedelta(microseconds=stamp)).strftime('%Y-%m-%d %H:%M:%S.%fZ')}'"


def stamp_of(time):
    """Microseconds of a time, exactly."""
    return (time - EPOCH) // datetime.timedelta(microseconds=1)


def flipped(number, size):
    """A signed number as bytes that sort."""
    return (number + (1 << (8 * size - 1))).to_bytes(size, "big")


@dataclasses.dataclass(frozen=True)
class Type:
    """`pool` has values that meet often; `json` gives a value of the map that clients get, or a key of it as text, and
    `of_bytes` the value again. `expressions` read it from cells(), with {} for the column, for `of_row` to take.
    """

    name: str
    pool: tuple
    literal: typing.Callable
    bytes: typing.Callable
    json: typing.Callable
    of_row: typing.Callable
    of_bytes: typing.Callable = None
    expressions: tuple = ("{}",)

    def read(self, values):
        """The bytes of a value as cells() shows it."""
        return self.bytes(self.of_row(*values))


def variant_bytes(value):
    kind, number = value
    return f"{kind}:{json.dumps(number)}".encode()


def variant_literal(value):
    kind, plain = value
    if kind == "text":
        return quoted(plain)
    return f"{json.dumps(plain)}::{kind}" if kind in ("tinyint", "int", "real") else json.dumps(plain)


same = lambda value: value
hexadecimal = lambda value: f"\\x{value.hex()}"
unpacked = lambda found: struct.unpack(">q", found)[0]

TEXT = Type("text", ("", "a", "ab", "b", "c'c", "é", "z_%"), quoted, str.encode, same, same, bytes.decode)
INT = Type("int", (-70000, -1, 0, 3, 255, 256), str, lambda value: flipped(value, 4), str, same)
DATE = Type(
    "date",
    tuple(datetime.date(*day) for day in ((1969, 12, 31), (1970, 1, 1), (2024, 2, 29), (2024, 3, 1))),
    lambda value: f"'{value}'",
    lambda value: flipped((value - EPOCH.date()).days, 4),
    str,
    same,
)
BLOB = Type(
    "blob",
    (b"\x00", b"\x00\xff", b"a", b"a\x00", b"\xff"),
    lambda value: f"'{hexadecimal(value)}'",
    same,
    hexadecimal,
    bytes,
    same,
)
# Never negative: Bigtable compares numbers as the bytes that increments make.
BIGINT = Type("bigint", (0, 1, 7, 40, 255, 2**40), str, lambda value: struct.pack(">q", value), same, same, unpacked)
BOOLEAN = Type("boolean", (True, False), json.dumps, lambda value: b"\x01" if value else b"\x00", same, same, b"\x01".__eq__)
DOUBLE = Type("double", (0.5, -1.25, 3.0, 1e300), repr, lambda value: repr(float(value)).encode(), same, same, float)
VARIANT = Type(
    "variant",
    (("text", "x"), ("text", "5"), ("bigint", 5), ("double", 0.5), ("boolean", True), ("int", 5), ("tinyint", 7)),
    variant_literal,
    variant_bytes,
    lambda value: value[1],
    lambda kind, value: (kind, value),
    lambda found: (None, json.loads(found.split(b":", 1)[1])),
    ("variant_type({})", "{}"),
)

# Their empty value may not be a key of Bigtable, which has no empty row keys.
KEYS = (TEXT, TEXT, BLOB, INT)
QUALIFIERS = (TEXT, TEXT, TEXT, INT, BLOB, DATE)
VALUES = (TEXT, TEXT, BIGINT, BIGINT, BLOB, BOOLEAN, DOUBLE, VARIANT)


@dataclasses.dataclass(frozen=True)
class Part:
    """A part of a key or of a qualifier: a column."""

    name: str
    type: Type
    descending: bool = False

    def bytes(self, value):
        """Of a text that others follow the end, which is less than any letter."""
        found = self.type.bytes(value) + (b"\x00" if self.type is TEXT else b"")
        return bytes(255 - byte for byte in found) if self.descending else found


@dataclasses.dataclass(frozen=True)
class Path:
    """A key or a qualifier of one part or of two, as a tuple of values. Their bytes sort as they do."""

    parts: tuple

    @property
    def columns(self):
        return [part.name for part in self.parts]

    def bytes(self, values):
        if len(self.parts) == 1:
            return self.parts[0].type.bytes(values[0])
        return b"".join(part.bytes(value) for part, value in zip(self.parts, values))

    def literal(self, values):
        literals = [part.type.literal(value) for part, value in zip(self.parts, values)]
        return literals[0] if len(literals) == 1 else f"({', '.join(literals)})"

    def equal(self, values):
        """A condition that names this one alone."""
        return " AND ".join(f"{part.name} = {part.type.literal(value)}" for part, value in zip(self.parts, values))

    def json(self, values):
        """Its text as the key of a map."""
        if len(self.parts) == 1:
            return str(self.parts[0].type.json(values[0]))
        # The numbers of a tuple are numbers there.
        plain = [value if isinstance(value, int) else part.type.json(value) for part, value in zip(self.parts, values)]
        return json.dumps(plain, ensure_ascii=False)

    def pool(self, draw, size):
        """So many values, each drawn from the pools of the parts; none is empty."""
        found = set()
        while len(found) < size:
            found.add(tuple(draw.choice(part.type.pool) for part in self.parts))
        return sorted(found, key=self.bytes)
