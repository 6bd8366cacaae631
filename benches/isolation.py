"""How long point reads and short statements take beside four joins that would run for minutes, and how soon these stop.

    python3 benches/isolation.py --keyspan target/release/keyspan

One client reads by key, each time another key, and counts a thousand rows; four others join 200,000 rows with themselves. Then all
four are cancelled at once. Needs psycopg and Linux. Prints milliseconds: median, 99th of a hundred, longest.
"""

import argparse
import os
import subprocess
import tempfile
import threading
import time

import psycopg

JOINS = (
    "SELECT count(*) FROM big a, big b WHERE (a.id::bigint * b.id) % 7 = 3",
    "SELECT count(*) FROM big a JOIN big b ON a.v = b.v JOIN big c ON c.v = a.v",
    "SELECT count(*) FROM big a JOIN big b ON a.few = b.few AND a.id > b.id + 1000000",
    "SELECT count(*) FROM big a WHERE few IN (SELECT few FROM big b WHERE b.id >= 0)",
)
SHORT = {
    "point read": "SELECT v FROM big WHERE id = {}",
    "thousand rows": "SELECT few, count(*) FROM big WHERE id BETWEEN {0} AND {0} + 999 GROUP BY few",
    "new shape": "SELECT {0} AS c{0}, max(v) FROM big WHERE id < {0} % 1000",
}


def timed(connection, statement, runs=2000):
    times = []
    for number in range(runs):
        start = time.perf_counter()
        connection.execute(statement.format(1 + number * 97 % 190_000)).fetchall()
        times.append((time.perf_counter() - start) * 1000)
    times.sort()
    return f"{times[runs // 2]:.2f} {times[runs * 99 // 100]:.2f} {times[-1]:.2f}"


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def seconds_until_rest(pid):
    start = time.monotonic()
    while time.monotonic() - start < 60:
        before = cpu_seconds(pid)
        time.sleep(0.1)
        if cpu_seconds(pid) - before < 0.02:
            break
    return time.monotonic() - start


def join(address, statement, running):
    with psycopg.connect(address, autocommit=True) as connection:
        running.append(connection)
        try:
            connection.execute(statement)
        except psycopg.errors.QueryCanceled:
            pass


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--keyspan", required=True)
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        command = [options.keyspan, "serve", "--listen", "127.0.0.1:0", "--data", f"{folder}/data"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            port = server.stdout.readline().strip().rsplit(":", 1)[1]
            measure(f"host=127.0.0.1 port={port} user=keyspan", server.pid)
        finally:
            server.terminate()
            server.wait()


def measure(address, pid):
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("CREATE TABLE big (id int PRIMARY KEY, v int, few int)")
        connection.execute("INSERT INTO big SELECT n, n % 1000, n % 10 FROM generate_series(1, 200000) AS s(n)")
        alone = {name: timed(connection, statement) for name, statement in SHORT.items()}
        running = []
        joins = [threading.Thread(target=join, args=(address, statement, running)) for statement in JOINS]
        for each in joins:
            each.start()
        time.sleep(1)
        for name, statement in SHORT.items():
            print(f"{name}: alone {alone[name]}, beside joins {timed(connection, statement)}")
        for each in running:
            each.cancel()
        for each in joins:
            each.join()
        print(f"at rest {seconds_until_rest(pid):.1f} s after the last cancel")


if __name__ == "__main__":
    main()
