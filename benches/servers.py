"""What the benchmarks beside DuckDB share: a server of Keyspan, timing, and rows that can be compared."""

import decimal
import math
import statistics
import subprocess
import time

import psycopg


def started(program, data, port, memory=None):
    """A server over a directory, and a connection to it whose zone is UTC."""
    command = [program, "serve", "--data", data, "--listen", f"127.0.0.1:{port}"]
    command += ["--memory", memory] if memory else []
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(600):
        try:
            connection = psycopg.connect(f"postgresql://me@127.0.0.1:{port}/db", autocommit=True)
            connection.execute("SET TimeZone = 'UTC'")
            return server, connection
        except psycopg.OperationalError:
            time.sleep(0.1)
    raise SystemExit("the server does not answer")


def loaded(db, path, program, port, keys, types=None):
    """Loads DuckDB's tables that have a key here into a new data directory, and compacts it. `types` are those that are
    called otherwise.
    """
    server, connection = started(program, path / "data", port)
    try:
        for name, key in keys.items():
            db.execute(f"COPY {name} TO '{path / name}.parquet'")
            columns = db.execute(f"SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = '{name}' ORDER BY column_index").fetchall()
            columns = ", ".join(f"{column} {(types or {}).get(kind, kind.lower())}" for column, kind in columns)
            connection.execute(f"CREATE TABLE {name} ({columns}, PRIMARY KEY ({key}))")
            command = [program, "import", "--url", f"postgres://127.0.0.1:{port}", "--into", name, path / f"{name}.parquet"]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        connection.execute("COMPACT")
    finally:
        stop(server, connection)


def stop(server, connection):
    connection.close()
    server.terminate()
    server.wait()


def timed(run):
    """Milliseconds, and what was answered."""
    begin = time.perf_counter()
    rows = run()
    return (time.perf_counter() - begin) * 1000, rows


def same(rows, others):
    """Whether two answers have the same rows, in any order; floats to nine digits, since sums differ by the order of
    their terms.
    """
    texts = lambda row: [str(value) for value in row if not isinstance(value, float)]
    floats = lambda row: [value for value in row if isinstance(value, float)]
    ordered = lambda rows: sorted(([texts(row), floats(row)] for row in rows), key=lambda row: (row[0], row[1]))
    close = lambda one, other: all(math.isclose(a, b, rel_tol=1e-9) for a, b in zip(one, other, strict=True))
    return len(rows) == len(others) and all(
        one[0] == other[0] and close(one[1], other[1]) for one, other in zip(ordered(rows), ordered(others))
    )


def plain(rows):
    """Rows whose numbers are all floats: a mean of whole numbers is a numeric in one, a double in the other."""
    is_number = lambda value: isinstance(value, (int, float, decimal.Decimal)) and not isinstance(value, bool)
    return [[float(value) if is_number(value) else value for value in row] for row in rows]


def measured(connection, db, sql, runs):
    """The first time and the median of the later ones, of both."""
    pairs = []
    for _ in range(runs):
        own, found = timed(lambda: connection.execute(sql).fetchall())
        other, expected = timed(lambda: db.execute(sql).fetchall())
        if not same(plain(found), plain(expected)):
            raise SystemExit(f"other rows: {sql}")
        pairs.append((own, other))
    return pairs[0], [statistics.median(side) for side in zip(*pairs[1:])]


def compare(connection, db, queries, runs):
    """Prints what each statement takes in Keyspan and in DuckDB, and the geometric means of the ratios."""
    firsts, laters = [], []
    print("| ms | first | DuckDB | ratio | others | DuckDB | ratio |\n|---|---|---|---|---|---|---|")
    for name, sql in queries.items():
        (first, other_first), (later, other_later) = measured(connection, db, sql, runs)
        firsts.append(first / other_first)
        laters.append(later / other_later)
        print(f"| {name} | {first:.1f} | {other_first:.1f} | {firsts[-1]:.2f} | {later:.1f} | {other_later:.1f} | {laters[-1]:.2f} |", flush=True)
    mean = lambda ratios: math.exp(statistics.fmean(map(math.log, ratios)))
    print(f"geometric means: {mean(firsts):.2f} of first runs, {mean(laters):.2f} of others")
