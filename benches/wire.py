"""Short statements over the wire, of Keyspan and of PostgreSQL in turn: psycopg, rows in binary, prepared by its fifth run.
And a long answer of Keyspan's, high-cpu-all: how long until libpq has it, and until psycopg has made objects of it.

    python3 benches/wire.py --keyspan target/release/keyspan --data DIR

DIR is what `tsbs --hosts 1000 --hours 12 --data DIR --peers ""` has left. PostgreSQL gets the rows of ten hosts, which is fewer
than Keyspan has. Needs psycopg and PostgreSQL's server (apt-get install postgresql). Prints medians and tenth percentiles
in milliseconds.
"""

import argparse
import pathlib
import statistics
import subprocess
import tempfile
import time

import psycopg

import peers

PORT = 5577
ROUNDS, RUNS = 15, 41
SPAN = "hostname IN ('host_5') AND ts >= '2016-01-01 03:00:00Z' AND ts < '2016-01-01 04:00:00Z'"
GAUGES = ["usage_user", "usage_system", "usage_idle", "usage_nice", "usage_iowait"]
HOSTS = ", ".join(f"'host_{host}'" for host in range(10))


def by_minute(gauges):
    each = ", ".join(f"max({gauge})" for gauge in gauges)
    return f"SELECT date_trunc('minute', ts) AS minute, {each} FROM cpu WHERE {SPAN} GROUP BY 1 ORDER BY 1"


LONG = "SELECT * FROM cpu WHERE usage_user > 90"

STATEMENTS = {
    "single-groupby-1-1-1": by_minute(GAUGES[:1]),
    "single-groupby-5-1-1": by_minute(GAUGES),
    "whole key": "SELECT usage_user FROM cpu WHERE hostname = 'host_5' AND ts = '2016-01-01 03:00:00Z'",
    "newest row of a host": "SELECT * FROM cpu WHERE hostname = 'host_5' ORDER BY ts DESC LIMIT 1",
    "SELECT 1": "SELECT 1",
}


def keyspan(program, data):
    server = subprocess.Popen([program, "serve", "--data", data, "--listen", f"127.0.0.1:{PORT}"], stdout=subprocess.DEVNULL)
    peers.wait_for(PORT)
    return server, psycopg.connect(f"postgresql://me@127.0.0.1:{PORT}/db", autocommit=True)


def filled(postgres, rows):
    """The same table of PostgreSQL's, with the rows of ten hosts."""
    columns = [column.name for column in rows.description]
    kind = lambda name: "timestamptz" if name == "ts" else "double precision" if name.startswith("usage") else "text"
    each = ", ".join(f"{name} {kind(name)}" for name in columns)
    postgres.execute(f"CREATE TABLE cpu ({each}, PRIMARY KEY (hostname, ts))")
    with postgres.cursor().copy("COPY cpu FROM STDIN") as copy:
        for row in rows:
            copy.write_row(row)
    postgres.execute("VACUUM ANALYZE cpu")


def measured(connection, statement, times):
    for _ in range(RUNS):
        start = time.perf_counter()
        connection.execute(statement, binary=True).fetchall()
        times.append((time.perf_counter() - start) * 1000)


def long_answer(connection):
    times = []
    for _ in range(9):
        start = time.perf_counter()
        answer = connection.execute(LONG, binary=True)
        there = time.perf_counter()
        rows = len(answer.fetchall())
        times.append((there - start, time.perf_counter() - there))
    there, objects = (statistics.median(each) for each in zip(*times))
    print(f"high-cpu-all: Keyspan {there:.3f} s, objects of {rows} rows {objects:.3f} s")


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--keyspan", required=True)
    arguments.add_argument("--data", required=True)
    arguments = arguments.parse_args()
    server, connection = keyspan(arguments.keyspan, arguments.data)
    postgres = None
    try:
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder).chmod(0o755)
            postgres = peers.Postgres(pathlib.Path(folder))
            filled(postgres.connection, connection.execute(f"SELECT * FROM cpu WHERE hostname IN ({HOSTS})"))
            engines = {"Keyspan": connection, "PostgreSQL": postgres.connection}
            for name, statement in STATEMENTS.items():
                times = {engine: [] for engine in engines}
                for _ in range(ROUNDS):
                    for engine, each in engines.items():
                        measured(each, statement, times[engine])
                show = lambda each: f"{statistics.median(each):.3f} ({sorted(each)[len(each) // 10]:.3f})"
                print(f"{name}: " + ", ".join(f"{engine} {show(each)}" for engine, each in times.items()))
            postgres.close()
            long_answer(connection)
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
