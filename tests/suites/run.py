"""Runs the tests of other projects against a server: the dialect suite of SQLAlchemy, and psycopg's own tests.

    run.py sqlalchemy | psycopg [--postgres] [ARGUMENT …]

Each failure must have its reason in the suite's `.toml`; one without, or a reason that no failure needs, fails the run,
and so do fewer passes than that file says. `--postgres` runs the same against PostgreSQL 15 instead, and lists what it
fails. What else is given goes to pytest; then the reasons that nothing needs are not told.

SQLAlchemy's tests come from its source package. psycopg's are in no package: KEYSPAN_PSYCOPG names a checkout of its
repository, at the tag of the version below.
"""

import argparse
import contextlib
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tomllib
import urllib.parse
import xml.etree.ElementTree as xml

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
HOME = ROOT / "target/suites"
sys.path.insert(0, str(ROOT / "tests/differential"))
import servers  # noqa: E402

# INSERT of a key that is there is an error, as these tests expect.
SEMANTICS = r"-c write_semantics=postgres -c foreign_keys=not\ enforced"
# Those that wait for a clock, other programs, or Python's collector.
PSYCOPG_MARKS = "not slow and not proxy and not mypy and not refcount and not timing"


def sqlalchemy(conninfo, arguments, ours):
    """Where to run, and the command."""
    version = installed("sqlalchemy")
    folder = HOME / f"sqlalchemy-{version}"
    if not folder.exists():
        download = ["pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:", "--dest", HOME]
        subprocess.run([sys.executable, "-m", *download, f"sqlalchemy=={version}"], check=True)
        with tarfile.open(folder.with_name(f"{folder.name}.tar.gz")) as archive:
            archive.extractall(HOME, filter="data")
    tests = arguments or ["test/dialect/test_suite.py"]
    extensions = ["-p", "no_extensions"] if ours else []
    return folder, [*extensions, "--maxfail=100000", "--dburi", conninfo, *tests]


def psycopg(conninfo, arguments, ours):
    folder = os.environ.get("KEYSPAN_PSYCOPG")
    if not folder:
        sys.exit(
            "KEYSPAN_PSYCOPG names no checkout of psycopg's repository, and no package holds its tests:\n"
            f"  git clone --branch {installed('psycopg')} https://github.com/psycopg/psycopg"
        )
    tests = arguments or ["tests", "--ignore=tests/pool", "--ignore=tests/crdb"]
    return folder, ["--test-dsn", conninfo, "-m", PSYCOPG_MARKS, "-p", "no:randomly", *tests]


SUITES = {"sqlalchemy": sqlalchemy, "psycopg": psycopg}


def installed(package):
    import importlib.metadata

    return importlib.metadata.version(package)


def url_of(conninfo, suite):
    """As the suite wants it: SQLAlchemy names its driver."""
    from psycopg import conninfo as forms

    parts = forms.conninfo_to_dict(conninfo)
    if suite == "psycopg":
        return forms.make_conninfo(**parts)
    options = f"?options={urllib.parse.quote(parts['options'])}" if "options" in parts else ""
    return f"postgresql+psycopg://{parts['user']}@{parts['host']}:{parts['port']}/{parts['dbname']}{options}"


@contextlib.contextmanager
def server(suite, ours):
    """A server that has what the suite's documentation asks for; how to connect to it."""
    import psycopg

    with servers.keyspan() if ours else servers.postgres() as conninfo:
        if ours:
            conninfo = psycopg.conninfo.make_conninfo(conninfo, options=SEMANTICS)
        with psycopg.connect(conninfo, autocommit=True) as connection:
            if suite == "sqlalchemy":
                connection.execute("CREATE SCHEMA test_schema")
                connection.execute("CREATE SCHEMA test_schema_2")
        yield url_of(conninfo, suite)


def run(suite, ours, arguments):
    """The outcome of each test: name → `pass`, `skip`, or the text of its error."""
    report = HOME / f"{suite}.xml"
    report.unlink(missing_ok=True)
    with server(suite, ours) as url:
        folder, command = SUITES[suite](url, arguments, ours)
        command = [sys.executable, "-m", "pytest", "--quiet", "--no-summary", f"--junitxml={report}", *command]
        paths = os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH")]))
        with open(HOME / f"{suite}.log", "w") as log:
            subprocess.run(command, cwd=folder, env=os.environ | {"PYTHONPATH": paths}, stdout=log, stderr=log)
    if not report.exists():
        sys.exit(f"the suite did not run: {HOME / suite}.log")
    return dict(outcome(case) for case in xml.parse(report).iter("testcase"))


def outcome(case):
    # SQLAlchemy adds driver and version to the names of classes.
    folder = re.sub(r"_postgresql\+\w+?_\d+_\d+$", "", case.get("classname"))
    name = f"{folder}::{case.get('name')}"
    for kind in ("failure", "error"):
        if (found := case.find(kind)) is not None:
            return name, f"{found.get('message')}\n{found.text}"
    return name, "skip" if case.find("skipped") is not None else "pass"


class Expected:
    """The failures that are known, each with its reason: by the names of tests, by what the error says, or by both."""

    def __init__(self, suite):
        content = tomllib.loads((HERE / f"{suite}.toml").read_text())
        self.postgres, self.least = content["postgres"], content["least"]
        self.entries = content.get("failure", [])
        self.used = [0] * len(self.entries)

    def reason(self, name, error):
        for place, entry in enumerate(self.entries):
            if re.search(entry.get("test", ""), name) and re.search(entry.get("error", ""), error):
                self.used[place] += 1
                return entry["reason"]
        return None

    def unneeded(self):
        return [entry for entry, used in zip(self.entries, self.used) if not used]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("suite", choices=SUITES)
    parser.add_argument("--postgres", action="store_true")
    parser.add_argument("--verbose", action="store_true", help="count the failures of each reason")
    options, arguments = parser.parse_known_args()
    HOME.mkdir(parents=True, exist_ok=True)
    outcomes = run(options.suite, not options.postgres, arguments)
    failures = {name: error for name, error in outcomes.items() if error not in ("pass", "skip")}
    passed = sum(outcome == "pass" for outcome in outcomes.values())
    if options.postgres:
        print("\n".join(f"{name}: {error.splitlines()[0]}" for name, error in failures.items()))
        print(f"{passed} passed, {len(failures)} failed")
        return
    sys.exit(judged(Expected(options.suite), passed, failures, whole=not arguments, verbose=options.verbose))


def judged(expected, passed, failures, whole, verbose):
    """Prints what is to be known, and gives the exit code."""
    unknown = {name: error for name, error in failures.items() if expected.reason(name, error) is None}
    for name, error in unknown.items():
        print(f"no reason for {name}\n    {error.splitlines()[0][:300]}")
    unneeded = expected.unneeded() if whole else []
    for entry in unneeded:
        print(f"no failure needs: {entry}")
    if verbose:
        for used, entry in sorted(zip(expected.used, (entry["reason"] for entry in expected.entries)), reverse=True):
            print(f"{used:5} {entry}")
    print(f"{passed} passed, {len(failures)} failed")
    if whole:
        print(f"of {expected.postgres} that PostgreSQL 15 passes: {passed / expected.postgres:.1%}")
    few = whole and passed < expected.least
    if few:
        print(f"at least {expected.least} should pass")
    return 1 if unknown or unneeded or few else 0


if __name__ == "__main__":
    main()
