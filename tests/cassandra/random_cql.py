"""Random statements over one table: writes that meet in the same rows, and queries of what they left."""

import dataclasses

from schema import LARGE, SCALARS


def in_json(ty, literal):
    """A literal of CQL as JSON."""
    if literal[0] in "'" or ty in ("uuid", "timeuuid", "blob"):
        return literal if literal == "null" else f'"{literal.strip(chr(39))}"'
    return literal


@dataclasses.dataclass(frozen=True)
class Statement:
    """`kind` is schema, write, conditional, query, or ours: of Keyspan alone. Rows of a query that is not `ordered` are
    compared in any order.
    """

    text: str
    kind: str
    ordered: bool = False


class Statements:
    """`stamped` tables are written with small timestamps, which meet often; others with the servers' own, and with IF."""

    def __init__(self, table, draw):
        self.table, self.draw = table, draw
        self.counter = table.regular[0].type.kind == "counter"
        self.stamped = not self.counter and draw.random() < 0.6
        # No two alike, since Cassandra counts when a cell expires in seconds, Keyspan in microseconds.
        self.ttl = 100_000
        # A list that is written as a whole counts from 0: of two written in one microsecond the elements meet.
        self.whole_lists = True
        # Few keys, so that writes meet.
        values = lambda column: LARGE.get(column.type.name, SCALARS[column.type.name])
        self.pool = {column.name: draw.sample(values(column), 2) for column in table.key}
        for name, values in self.pool.items():
            self.pool[name] = [value for value in values if value not in ("''", "0x")] or ["'a'", "'b'"][: len(values)]
        for column in table.partition:
            if column.type.name == "blob":
                self.pool[column.name] = ["0xcafe", "0x00"]

    def indexes(self):
        """Keyspan answers by indexes what Cassandra filters."""
        for column in self.table.regular:
            if column.type.kind == "counter" or not self.likely(15):
                continue
            parts = {"map": ("KEYS", "VALUES", "ENTRIES"), "set": ("VALUES",), "list": ("VALUES",), "frozen": ("FULL",)}
            part = self.draw.choice(parts.get(column.type.kind, ("",)))
            target = f"{part}({column.name})" if part else column.name
            yield Statement(f"CREATE INDEX ON {self.table.name} ({target})", "ours")

    def upkeep(self):
        """Rows go to disk, and are merged there."""
        return Statement(self.draw.choice(("FLUSH", "FLUSH", "COMPACT")), "ours")

    def likely(self, percent):
        return self.draw.random() * 100 < percent

    def some(self, columns, least=1):
        chosen = self.draw.sample(columns, self.draw.randint(min(least, len(columns)), len(columns)))
        return [column for column in columns if column in chosen]

    def key(self, column):
        return self.draw.choice(self.pool[column.name])

    def equal(self, columns, lists=False):
        value = lambda column: self.one_of(column) if lists and self.likely(8) else f"= {self.key(column)}"
        return [f"{column.name} {value(column)}" for column in columns]

    def one_of(self, column):
        return f"IN ({', '.join(self.key(column) for _ in range(self.draw.randint(1, 3)))})"

    # Writes

    def write(self):
        if self.counter:
            return Statement(self.counter_write(), "write")
        if not self.stamped and self.likely(30):
            self.whole_lists = True
            return Statement(self.conditional(), "conditional")
        self.whole_lists = not self.stamped
        if self.likely(12):
            self.whole_lists = False
            return Statement(self.batch(), "write")
        if self.likely(4):
            return Statement(self.json_insert(), "write")
        return Statement(self.blind(self.stamped), "write")

    def blind(self, stamped):
        chance = self.draw.random()
        if chance < 0.4:
            return self.insert(stamped)
        return self.update(stamped) if chance < 0.72 else self.delete(stamped)

    def batch(self):
        own = self.stamped and self.likely(40)
        using = f" USING TIMESTAMP {self.stamp()}" if self.stamped and not own else ""
        kind = self.draw.choice(("", "UNLOGGED "))
        inside = "; ".join(self.blind(own) for _ in range(self.draw.randint(1, 4)))
        return f"BEGIN {kind}BATCH{using} {inside}; APPLY BATCH"

    def stamp(self):
        return 1000 + self.draw.randrange(8)

    def using(self, stamped, ttl=True):
        parts = [f"TIMESTAMP {self.stamp()}"] if stamped else []
        if ttl and self.likely(20):
            self.ttl += 10_000
            parts.append(f"TTL {self.draw.choice((self.ttl, 1_000_000 - self.ttl))}")
        return f" USING {' AND '.join(parts)}" if parts else ""

    def value(self, column):
        if column.type.kind == "list" and not self.whole_lists:
            return "null"
        return "null" if self.likely(12) else column.type.literal(self.draw)

    def insert(self, stamped, condition=""):
        partial = self.table.static and self.likely(20)
        columns = list(self.table.partition if partial else self.table.key)
        columns += self.some(self.table.static, least=1 if partial else 0)
        columns += [] if partial else self.some(self.table.regular, least=0)
        keys = {column.name for column in self.table.key}
        values = [self.key(column) if column.name in keys else self.value(column) for column in columns]
        names = ", ".join(column.name for column in columns)
        using = self.using(stamped)
        return f"INSERT INTO {self.table.name} ({names}) VALUES ({', '.join(values)}){condition}{using}"

    def json_insert(self):
        columns = self.table.key + [column for column in self.some(self.table.regular, 0) if column.type.kind == "scalar"]
        keys = {column.name for column in self.table.key}
        value = lambda column: self.key(column) if column.name in keys else self.value(column)
        fields = [f'"{column.name}": {in_json(column.type.name, value(column))}' for column in columns]
        default = self.draw.choice((" DEFAULT UNSET", " DEFAULT NULL", ""))
        if any(column.type.kind == "list" for column in self.table.regular):
            default = " DEFAULT UNSET"
        return f"INSERT INTO {self.table.name} JSON '{{{', '.join(fields)}}}'{default}{self.using(self.stamped)}"

    def update(self, stamped, condition=""):
        static = bool(self.table.static) and self.likely(25)
        columns = self.some(self.table.static if static else self.table.regular)
        if not static and self.table.static and self.likely(20):
            columns = columns + self.some(self.table.static)
        where = self.table.partition if static else self.table.key
        changes = ", ".join(self.change(column) for column in columns)
        head = f"UPDATE {self.table.name}{self.using(stamped)} SET {changes}"
        return f"{head} WHERE {' AND '.join(self.equal(where, not condition))}{condition}"

    def change(self, column):
        name, ty = column.name, column.type
        if ty.kind in ("list", "set", "map") and (self.likely(70) or ty.kind == "list" and not self.whole_lists):
            chance = self.draw.random()
            part = ty.some(self.draw, self.draw.randint(0, 2))
            if ty.kind == "list" and chance < 0.3:
                return f"{name} = {part} + {name}"
            if chance < 0.5:
                return f"{name} = {name} + {part}"
            if chance < 0.75:
                if ty.kind == "map":
                    part = "{" + ", ".join({self.element(ty.key): None for _ in range(2)}) + "}"
                return f"{name} = {name} - {part}"
            if ty.kind == "map":
                return f"{name}[{self.element(ty.key)}] = {'null' if self.likely(20) else self.element(ty.value)}"
            if ty.kind == "list":
                return f"{name}[{self.draw.randrange(3)}] = {self.element(ty.value)}"
            return f"{name} = {name} + {part}"
        return f"{name} = {self.value(column)}"

    def element(self, ty):
        return self.draw.choice(SCALARS[ty])

    def delete(self, stamped, condition=""):
        using = self.using(stamped, ttl=False)
        chance = self.draw.random()
        if chance < 0.35:
            static = bool(self.table.static) and self.likely(30)
            columns = self.some(self.table.static if static else self.table.regular)
            cells = ", ".join(self.cell(column) for column in columns)
            where = self.equal(self.table.partition if static else self.table.key, not condition)
            return f"DELETE {cells} FROM {self.table.name}{using} WHERE {' AND '.join(where)}{condition}"
        where = self.equal(self.table.key, not condition)
        if not condition and self.table.clustering and chance < 0.75:
            where = self.restricted(self.draw.randrange(len(self.table.clustering) + 1), ranges=True, lists=True)
        return f"DELETE FROM {self.table.name}{using} WHERE {' AND '.join(where)}{condition}"

    def cell(self, column):
        ty = column.type
        if ty.kind == "map" and self.likely(60):
            return f"{column.name}[{self.element(ty.key)}]"
        if ty.kind == "set" and self.likely(40):
            return f"{column.name}[{self.element(ty.value)}]"
        if ty.kind == "list" and self.likely(40):
            return f"{column.name}[{self.draw.randrange(3)}]"
        return column.name

    def conditional(self):
        chance = self.draw.random()
        if chance < 0.3:
            return self.insert(False, " IF NOT EXISTS")
        tests = lambda: " AND ".join(self.test() for _ in range(self.draw.choice((1, 1, 2))))
        condition = " IF EXISTS" if self.likely(25) else f" IF {tests()}"
        return self.update(False, condition) if chance < 0.7 else self.delete(False, condition)

    def test(self):
        column = self.draw.choice(self.table.regular + self.table.static)
        name, ty = column.name, column.type
        if ty.kind == "map" and self.likely(60):
            return f"{name}[{self.element(ty.key)}] {self.compare()} {self.element(ty.value)}"
        if ty.kind == "list" and self.likely(40):
            return f"{name}[{self.draw.randrange(2)}] {self.compare()} {self.element(ty.value)}"
        if ty.kind == "scalar" and self.likely(20):
            return f"{name} IN ({ty.literal(self.draw)}, {ty.literal(self.draw)})"
        if self.likely(20):
            return f"{name} {self.draw.choice(('=', '!='))} null"
        comparison = self.compare() if ty.kind == "scalar" else self.draw.choice(("=", "!="))
        return f"{name} {comparison} {ty.literal(self.draw)}"

    def compare(self):
        return self.draw.choice(("=", "=", "=", "!=", "<", ">="))

    def counter_write(self):
        """No DELETE: what comes after it is the one difference that is meant (docs/decisions.md)."""
        if self.likely(20):
            inside = "; ".join(self.increment() for _ in range(self.draw.randint(1, 3)))
            return f"BEGIN COUNTER BATCH {inside}; APPLY BATCH"
        return self.increment()

    def increment(self):
        change = lambda column: f"{column.name} = {column.name} {self.draw.choice('+-')} {self.draw.randrange(9)}"
        changes = ", ".join(change(column) for column in self.some(self.table.regular))
        return f"UPDATE {self.table.name} SET {changes} WHERE {' AND '.join(self.equal(self.table.key))}"

    # Queries

    def restricted(self, count, ranges=False, lists=False):
        """The partition, equality on so many clustering columns, and perhaps a range or list on the next."""
        terms = self.equal(self.table.partition) + self.equal(self.table.clustering[:count], lists)
        rest = self.table.clustering[count:]
        if rest and ranges and self.likely(70):
            column, chance = rest[0], self.draw.random()
            if lists and chance < 0.25:
                terms.append(f"{column.name} {self.one_of(column)}")
            elif chance > 0.8:
                bounds = (self.draw.choice(pair) for pair in ((">", ">="), ("<", "<=")))
                terms += [f"{column.name} {bound} {self.key(column)}" for bound in bounds]
            elif len(rest) > 1 and chance < 0.4 and self.same_direction(rest[:2]):
                names = f"({rest[0].name}, {rest[1].name})"
                terms.append(f"{names} {self.draw.choice(('<', '<=', '>', '>='))} ({self.key(rest[0])}, {self.key(rest[1])})")
            else:
                terms.append(f"{column.name} {self.draw.choice(('<', '<=', '>', '>='))} {self.key(column)}")
        return terms

    def same_direction(self, columns):
        return len({column.descending for column in columns}) == 1

    def queries(self):
        """All rows first, so that every difference shows, then some others."""
        yield self.everything()
        others = (self.cells, self.partition, self.partition, self.aggregate, self.filtered, self.distinct, self.json)
        for _ in range(self.draw.randint(1, 3)):
            yield self.draw.choice((*others, self.per_partition))()

    def everything(self):
        return Statement(f"SELECT {self.names(self.table.columns)} FROM {self.table.name}", "query")

    def names(self, columns):
        return ", ".join(column.name for column in columns)

    def cells(self):
        """When cells were written and when they expire."""
        asked = []
        keys = self.names(self.table.key)
        for column in self.some(self.table.regular + self.table.static):
            if column.type.kind in ("scalar", "frozen"):
                asked += ([f"WRITETIME({column.name})"] if self.stamped else []) + [f"TTL({column.name})"]
            elif column.type.kind == "map" and self.likely(50):
                cell = f"{column.name}[{self.element(column.type.key)}]"
                asked += ([f"WRITETIME({cell})"] if self.stamped else []) + [f"TTL({cell})"]
            elif column.type.kind in ("set", "map", "list"):
                asked += ([f"WRITETIME({column.name})", f"MAXWRITETIME({column.name})"] if self.stamped else [])
                asked += [f"TTL({column.name})"]
        return Statement(f"SELECT {', '.join([keys, *asked])} FROM {self.table.name}", "query")

    def partition(self):
        count = self.draw.randrange(len(self.table.clustering) + 1)
        terms = self.restricted(count, ranges=True, lists=True)
        columns = self.some(self.table.columns)
        items = [self.item(column) for column in columns]
        text = f"SELECT {', '.join(items)} FROM {self.table.name} WHERE {' AND '.join(terms)}"
        if self.table.clustering and self.likely(30):
            backwards = self.likely(60)
            direction = lambda column: "DESC" if column.descending != backwards else "ASC"
            text += " ORDER BY " + ", ".join(f"{column.name} {direction(column)}" for column in self.table.clustering)
        if self.likely(30):
            text += f" LIMIT {self.draw.randint(1, 3)}"
        return Statement(text, "query", ordered=True)

    def item(self, column):
        if column.type.kind == "map" and self.likely(30):
            return f"{column.name}[{self.element(column.type.key)}]"
        return column.name

    def aggregate(self):
        groups = self.draw.choice((0, len(self.table.partition), len(self.table.partition) + min(1, len(self.table.clustering))))
        grouped = self.table.key[:groups]
        column = self.draw.choice(self.table.columns)
        call = self.draw.choice(("count(*)", f"count({column.name})", *self.comparable(column)))
        items = [column.name for column in grouped] + [call]
        text = f"SELECT {', '.join(items)} FROM {self.table.name}"
        if self.likely(40):
            text += f" WHERE {' AND '.join(self.equal(self.table.partition))}"
        if grouped:
            text += f" GROUP BY {self.names(grouped)}"
        return Statement(text, "query")

    def comparable(self, column):
        if column.type.kind != "scalar" or column.type.name in ("boolean", "blob", "inet", "uuid", "timeuuid"):
            return ()
        return (f"min({column.name})", f"max({column.name})")

    def filtered(self):
        column = self.draw.choice(self.table.columns)
        name, ty = column.name, column.type
        if ty.kind == "map":
            key, value = self.element(ty.key), self.element(ty.value)
            terms = (f"{name} CONTAINS {value}", f"{name} CONTAINS KEY {key}", f"{name}[{key}] = {value}")
            term = self.draw.choice(terms)
        elif ty.kind in ("list", "set"):
            term = f"{name} CONTAINS {self.element(ty.value)}"
        elif ty.kind == "scalar":
            term = f"{name} {self.draw.choice(('=', '<', '>=', '>'))} {ty.literal(self.draw)}"
        elif ty.kind == "frozen":
            term = f"{name} = {ty.literal(self.draw)}"
        else:
            term = f"{name} > 3"
        return Statement(f"SELECT {self.names(self.table.columns)} FROM {self.table.name} WHERE {term} ALLOW FILTERING", "query")

    def distinct(self):
        columns = self.table.partition + self.table.static
        return Statement(f"SELECT DISTINCT {self.names(columns)} FROM {self.table.name}", "query")

    def json(self):
        columns = self.some(self.table.columns)
        where = " AND ".join(self.equal(self.table.partition))
        text = f"SELECT JSON {self.names(columns)} FROM {self.table.name} WHERE {where}"
        return Statement(text, "query", ordered=True)

    def per_partition(self):
        text = f"SELECT {self.names(self.table.columns)} FROM {self.table.name} PER PARTITION LIMIT {self.draw.randint(1, 2)}"
        return Statement(text, "query")
