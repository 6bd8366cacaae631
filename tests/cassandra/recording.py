"""Writes what both servers answered alike into a query file, which runs in every storage state without Cassandra.

The file has Keyspan's texts of the values, which were compared with Cassandra's.
"""

import re

HEAD = """# Random statements that Cassandra 5 answered alike. Written by `cargo xtask cassandra --random {count} --seed {seed}
# --record`; not by hand.

statement ok
{user_type}
"""


class Recording:
    def __init__(self, path, user_type, given):
        self.path = path
        self.parts = [HEAD.format(count=given.random, seed=given.seed, user_type=user_type)]

    def scenario(self, seed, table, done):
        """Adds the statements of a table, from its definition on, as (statement, kind, our answer)."""
        renamed = lambda text: re.sub(rf"\b{table}\b", f"t{seed}", text)
        self.collections = set(re.findall(r"(\w+) (?:list|set|map)<", done[0][0].text))
        for statement, kind, answer in done:
            self.parts.extend(renamed(part) for part in self.records(statement, kind, answer))

    def records(self, statement, kind, answer):
        batch = re.match(r"(BEGIN .*?BATCH(?: USING TIMESTAMP \d+)?) (.*); (APPLY BATCH)$", statement.text)
        if statement.text in ("FLUSH", "COMPACT"):
            # The states of the query files are about that.
            return []
        if kind == "refused by both":
            return [] if batch else [f"statement error\n{statement.text}\n"]
        if batch:
            return [f"statement ok\n{part}\n" for part in (batch[1], *batch[2].split("; "), batch[3])]
        if statement.kind not in ("query", "conditional"):
            return [f"statement ok\n{statement.text}\n"]
        if self.collections & set(re.findall(r"TTL\((\w+)\)", statement.text)):
            return []
        return [query(statement, answer)]

    def write(self):
        self.path.write_text("\n".join(self.parts))


def query(statement, answer):
    """A query and its rows. A time to live goes on: it is recorded in ten thousands of seconds."""
    lives = [place for place, name in enumerate(answer.names) if name.startswith("ttl(")]
    rows = [list(row) for row in answer.texts]
    for row in rows:
        for place in lives:
            row[place] = row[place] and str(round(int(row[place]) / 10_000))
    shown = lambda value: "NULL" if value is None else value or "(empty)"
    rows = [list(map(shown, row)) for row in rows]
    ordered = statement.ordered or statement.kind == "conditional"
    lines = [" ".join(row) for row in (rows if ordered else sorted(rows))]
    text = re.sub(r"(TTL\([^()]+\))", r"round(\1 / 10000.0)", statement.text)
    head = f"query {'T' * len(answer.names)}{'' if ordered else ' rowsort'}"
    return "\n".join([head, text, "----", *lines, ""])
