"""A random table of families: its definition in SQL, and its form in Bigtable."""

import dataclasses

import rules
import values
from values import Part, Path

KEYS = 5
QUALIFIERS = 5
# Of some families, in which a row has more cells than a block.
WIDE = 300


@dataclasses.dataclass
class Family:
    name: str
    qualifier: Path
    value: values.Type
    rule: rules.Rule
    # The qualifiers that are written, in their order.
    pool: list

    def type(self):
        parts = [f"{part.name} {part.type.name}{' DESC' if part.descending else ''}" for part in self.qualifier.parts]
        plain = self.qualifier.parts[0].type.name
        return f"family<{plain if len(parts) == 1 else '(' + ', '.join(parts) + ')'}, {self.value.name}>"

    def cell(self, qualifier):
        return f"{self.name}[{self.qualifier.literal(qualifier)}]"

    def map(self, cells):
        literal = self.value.literal
        return "{" + ", ".join(f"{self.qualifier.literal(q)}: {literal(value)}" for q, value in cells) + "}"


@dataclasses.dataclass
class Table:
    key: Path
    # The keys that are written, in their order.
    keys: list
    families: dict

    def definition(self, name):
        columns = [f"{part.name} {part.type.name}" for part in self.key.parts]
        columns += [f"{family.name} {family.type()}{family.rule.text()}" for family in self.families.values()]
        key = f"PRIMARY KEY ({', '.join(self.key.columns)})"
        order = [part.name for part in self.key.parts if part.descending]
        options = f" WITH CLUSTERING ORDER BY ({order[0]} DESC)" if order else ""
        return f"CREATE TABLE {name} ({', '.join([*columns, key])}){options}"

    def rules(self):
        return {name: family.rule for name, family in self.families.items()}


def path(draw, names, types, both):
    """Of one part, or a text and a number of which one descends."""
    if not both:
        return Path((Part(names[0], draw.choice(types)),))
    return Path((Part(names[1], values.TEXT), Part(names[2], values.INT, draw.random() < 0.5)))


def family(draw, name, plain):
    qualifier = path(draw, ("qualifier", "part", "number"), values.QUALIFIERS, draw.random() < 0.2)
    value = draw.choice(values.VALUES)
    if plain:
        qualifier, value = Path((Part("qualifier", values.TEXT),)), draw.choice((values.TEXT, values.TEXT, values.BIGINT))
    elif draw.random() < 0.08:
        qualifier = Path((Part("qualifier", values.INT),))
        return Family(name, qualifier, value, rules.rule(draw), [(7 * at,) for at in range(-WIDE // 2, WIDE // 2)])
    size = min(QUALIFIERS, len(qualifier.parts[0].type.pool))
    return Family(name, qualifier, value, rules.rule(draw), qualifier.pool(draw, size))


def table(draw):
    """One of five has texts alone, which commands of HBase's shell take."""
    plain = draw.random() < 0.2
    key = path(draw, ("key", "site", "room"), (values.TEXT,) if plain else values.KEYS, not plain and draw.random() < 0.25)
    keys = [found for found in key.pool(draw, KEYS) if key.bytes(found)]
    names = [f"f{at}" for at in range(draw.randint(1, 3))]
    return Table(key, keys, {name: family(draw, name, plain) for name in names})
