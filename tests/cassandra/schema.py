"""Random tables of CQL: a partition key, clustering columns, static ones, and columns of every kind of type.

Each type has few values, so that random writes meet in the same cells.
"""

import dataclasses
import random

SCALARS = {
    "int": ["1", "2", "-3", "2147483647"],
    "bigint": ["1", "-1", "256", "9223372036854775807"],
    "smallint": ["1", "-2", "300"],
    "text": ["'a'", "'b'", "'ab'", "''", "'é'"],
    "boolean": ["true", "false"],
    "double": ["1.5", "-2.25", "0.0", "1e10"],
    "timestamp": ["'2024-01-01 10:00:00+0000'", "'2024-01-01 11:00:00+0000'", "'1969-12-31 23:59:59+0000'"],
    "date": ["'2024-01-25'", "'1969-07-20'"],
    "time": ["'10:00:00'", "'23:59:59.5'"],
    "uuid": ["5b6962dd-3f90-4c93-8f61-eabfa4a803e2", "00000000-0000-4000-8000-000000000000"],
    "timeuuid": ["50554d6e-29bb-11e5-b345-feff819cdc9f", "13814000-1dd2-11b2-8080-808080808080"],
    "blob": ["0x", "0x00", "0xcafe", "0xff"],
    "inet": ["'127.0.0.1'", "'10.0.0.1'"],
    # Of two values of one microsecond the larger bytes win; these are in one order in both servers' bytes.
    "varint": ["1", "2", "100"],
    "decimal": ["1.5", "2.5", "9.5"],
}
LARGE = {"varint": ["1", "-1", "128", "12345678901234567890"]}
KEYS = ("int", "text", "bigint", "timestamp", "uuid", "blob", "timeuuid", "boolean", "date", "smallint", "varint")
# Types whose values look alike in the JSON of both servers.
INNER = ("int", "text", "boolean", "bigint", "double")
INNER_KEYS = ("int", "text", "bigint")
USER_TYPE = "CREATE TYPE pair (a int, b text)"


@dataclasses.dataclass(frozen=True)
class Type:
    """A type as it is declared; `kind` is scalar, counter, list, set, map, or frozen (nested and written as a whole)."""

    name: str
    kind: str = "scalar"
    key: str = ""
    value: str = ""

    def literal(self, draw):
        """A literal of the type, in the spelling that both servers read."""
        if self.kind == "scalar":
            return draw.choice(SCALARS[self.name])
        if self.kind == "frozen":
            return frozen_literal(self.name, draw)
        return self.some(draw, draw.randrange(4))

    def some(self, draw, count):
        """A collection of so many elements, which may be equal."""
        value = lambda ty: draw.choice(SCALARS[ty])
        if self.kind == "map":
            pairs = dict((value(self.key), value(self.value)) for _ in range(count))
            return "{" + ", ".join(f"{key}: {item}" for key, item in pairs.items()) + "}"
        items = [value(self.value) for _ in range(count)]
        return f"[{', '.join(items)}]" if self.kind == "list" else "{" + ", ".join(dict.fromkeys(items)) + "}"


def frozen_literal(name, draw):
    value = lambda ty: draw.choice(SCALARS[ty])
    if name == "tuple<int, text>":
        return f"({value('int')}, {draw.choice([value('text'), 'null'])})"
    if name == "frozen<pair>":
        return draw.choice([f"{{a: {value('int')}, b: {value('text')}}}", f"{{b: {value('text')}}}"])
    if name == "frozen<list<int>>":
        return f"[{', '.join(value('int') for _ in range(draw.randrange(3)))}]"
    if name == "frozen<set<text>>":
        return "{" + ", ".join({value("text"): None for _ in range(draw.randrange(3))}) + "}"
    return "{" + ", ".join(f"{key}: {value('int')}" for key in {value("text"): None for _ in range(draw.randrange(3))}) + "}"


FROZEN = ("tuple<int, text>", "frozen<pair>", "frozen<list<int>>", "frozen<set<text>>", "frozen<map<text, int>>")


def collection(draw):
    kind = draw.choice(("list", "set", "map"))
    key, value = draw.choice(INNER_KEYS), draw.choice(INNER)
    if kind == "map":
        return Type(f"map<{key}, {value}>", kind, key, value)
    value = draw.choice(INNER_KEYS) if kind == "set" else value
    return Type(f"{kind}<{value}>", kind, value=value)


@dataclasses.dataclass(frozen=True)
class Column:
    name: str
    type: Type
    descending: bool = False


@dataclasses.dataclass
class Table:
    name: str
    partition: list
    clustering: list
    static: list
    regular: list

    @property
    def key(self):
        return self.partition + self.clustering

    @property
    def columns(self):
        return self.key + self.static + self.regular

    def definition(self):
        columns = [f"{column.name} {column.type.name}" for column in self.key]
        columns += [f"{column.name} {column.type.name} STATIC" for column in self.static]
        columns += [f"{column.name} {column.type.name}" for column in self.regular]
        names = lambda columns: ", ".join(column.name for column in columns)
        clustering = f", {names(self.clustering)}" if self.clustering else ""
        text = f"CREATE TABLE {self.name} ({', '.join(columns)}, PRIMARY KEY (({names(self.partition)}){clustering}))"
        if any(column.descending for column in self.clustering):
            order = ", ".join(f"{column.name} {'DESC' if column.descending else 'ASC'}" for column in self.clustering)
            text += f" WITH CLUSTERING ORDER BY ({order})"
        return text


def table(name, draw):
    key = lambda prefix, number: Column(f"{prefix}{number}", Type(draw.choice(KEYS)), draw.random() < 0.4)
    partition = [key("p", number) for number in range(1 + (draw.random() < 0.25))]
    clustering = [key("c", number) for number in range(draw.choice((0, 1, 1, 2, 2, 3)))]
    if draw.random() < 0.15:
        counters = [Column(f"n{number}", Type("counter", "counter")) for number in range(1 + draw.randrange(2))]
        return Table(name, partition, clustering, [], counters)
    static = [Column(f"s{number}", any_scalar(draw)) for number in range(draw.choice((0, 0, 1, 2)))] if clustering else []
    regular = [Column(f"v{number}", any_type(draw)) for number in range(1 + draw.randrange(4))]
    return Table(name, partition, clustering, static, regular)


def any_scalar(draw):
    return Type(draw.choice(list(SCALARS)))


def any_type(draw):
    chance = draw.random()
    if chance < 0.4:
        return collection(draw)
    return Type(draw.choice(FROZEN), "frozen") if chance < 0.55 else any_scalar(draw)


def random_of(seed):
    return random.Random(seed)
