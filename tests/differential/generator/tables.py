"""The tables that random statements read and write. Names that repeat are there for USING and NATURAL."""

import random

# Column types by the names under which expressions are made of them, and how both servers write them.
TYPES = {
    "int": "int",
    "bigint": "bigint",
    "numeric": "numeric(12,3)",
    "float": "float8",
    "text": "text",
    "bool": "boolean",
    "date": "date",
    "timestamp": "timestamp without time zone",
    "instant": "timestamp with time zone",
    "interval": "interval",
    "ints": "int[]",
    "texts": "text[]",
    "json": "jsonb",
}

# name -> {column: type}; `id` is the key.
TABLES = {
    "r": {"id": "int", "a": "int", "b": "int", "s": "text", "n": "numeric", "flag": "bool", "d": "date"},
    "u": {"id": "int", "a": "int", "c": "bigint", "s": "text", "f": "float", "ts": "timestamp", "iv": "interval"},
    "v": {"id": "int", "b": "int", "n": "numeric", "tz": "instant", "xs": "ints", "ys": "texts", "j": "json"},
    "w": {"id": "int", "k": "int", "s": "text"},
    "e": {"id": "int", "a": "int", "s": "text"},
}
ROWS = {"r": 12, "u": 10, "v": 9, "w": 4, "e": 0}

# The table that statements write, each in a transaction that is rolled back.
WRITTEN = {"id": "int", "a": "int", "b": "int", "s": "text", "n": "numeric", "d": "date"}

VALUES = {
    "int": ["1", "0", "2", "3", "-1", "7", "10"],
    "bigint": ["1", "0", "5", "-3", "3000000000"],
    "numeric": ["1.5", "0", "2", "-0.25", "10.125", "100"],
    "float": ["1.5", "0", "-2.25", "100", "0.125"],
    "text": ["'a'", "'b'", "''", "'ab'", "'Zoë'", "'a b'", "'10'", "'x_y%'"],
    "bool": ["true", "false"],
    "date": ["'2024-01-01'", "'2024-02-29'", "'2023-12-31'", "'1999-07-04'", "'2024-03-31'"],
    "timestamp": ["'2024-01-01 00:00:00'", "'2024-02-29 12:30:45.5'", "'2023-12-31 23:59:59.999999'", "'1969-07-20 20:17:40'"],
    "instant": ["'2024-01-01 00:00:00+00'", "'2024-03-31 01:30:00+00'", "'2023-10-29 00:30:00+00'", "'1969-07-20 20:17:40+02'"],
    "interval": ["'1 day'", "'0'", "'2 hours'", "'1 mon'", "'-3 days 04:05:06'", "'1 year 2 mons'", "'00:00:01.5'"],
    "ints": ["'{1,2,3}'", "'{}'", "'{3,NULL,1}'", "'{7}'"],
    "texts": ["'{a,b}'", "'{}'", "'{a,NULL}'", "'{\"x y\",b,a}'"],
    "json": ["'{\"a\": 1, \"b\": [1, 2]}'", "'[]'", "'[1, \"x\", null]'", "'\"t\"'", "'{\"a\": {\"c\": true}}'", "'7'"],
}


def literal(choices, kind):
    """A value of the type, as an expression that has it."""
    value = choices.one(*VALUES[kind])
    if kind in ("bool", "int") or (kind == "numeric" and "." in value):
        return f"({value})" if value.startswith("-") else value
    if kind == "text":
        return choices.one(value, f"{value}::text")
    return f"({value})::{TYPES[kind].split('(')[0]}" if value.startswith("-") else f"{value}::{TYPES[kind].split('(')[0]}"


def definitions():
    """The statements that make the tables, the same on every run."""
    source = random.Random(15)
    for name, columns in (TABLES | {"z": WRITTEN}).items():
        listed = ", ".join(f"{column} {TYPES[kind]}" for column, kind in columns.items())
        yield f"CREATE TABLE {name} ({listed}, PRIMARY KEY (id))"
        for key in range(1, ROWS.get(name, 6) + 1):
            cells = [str(key)]
            for column, kind in list(columns.items())[1:]:
                cells.append("NULL" if source.random() < 0.2 else source.choice(VALUES[kind]))
            yield f"INSERT INTO {name} VALUES ({', '.join(cells)})"
