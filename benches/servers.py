"""What the benchmarks beside DuckDB share: a server of Keyspan, timing, and rows that can be compared."""

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


def plain(rows):
    """Rows as texts in one order; floats to eight digits, since sums differ by the order of their terms."""
    text = lambda value: f"{value:.8g}" if isinstance(value, float) else str(value)
    return sorted(tuple(text(value) for value in row) for row in rows)
