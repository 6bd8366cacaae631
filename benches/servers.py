"""What the benchmarks beside DuckDB share: a server of Keyspan, timing, and rows that can be compared."""

import math
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
