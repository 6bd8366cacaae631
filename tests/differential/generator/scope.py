"""What an expression may name: columns, and calls that were made beforehand and are used as if they were columns."""

import dataclasses


@dataclasses.dataclass
class Scope:
    """Columns as (text, type); those of the query itself before those of outer queries."""

    columns: list = dataclasses.field(default_factory=list)
    # Aggregates, windows and expressions that are grouped by: a subquery cannot name them.
    made: list = dataclasses.field(default_factory=list)
    outer: list = dataclasses.field(default_factory=list)
    # Columns that tell all rows of the query apart.
    keys: list = dataclasses.field(default_factory=list)
    no_subqueries: bool = False

    def of(self, kind):
        return [text for text, has in self.columns + self.made + self.outer if has == kind]

    def kinds(self):
        return list(dict.fromkeys(kind for _, kind in self.columns + self.made))

    def as_outer(self):
        """What a subquery sees of this one. Names without a table would be its own there."""
        return [column for column in self.columns if "." in column[0]] + self.outer

    def joined(self, other, columns=None):
        """Both sides; a merged column has its name alone only as long as no other table comes."""
        columns = columns or [column for column in self.columns + other.columns if "." in column[0]]
        return Scope(columns, [], self.outer, self.keys + other.keys)

    def alone(self):
        """The same without subqueries, where they would be too many or are not allowed."""
        return dataclasses.replace(self, no_subqueries=True)
