"""Runs CQL against Keyspan and Cassandra 5, and tells where their answers differ.

    compare.py [--verbose] [FILE …]     statements/*.cql, or these files; fails if a difference is not listed
    compare.py --random N [--seed S]    N random tables with some forty statements each; fails if an answer differs
    compare.py --random N --record F    writes those without a difference into a query file, to be run without Cassandra
    compare.py --random N --parameters  gives Keyspan the literals as parameters

Of a statement: the same answer, both refuse, or a difference, which `differences.toml` lists with its reason or not.
Keyspan answers queries that Cassandra refuses; that is counted, not a difference.
"""

import argparse
import collections
import pathlib
import re
import sys
import time
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "differential"))

import recording  # noqa: E402
import schema  # noqa: E402
import servers  # noqa: E402
from answers import Answer, Cassandra, Keyspan  # noqa: E402
from cassandra_server import cassandra  # noqa: E402
from random_cql import Statement, Statements  # noqa: E402

WRITES = 30


class Listed:
    """The differences that are meant or known: of statements that match, and of the errors that come with them."""

    def __init__(self):
        entries = tomllib.loads((HERE / "differences.toml").read_text()).get("difference", [])
        pattern = lambda text: re.compile(text, re.I | re.S)
        self.entries = [(pattern(entry["statement"]), pattern(entry.get("answers", "")), entry["reason"]) for entry in entries]

    def reason(self, statement, ours, theirs):
        answers = f"Keyspan: {ours}\nCassandra: {theirs}"
        fits = lambda entry: entry[0].search(statement.text) and entry[1].search(answers)
        return next((entry[2] for entry in self.entries if fits(entry)), None)


class Run:
    def __init__(self, ours, theirs, verbose):
        self.ours, self.theirs, self.verbose = ours, theirs, verbose
        self.listed = Listed()
        self.counts, self.reasons, self.refused = collections.Counter(), collections.Counter(), collections.Counter()
        self.unlisted = 0
        self.tables = 0

    def compared(self, statement):
        """The kind of the answers, and they."""
        ours = self.ours.ask(statement.text)
        theirs = Answer() if statement.kind == "ours" else self.theirs.ask(statement.text)
        return difference(statement, ours, theirs), ours, theirs

    def scenario(self, statements):
        """Runs statements up to the first difference that ends it: what was run with the answers, and the difference."""
        done = []
        for statement in statements:
            kind, ours, theirs = self.compared(statement)
            reason = None if kind in FINE else self.listed.reason(statement, ours, theirs)
            done.append((statement, kind, ours, theirs, reason))
            if kind not in FINE and (reason is None or statement.kind != "query"):
                return done
        return done

    def random(self, seed, record):
        draw = schema.random_of(seed)
        table = schema.table("t", draw)
        maker = Statements(table, draw)
        statements = [Statement(table.definition(), "schema")]
        statements += maker.indexes()
        while len(statements) < WRITES:
            statements.append(maker.write())
            if draw.random() < 0.08:
                statements.append(maker.upkeep())
            if draw.random() < 0.15:
                statements += maker.queries()
        statements += [*maker.queries(), *maker.queries()]
        done = self.on_a_new_table(statements, drop=False)
        table = f"t{self.tables}"
        for statement, kind, ours, theirs, reason in done:
            self.counts[f"{kind}, listed" if reason else kind] += 1
            if reason:
                self.reasons[reason] += 1
            if kind == "refused by both":
                self.refused[re.sub(r"\d+", "0", f"{ours.error[:70]} / {theirs.error[:90]}")] += 1
            if kind == "answered by Keyspan alone":
                self.refused[re.sub(r"\d+", "0", f"answered / {theirs.error[:120]}")] += 1
        statement, kind, ours, theirs, reason = done[-1]
        if kind not in FINE and reason is None:
            self.unlisted += 1
            self.report(seed, [each[0] for each in done], kind, ours, theirs)
        elif record and not reason:
            record.scenario(seed, table, [each[:3] for each in done])
        self.drop(table)

    def on_a_new_table(self, statements, drop=True):
        self.tables += 1
        name = f"t{self.tables}"
        renamed = lambda text: re.sub(r"\bt\b", name, text)
        done = self.scenario([Statement(renamed(each.text), each.kind, each.ordered) for each in statements])
        if drop:
            self.drop(name)
        return done

    def drop(self, table):
        for server in (self.ours, self.theirs):
            server.ask(f"DROP TABLE {table}")

    def report(self, seed, statements, kind, ours, theirs):
        """Leaves out what the difference does not need, and shows the rest."""
        original = [Statement(re.sub(rf"\bt{self.tables}\b", "t", each.text), each.kind, each.ordered) for each in statements]
        shape = lambda kind, ours, theirs: (kind, bool(ours.error), bool(theirs.error))
        wanted, last = shape(kind, ours, theirs), original[-1].text

        def fails(candidate):
            statement, *found, reason = self.on_a_new_table(candidate)[-1]
            same = re.sub(rf"\bt{self.tables}\b", "t", statement.text) == last
            return same and reason is None and shape(*found) == wanted

        size = max(1, len(original) // 2)
        tries = 60
        while size:
            at = 1
            while at < len(original) - 1 and tries:
                tries -= 1
                candidate = original[:at] + original[min(at + size, len(original) - 1) :]
                if fails(candidate):
                    original = candidate
                else:
                    at += size
            size //= 2
        *_, (_, kind, ours, theirs, _) = self.on_a_new_table(original)
        print(f"-- seed {seed}: {kind}")
        print(";\n".join(each.text for each in original) + f";\nKeyspan:   {ours}\nCassandra: {theirs}\n", flush=True)

    def file(self, path):
        for server in (self.ours, self.theirs):
            server.use(path.stem)
        for statement, kind, ours, theirs, reason in self.scenario_of(path):
            self.counts[f"{kind}, listed" if reason else kind] += 1
            if reason:
                self.reasons[reason] += 1
            elif kind not in FINE:
                self.unlisted += 1
                print(f"-- {path.name}: {kind}\n{statement.text};\nKeyspan:   {ours}\nCassandra: {theirs}\n", flush=True)

    def scenario_of(self, path):
        for text in statements_of(path):
            if text.startswith("WAIT "):
                time.sleep(float(text.split()[1]))
                continue
            statement = Statement(text, kind_of(text), ordered=bool(re.search(r"\border by\b|\bjson\b", text, re.I)))
            kind, ours, theirs = self.compared(statement)
            yield statement, kind, ours, theirs, None if kind in FINE else self.listed.reason(statement, ours, theirs)

    def summary(self):
        for kind, count in sorted(self.counts.items()):
            print(f"{count:6} {kind}")
        for reason, count in self.reasons.most_common():
            print(f"{count:6} listed: {reason}")
        if self.verbose:
            for errors, count in self.refused.most_common(60):
                print(f"{count:6} {errors}")


FINE = ("same", "refused by both", "answered by Keyspan alone")


def difference(statement, ours, theirs):
    if "XX000" in ours.error:
        return "internal error"
    if ours.error and theirs.error:
        return "refused by both"
    if ours.error:
        return "refused"
    if theirs.error:
        return "answered by Keyspan alone" if statement.kind == "query" else "accepted"
    if statement.kind == "conditional":
        return "same" if same_condition(statement.text.split()[0], ours, theirs) else "applied differently"
    if statement.kind != "query":
        return "same"
    arranged = (lambda rows: rows) if statement.ordered else (lambda rows: sorted(rows, key=repr))
    rows = lambda answer: arranged([tuple(map(rounded, theirs.names, row)) for row in answer.rows])
    return "same" if rows(ours) == rows(theirs) else "rows"


def same_condition(command, ours, theirs):
    """Cassandra shows `[applied]`, and where it did not hold the columns that it has read; Keyspan all columns. Of a row
    that IF NOT EXISTS found Cassandra has not read the static columns; of a partition it has read the first row, too.
    Of a BATCH the answer to APPLY BATCH is compared.
    """
    if len(ours.rows) != len(theirs.rows) or not ours.rows:
        return len(ours.rows) == len(theirs.rows)
    shown = dict(zip(ours.names, ours.rows[0]))
    row = dict(zip(theirs.names[:1] if command == "BEGIN" else theirs.names, theirs.rows[0]))
    not_read = lambda name, value: command == "INSERT" and (name not in shown or name.startswith("s") and value is None)
    return all(shown.get(name) == value or not_read(name, value) for name, value in row.items())


def rounded(name, value):
    """Times to live go on while statements run."""
    if not name.startswith("ttl("):
        return value
    return [part and round(part / 1000) for part in value] if isinstance(value, list) else value and round(value / 1000)


def statements_of(path):
    """The statements of a file: each ends with a semicolon at the end of its line, a BATCH with APPLY BATCH. WAIT n waits."""
    text = re.sub(r"^--.*\n", "", path.read_text(), flags=re.M)
    for part in re.findall(r"\s*(BEGIN.*?APPLY BATCH|.*?);\s*(?:\n|$)", text, re.S):
        yield " ".join(part.split())


def kind_of(text):
    first = text.split()[0].upper()
    if first == "SELECT":
        return "query"
    if re.search(r"\bIF (?!NOT EXISTS \w+ \()", text) and first in ("INSERT", "UPDATE", "DELETE", "BEGIN"):
        return "conditional"
    return "write" if first in ("INSERT", "UPDATE", "DELETE", "BEGIN", "TRUNCATE") else "schema"


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--random", type=int, metavar="N", help="so many random tables")
    arguments.add_argument("--seed", type=int, default=1, help="the first random table's seed")
    arguments.add_argument("--record", type=pathlib.Path, metavar="FILE", help="write what both answer alike into a query file")
    arguments.add_argument("--parameters", action="store_true", help="give Keyspan the literals as parameters")
    arguments.add_argument("--verbose", action="store_true", help="show what both refuse, too")
    arguments.add_argument("files", nargs="*", type=pathlib.Path, help="files of statements")
    given = arguments.parse_args()
    with servers.keyspan() as ours, cassandra() as theirs:
        run = Run(Keyspan(ours, given.parameters), Cassandra(theirs), given.verbose)
        if given.random:
            for server in (run.ours, run.theirs):
                server.use("random")
                server.ask(schema.USER_TYPE)
            record = recording.Recording(given.record, schema.USER_TYPE, given) if given.record else None
            for seed in range(given.seed, given.seed + given.random):
                run.random(seed, record)
            if record:
                record.write()
        else:
            for path in given.files or sorted(HERE.glob("statements/*.cql")):
                run.file(path)
        run.summary()
    return 1 if run.unlisted else 0


if __name__ == "__main__":
    sys.exit(main())
