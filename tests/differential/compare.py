"""Runs files of statements against Keyspan and PostgreSQL 15, and tells where their answers differ.

    compare.py [--verbose] [FILE …]    statements/*.sql, or these files; fails if a difference is not listed
    compare.py --regression [NAME …]   PostgreSQL's own regression files, from Debian's source package; counts only
    compare.py --random N [--seed S]   N random statements; fails if an answer differs

Of each statement: the same answer; both refuse; a difference that `differences.toml` lists with its reason; or a
difference that nobody has listed. A refusal of what PostgreSQL answers is a difference, too. Rows are compared in order
only where the statement has an outermost ORDER BY.
"""

import argparse
import collections
import dataclasses
import decimal
import fnmatch
import pathlib
import re
import sys
import time
import tomllib

import psycopg
from psycopg import pq

import random_statements
import script
import servers

HERE = pathlib.Path(__file__).resolve().parent
NUMERIC = 1700
SETTINGS = "SET datestyle = 'ISO'; SET timezone = 'UTC'; SET statement_timeout = '10s'"


@dataclasses.dataclass
class Answer:
    """What a server says to a statement."""

    error: str | None = None
    message: str = ""
    names: tuple = ()
    types: tuple = ()
    rows: tuple = ()
    tag: str = ""

    def __str__(self):
        if self.error:
            return f"{self.error} {self.message}"
        rows = [" | ".join("NULL" if value is None else value for value in row) for row in self.rows[:8]]
        more = [f"… {len(self.rows)} rows"] if len(self.rows) > 8 else []
        return "\n".join([" | ".join(self.names) + f"  ({len(self.rows)})", *rows, *more])


class Server:
    """A connection that gives answers as texts, as the server sends them."""

    def __init__(self, conninfo):
        self.conninfo = conninfo
        self.connect()

    def connect(self):
        self.connection = psycopg.connect(self.conninfo, autocommit=True)
        self.connection.pgconn.nonblocking = 0
        for setting in SETTINGS.split("; "):
            self.ask(setting)

    def ask(self, text, rows=None):
        raw = self.connection.pgconn
        if raw.status != pq.ConnStatus.OK:
            self.connect()
            raw = self.connection.pgconn
        raw.send_query(text.encode())
        answer = Answer()
        while result := raw.get_result():
            if result.status == pq.ExecStatus.COPY_IN:
                raw.put_copy_data(rows or b"")
                raw.put_copy_end()
                continue
            if result.status == pq.ExecStatus.COPY_OUT:
                while raw.get_copy_data(0)[0] > 0:
                    pass
                continue
            answer = answer_of(result)
        return answer


def answer_of(result):
    if result.status == pq.ExecStatus.FATAL_ERROR:
        field = lambda which: (result.error_field(which) or b"").decode()
        message = field(pq.DiagnosticField.MESSAGE_PRIMARY) or result.error_message.decode().strip()
        return Answer(error=field(pq.DiagnosticField.SQLSTATE) or "08006", message=message)
    columns = range(result.nfields)
    text = lambda value: None if value is None else value.decode(errors="replace")
    return Answer(
        tag=(result.command_status or b"").decode(),
        names=tuple(result.fname(column).decode() for column in columns),
        types=tuple(result.ftype(column) for column in columns),
        rows=tuple(tuple(text(result.get_value(row, column)) for column in columns) for row in range(result.ntuples)),
    )


def is_ordered(text):
    """Whether ORDER BY stands outside of parentheses."""
    bare = re.sub(r"'(?:[^']|'')*'", "''", text)
    while (inner := re.sub(r"\([^()]*\)", "", bare)) != bare:
        bare = inner
    return re.search(r"\border\s+by\b", bare, re.I) is not None


def compared(statement, ours, theirs):
    """`same`, `refused by both`, `scale of numeric`, `refused`, `accepted` or `different`."""
    if ours.error or theirs.error:
        return "refused by both" if ours.error and theirs.error else "refused" if ours.error else "accepted"
    order = (lambda rows: rows) if is_ordered(statement.text) else (lambda rows: sorted(rows, key=repr))
    if ours.names != theirs.names:
        return "different"
    if order(ours.rows) == order(theirs.rows):
        return "same"
    scaled = lambda answer: order(tuple(tuple(map(value_of, answer.types, row)) for row in answer.rows))
    return "scale of numeric" if scaled(ours) == scaled(theirs) else "different"


def value_of(ty, value):
    if ty != NUMERIC or value is None:
        return value
    return str(decimal.Decimal(value).normalize())


class Listed:
    """The differences that are meant or known, each with its reason."""

    def __init__(self, path):
        entries = tomllib.loads(path.read_text()).get("difference", [])
        pattern = lambda entry: re.compile(entry["statement"], re.I | re.S)
        self.entries = [(entry["file"], pattern(entry), entry["reason"]) for entry in entries]
        self.used = set()

    def reason(self, file, statement):
        for number, (pattern, expression, reason) in enumerate(self.entries):
            if fnmatch.fnmatch(file, pattern) and expression.search(statement.text):
                self.used.add(number)
                return reason
        return None


class Run:
    def __init__(self, ours, theirs, verbose):
        self.ours, self.theirs, self.verbose = ours, theirs, verbose
        self.listed = Listed(HERE / "differences.toml")
        self.counts, self.refused = collections.Counter(), collections.Counter()
        self.unlisted = 0

    def file(self, path, variables=None, own_schema=True):
        if own_schema:
            for server in (self.ours, self.theirs):
                server.ask(f"CREATE SCHEMA {path.stem}")
                server.ask(f"SET search_path = {path.stem}")
        for statement in script.statements(path, variables):
            self.statement(path, statement)

    def statement(self, path, statement):
        ours = self.ours.ask(statement.text, statement.rows)
        theirs = self.theirs.ask(statement.text, statement.rows)
        kind = compared(statement, ours, theirs)
        if kind in ("same", "refused by both", "scale of numeric"):
            self.counts[kind] += 1
            return
        if kind == "refused":
            self.refused[f"{ours.error} " + re.sub(r'"[^"]*"|\d+', "…", ours.message)] += 1
        reason = self.listed.reason(path.name, statement)
        self.counts[f"{kind}, listed" if reason else kind] += 1
        if reason is None:
            self.unlisted += 1
            if self.verbose or kind != "refused":
                where = f"{path.name}:{statement.line}"
                print(f"-- {where}: {kind}\n{statement.text}\nKeyspan:    {ours}\nPostgreSQL: {theirs}\n", flush=True)

    def report(self):
        for kind, count in sorted(self.counts.items()):
            print(f"{count:6} {kind}")
        for feature, count in self.refused.most_common(60):
            print(f"{count:6} refused: {feature}")


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--regression", action="store_true", help="PostgreSQL's regression files")
    arguments.add_argument("--random", type=int, metavar="N", help="so many random statements")
    arguments.add_argument("--seed", type=int, default=1, help="the first random statement's seed")
    arguments.add_argument("--verbose", action="store_true", help="show what is refused, too")
    arguments.add_argument("files", nargs="*", help="files of statements, or names of regression files")
    given = arguments.parse_args()
    with servers.keyspan() as ours, servers.postgres() as theirs:
        if given.random:
            return random_run(Server(ours), Server(theirs), given)
        run = Run(Server(ours), Server(theirs), given.verbose or not given.regression)
        if given.regression:
            regression(run, given.files)
        else:
            paths = [pathlib.Path(file) for file in given.files] or sorted(HERE.glob("statements/*.sql"))
            for path in paths:
                run.file(path)
        run.report()
    return 1 if run.unlisted and not given.regression else 0


def random_run(ours, theirs, given):
    """Random statements; whether any answer differed."""
    run = random_statements.Random(ours, theirs)
    run.prepare()
    run.run(given.seed, given.random)
    run.summary()
    return 1 if run.seen else 0


def regression(run, names):
    """The files in the order of PostgreSQL's schedule, in one schema, since later ones use tables of earlier ones."""
    import regression_files

    folder = regression_files.fetched()
    for name in ["test_setup", *(name for name in regression_files.schedule(folder) if not names or name in names)]:
        run.file(folder / "sql" / f"{name}.sql", {"PG_ABS_SRCDIR": str(folder)}, own_schema=False)


if __name__ == "__main__":
    sys.exit(main())
