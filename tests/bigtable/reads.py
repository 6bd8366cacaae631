"""Reads, each as a query and as what Bigtable answers: a filter where it has one, else cells that are put together here.

Rows are compared as tuples of bytes and stamps. A stamp of the servers' clocks is their own: `CLOCK`.
"""

import dataclasses
import json
import typing

import values
from conditions import Conditions, family_filter, within
from documents import canonical, of_json
from reading_writes import column_filter
from values import stamp_of, time_literal


@dataclasses.dataclass
class Read:
    """`ours` makes a row of the query's row comparable, `theirs` gives all rows; both take the run."""

    text: str
    theirs: typing.Callable
    ours: typing.Callable
    ordered: bool = False


class Reads(Conditions):
    def __init__(self, at, draw):
        self.at, self.draw = at, draw
        self.table, self.name, self.bigtable = at.table, at.name, at.bigtable

    def all(self):
        """All cells and rows, and some others."""
        families = list(self.table.families.values())
        yield from (self.cells(family, whole=True) for family in families)
        yield self.rows_alone()
        yield self.maps([], {}, 0, False)
        kinds = (
            self.cells,
            self.cells,
            self.history,
            self.as_of,
            self.point,
            self.slice,
            self.rows_where,
            self.counts,
            self.per_row,
        )
        kinds += (self.page, self.ends, self.history_of_cell, self.rows_as_of, self.join)
        for kind in self.draw.sample(kinds, 7):
            yield kind(self.draw.choice(families))
        yield self.some_rows()
        if self.shell_fits():
            yield self.scan(self.draw.choice(families))

    # Cells

    def cells(self, family, whole=False):
        conditions, chain, rows = [], [family_filter(family)], {}
        if not whole:
            conditions, rows = self.row_condition(50)
            for part in (self.qualifier_condition, self.time_condition, self.value_condition):
                if self.likely(45):
                    condition, passes = part(family)
                    conditions, chain = [*conditions, condition], [*chain, *passes]
        key, qualifier = self.table.key.columns, family.qualifier.columns
        value = [part.format("value") for part in family.value.expressions]
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        ordered = self.likely(50)
        order = [
            f"{part.name} {'DESC' if part.descending else 'ASC'}" for part in self.table.key.parts + family.qualifier.parts
        ]
        order = f" ORDER BY {', '.join([*order, 'written_at DESC'])}" if ordered else ""
        columns = ", ".join([*key, *qualifier, "written_at", *value])
        text = f"SELECT {columns} FROM cells('{self.name}', '{family.name}'){where}{order}"
        theirs = lambda: [self.cell(cell) for cell in self.bigtable.read(chain, rows)]
        return Read(text, theirs, lambda row: self.of_cells(family, row), ordered)

    def cell(self, cell):
        key, _, qualifier, stamp, value = cell
        return key, qualifier, self.at.stamp(stamp), value

    def of_cells(self, family, row):
        key, qualifier = len(self.table.key.parts), len(family.qualifier.parts)
        return (
            self.path(self.table.key, row[:key]),
            self.path(family.qualifier, row[key : key + qualifier]),
            self.at.stamp(stamp_of(row[key + qualifier])),
            family.value.read(row[key + qualifier + 1 :]),
        )

    def path(self, path, row):
        return path.bytes(tuple(part.type.of_row(value) for part, value in zip(path.parts, row)))

    # Rows

    def row(self, read):
        """Rows that live, and their newest cells by family: {key: {family: {qualifier: value}}}."""
        found = {}
        for key, family, qualifier, _, value in read:
            found.setdefault(key, {}).setdefault(family, {})[qualifier] = value
        return found

    def alive(self, rows=None, limit=0, reverse=False):
        """The keys of the rows that have cells, or that an INSERT has made, in order."""
        everything = {cell[0] for cell in self.bigtable.read([{"cells_per_column_limit_filter": 1}], rows)}
        made = {self.table.key.bytes(key) for key in self.at.marked}
        keys = sorted(everything | {key for key in made if within(key, rows)}, reverse=reverse)
        return keys[:limit] if limit else keys

    def rows_alone(self):
        columns = ", ".join(self.table.key.columns)
        if self.likely(30):
            return Read(f"SELECT count(*) FROM {self.name}", lambda: [(len(self.alive()),)], tuple)
        theirs = lambda: [(key,) for key in self.alive()]
        return Read(f"SELECT {columns} FROM {self.name}", theirs, lambda row: (self.path(self.table.key, row),))

    def some_rows(self):
        conditions, rows = self.row_condition(70)
        return self.maps(conditions, rows, self.draw.choice((0, 1, 2, 3)), self.likely(40))

    def maps(self, conditions, rows, limit, reverse):
        """Rows with the newest value of each cell, as maps."""
        families = list(self.table.families.values())
        columns = ", ".join([*self.table.key.columns, *self.table.families])
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        order = ", ".join(f"{part.name} {'DESC' if part.descending != reverse else 'ASC'}" for part in self.table.key.parts)
        text = f"SELECT {columns} FROM {self.name}{where} ORDER BY {order}" + (f" LIMIT {limit}" if limit else "")

        def theirs():
            newest = self.row(self.bigtable.read([{"cells_per_column_limit_filter": 1}], rows))
            keys = self.alive(rows, limit, reverse)
            return [(key, *(self.at.json(family, newest.get(key, {}).get(family.name)) for family in families)) for key in keys]

        return Read(text, theirs, lambda row: self.of_maps(row), ordered=True)

    def of_maps(self, row):
        key = len(self.table.key.parts)
        return self.path(self.table.key, row[:key]), *(of_json(self.at, value) for value in row[key:])

    def of_family(self, family, chain, text, shown):
        """All rows that live with what is shown of one family's cells, of those that pass the filters."""

        def theirs():
            cells = {}
            for key, _, qualifier, stamp, value in self.bigtable.read([family_filter(family), *chain]):
                cells.setdefault(key, {}).setdefault(qualifier, []).append((stamp, value))
            return [(key, shown(cells.get(key))) for key in self.alive()]

        return Read(text, theirs, self.of_maps)

    def history(self, family):
        arguments, chain = ["with_history => true"], []
        if self.likely(40):
            count = self.draw.randint(1, 3)
            arguments, chain = [*arguments, f"latest_n => {count}"], [{"cells_per_column_limit_filter": count}]
        elif self.likely(60):
            first, last = sorted(self.draw.sample(self.at.stamps, 2))
            after, before = self.draw.choice(("after", "after_or_equal")), self.draw.choice(("before", "before_or_equal"))
            arguments += [f"{after} => {time_literal(first)}", f"{before} => {time_literal(last)}"]
            ends = (first + (after == "after"), last + (before != "before"))
            chain = [{"timestamp_range_filter": dict(zip(("start_timestamp_micros", "end_timestamp_micros"), ends))}]
        text = f"SELECT {', '.join(self.table.key.columns)}, {family.name} FROM {self.name}({', '.join(arguments)})"
        return self.of_family(family, chain, text, lambda cells: self.at.json_history(family, cells))

    def as_of(self, family):
        time = self.draw.choice(self.at.stamps)
        chain = [{"timestamp_range_filter": {"end_timestamp_micros": time + 1}}, {"cells_per_column_limit_filter": 1}]
        text = f"SELECT {', '.join(self.table.key.columns)}, {family.name} FROM {self.name}(as_of => {time_literal(time)})"
        return self.of_family(family, chain, text, lambda cells: self.at.json(family, newest(cells)))

    def point(self, family):
        qualifier = self.draw.choice(family.pool)
        text = f"SELECT {', '.join(self.table.key.columns)}, {family.cell(qualifier)} FROM {self.name}"
        chain = [*column_filter(family, qualifier), {"cells_per_column_limit_filter": 1}]
        shown = lambda cells: canonical(
            self.at.json_value(family, newest(cells)[family.qualifier.bytes(qualifier)]) if cells else None
        )
        read = self.of_family(family, chain, text, shown)
        return dataclasses.replace(read, ours=lambda row: (self.of_maps(row[:-1])[0], self.of_point(family, row[-1])))

    def of_point(self, family, value):
        """A value as a column of its type: a blob is bytes there."""
        value = value if value is None or family.value is values.VARIANT else family.value.json(family.value.of_row(value))
        return canonical(value)

    def slice(self, family):
        if len(family.qualifier.parts) > 1:
            return self.point(family)
        first, last = sorted(self.draw.sample(family.pool, 2), key=family.qualifier.bytes)
        literal = family.qualifier.literal
        low, high = map(family.qualifier.bytes, (first, last))
        kind = self.draw.choice(("both", "from", "to"))
        ends = {"start_qualifier_closed": low} if kind != "to" else {}
        ends |= {"end_qualifier_closed": high} if kind != "from" else {}
        span = f"{literal(first) if kind != 'to' else ''}..{literal(last) if kind != 'from' else ''}"
        text = f"SELECT {', '.join(self.table.key.columns)}, {family.name}[{span}] FROM {self.name}"
        chain = [{"column_range_filter": {"family_name": family.name} | ends}, {"cells_per_column_limit_filter": 1}]
        return self.of_family(family, chain, text, lambda cells: self.at.json(family, newest(cells)))

    def rows_where(self, family):
        """Rows whose newest value of a cell is this one: a filter that asks for a condition."""
        qualifier, value = self.draw.choice(family.pool), self.draw.choice(family.value.pool)
        if family.value is values.VARIANT:
            return self.point(family)
        text = f"SELECT {', '.join(self.table.key.columns)} FROM {self.name} WHERE {family.cell(qualifier)}"
        found = family.value.bytes(value)
        if self.likely(30):
            text, ends = f"{text} IS NOT NULL", []
        else:
            text += f" = {family.value.literal(value)}"
            ends = [{"value_range_filter": {"start_value_closed": found, "end_value_closed": found}}]
        chain = [*column_filter(family, qualifier), {"cells_per_column_limit_filter": 1}, *ends]
        condition = {"condition": {"predicate_filter": {"chain": {"filters": chain}}, "true_filter": {"pass_all_filter": True}}}
        theirs = lambda: [(key,) for key in dict.fromkeys(cell[0] for cell in self.bigtable.read([condition]))]
        return Read(text, theirs, lambda row: (self.path(self.table.key, row),))

    # Numbers and limits

    def counts(self, family):
        columns = ", ".join(family.qualifier.columns)
        text = f"SELECT {columns}, count(*) FROM cells('{self.name}', '{family.name}') GROUP BY {columns}"

        def theirs():
            counts = {}
            for cell in self.bigtable.read([family_filter(family)]):
                counts[cell[2]] = counts.get(cell[2], 0) + 1
            return list(counts.items())

        return Read(text, theirs, lambda row: (self.path(family.qualifier, row[:-1]), row[-1]))

    def per_row(self, family):
        """So many cells of each row, or of each column, behind some others."""
        columns = ", ".join([*self.table.key.columns, *family.qualifier.columns])
        order = [f"{part.name} {'DESC' if part.descending else 'ASC'}" for part in family.qualifier.parts]
        offset, limit = self.draw.choice((0, 0, 1, 2)), self.draw.randint(1, 4)
        group = ", ".join(self.table.key.columns)
        if self.likely(40):
            offset, group, order = 0, columns, []
        place = f"row_number() OVER (PARTITION BY {group} ORDER BY {', '.join([*order, 'written_at DESC'])}) AS place"
        value = ", ".join(part.format("value") + f" AS v{at}" for at, part in enumerate(family.value.expressions))
        names = ", ".join(f"v{at}" for at in range(len(family.value.expressions)))
        inner = f"SELECT {columns}, written_at, {value}, {place} FROM cells('{self.name}', '{family.name}')"
        text = f"SELECT {columns}, written_at, {names} FROM ({inner}) c WHERE place > {offset} AND place <= {offset + limit}"
        place = 0 if group == columns else None

        def theirs():
            cells, passed = self.bigtable.read([family_filter(family)]), {}
            # The emulator's own limits count columns twice that were collected and written again.
            if family.rule.days is None:
                chain = [family_filter(family)] + ([{"cells_per_row_offset_filter": offset}] if offset else [])
                limits = "cells_per_column_limit_filter" if place == 0 else "cells_per_row_limit_filter"
                return [self.cell(cell) for cell in self.bigtable.read([*chain, {limits: limit}])]
            for cell in cells:
                passed.setdefault(cell[: 3 if place == 0 else 1], []).append(cell)
            return [self.cell(cell) for part in passed.values() for cell in part[offset : offset + limit]]

        return Read(text, theirs, lambda row: self.of_cells(family, row))

    def page(self, family):
        """So many cells from a place on, forwards or backwards."""
        conditions, rows = self.row_condition(30)
        parts, sign = self.table.key.parts + family.qualifier.parts, self.draw.choice(("DESC", "ASC"))
        backwards = sign == "DESC"
        order = [f"{part.name} {'DESC' if part.descending != backwards else 'ASC'}" for part in parts]
        order.append(f"written_at {'ASC' if backwards else 'DESC'}")
        value = [part.format("value") for part in family.value.expressions]
        columns = ", ".join([*self.table.key.columns, *family.qualifier.columns, "written_at", *value])
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        offset, limit = self.draw.choice((0, 0, 1, 4)), self.draw.randint(1, 6)
        place = f" LIMIT {limit}" + (f" OFFSET {offset}" if offset else "")
        text = f"SELECT {columns} FROM cells('{self.name}', '{family.name}'){where} ORDER BY {', '.join(order)}{place}"

        def theirs():
            cells = self.bigtable.read([family_filter(family)], rows)
            return [self.cell(cell) for cell in (cells[::-1] if backwards else cells)[offset : offset + limit]]

        return Read(text, theirs, lambda row: self.of_cells(family, row), ordered=True)

    def ends(self, family):
        """Numbers of cells, columns and versions."""
        if len(family.qualifier.parts) > 1:
            return self.counts(family)
        name = f"cells('{self.name}', '{family.name}')"
        kind = self.draw.choice(("distinct", "first", "rows"))
        if kind == "distinct":
            text = f"SELECT DISTINCT qualifier FROM {name}"
            theirs = lambda: [(each,) for each in {cell[2] for cell in self.bigtable.read([family_filter(family)])}]
            return Read(text, theirs, lambda row: (self.path(family.qualifier, row),))
        if kind == "rows":
            key = ", ".join(self.table.key.columns)
            text = f"SELECT {key}, count(*), count(DISTINCT qualifier) FROM {name} GROUP BY {key}"

            def theirs():
                found = {}
                for cell in self.bigtable.read([family_filter(family)]):
                    found.setdefault(cell[0], []).append(cell[2])
                return [(key, len(cells), len(set(cells))) for key, cells in found.items()]

            return Read(text, theirs, lambda row: (self.path(self.table.key, row[:-2]), *row[-2:]))
        if family.qualifier.parts[0].type is values.BLOB:
            return self.counts(family)
        text = f"SELECT min(qualifier), max(qualifier), count(*) FROM {name} HAVING count(*) > 0"

        def of_all():
            cells = [cell[2] for cell in self.bigtable.read([family_filter(family)])]
            return [(min(cells), max(cells), len(cells))] if cells else []

        path = lambda value: self.path(family.qualifier, (value,))
        return Read(text, of_all, lambda row: (path(row[0]), path(row[1]), row[2]))

    def history_of_cell(self, family):
        """The versions of one cell in all rows."""
        qualifier, count = self.draw.choice(family.pool), self.draw.randint(1, 3)
        columns = ", ".join(self.table.key.columns)
        arguments = f"with_history => true, latest_n => {count}"
        text = f"SELECT {columns}, {family.cell(qualifier)} FROM {self.name}({arguments})"
        chain = [*column_filter(family, qualifier), {"cells_per_column_limit_filter": count}]
        name = family.qualifier.bytes(qualifier)
        version = lambda stamp, value: [self.at.stamp(stamp), self.at.json_value(family, value)]
        shown = lambda cells: canonical([version(*each) for each in cells[name]] if cells else None)
        read = self.of_family(family, chain, text, shown)
        of_versions = lambda value: json.loads(of_json(self.at, {"": value}))[""] if value else None
        return dataclasses.replace(
            read, ours=lambda row: (self.path(self.table.key, row[:-1]), canonical(of_versions(row[-1])))
        )

    def rows_as_of(self, family):
        """Rows in which a cell had a value at a time."""
        if family.value is values.VARIANT:
            return self.as_of(family)
        qualifier, value, time = (
            self.draw.choice(family.pool),
            self.draw.choice(family.value.pool),
            self.draw.choice(self.at.stamps),
        )
        columns = ", ".join(self.table.key.columns)
        condition = f"{family.cell(qualifier)} = {family.value.literal(value)}"
        text = f"SELECT {columns} FROM {self.name}(as_of => {time_literal(time)}) WHERE {condition}"
        found = family.value.bytes(value)
        chain = [{"timestamp_range_filter": {"end_timestamp_micros": time + 1}}, *column_filter(family, qualifier)]
        chain += [
            {"cells_per_column_limit_filter": 1},
            {"value_range_filter": {"start_value_closed": found, "end_value_closed": found}},
        ]
        theirs = lambda: [(cell[0],) for cell in self.bigtable.read(chain)]
        return Read(text, theirs, lambda row: (self.path(self.table.key, row),))

    def join(self, family):
        """Cells of two families of the same rows."""
        other = self.draw.choice(list(self.table.families.values()))
        key = self.table.key.columns
        one, two = (f"cells('{self.name}', '{each.name}')" for each in (family, other))
        columns = ", ".join(f"a.{name}" for name in key)
        on = " AND ".join(f"a.{name} = b.{name}" for name in key)
        text = f"SELECT {columns}, a.written_at, b.written_at FROM {one} a JOIN {two} b ON {on}"

        def theirs():
            left, right = (self.bigtable.read([family_filter(each)]) for each in (family, other))
            stamp = self.at.stamp
            return [(a[0], stamp(a[3]), stamp(b[3])) for a in left for b in right if a[0] == b[0]]

        stamps = lambda row: (self.at.stamp(stamp_of(each)) for each in row[-2:])
        return Read(text, theirs, lambda row: (self.path(self.table.key, row[:-2]), *stamps(row)))

    # HBase's shell

    def shell_fits(self):
        plain = lambda path: len(path.parts) == 1 and path.parts[0].type is values.TEXT
        return plain(self.table.key) and all(plain(family.qualifier) for family in self.table.families.values())

    def scan(self, family):
        """Cells in the shell's form: versions that are counted within a span of time, then filters."""
        if family.value is not values.TEXT:
            return self.rows_alone()
        count, rows, limit, reverse = self.draw.randint(1, 3), {}, 0, False
        attributes, chain = [f"COLUMNS => ['{family.name}']", f"VERSIONS => {count}"], [family_filter(family)]
        if self.likely(30):
            first, last = sorted(self.draw.sample(self.at.stamps, 2))
            attributes.append(f"TIMERANGE => [{first // 1000}, {last // 1000}]")
            chain.append({"timestamp_range_filter": {"start_timestamp_micros": first, "end_timestamp_micros": last}})
        chain.append({"cells_per_column_limit_filter": count})
        if self.likely(40):
            filters, passes = self.shell_filter(family)
            attributes.append(f'FILTER => "{filters}"')
            chain.append(passes)
        if self.likely(40):
            first, last = sorted(self.draw.sample(self.table.keys, 2), key=self.table.key.bytes)
            attributes += [f"STARTROW => {values.quoted(first[0])}", f"STOPROW => {values.quoted(last[0])}"]
            rows = {"row_ranges": [self.span(first[0].encode(), last[0].encode())]}
        elif self.likely(30):
            reverse = True
            attributes.append("REVERSED => true")
        if self.likely(30):
            limit = self.draw.randint(1, 2)
            attributes.append(f"LIMIT => {limit}")
        text = f"scan '{self.name}', {{{', '.join(attributes)}}}"
        name = lambda cell: (cell[0], cell[1].encode() + b":" + cell[2], cell[4])
        theirs = lambda: [name(cell) for cell in self.bigtable.read(chain, rows, limit, reverse)]
        return Read(text, theirs, lambda row: (row[0].encode(), row[1].encode(), row[3].encode()), ordered=True)

    def shell_filter(self, family):
        kind = self.draw.choice(("prefix", "qualifier", "value"))
        if kind == "prefix":
            return "ColumnPrefixFilter('a')", {"column_qualifier_regex_filter": rb"a\C*"}
        if kind == "qualifier":
            span = {"family_name": family.name, "start_qualifier_closed": b"ab"}
            return "QualifierFilter(>=, 'binary:ab')", {"column_range_filter": span}
        return "ValueFilter(>, 'binary:a')", {"value_range_filter": {"start_value_open": b"a"}}


def newest(cells):
    return cells and {qualifier: versions[0][1] for qualifier, versions in cells.items()}
