"""How long rows take that nobody has read: high-cpu-1 of 91 hosts, one after another, right after a server's start.

    python3 benches/first_reads.py --keyspan target/release/keyspan --data DIR
    python3 benches/first_reads.py --keyspan target/release/keyspan --data DIR --points --hours 120

DIR is what `tsbs --hosts 1000 --hours 12 --data DIR --peers ""` has left; --hours is the one given there. With
--points it is one row of each host, of times all over the table: how that grows with the number of segments. Needs
psycopg. Prints milliseconds: the first time of each host, and the second. Which pages of the files the system holds is
not controlled: run it twice.
"""

import argparse
import datetime
import statistics
import subprocess
import time

import psycopg

WHERE = "host=127.0.0.1 port=5571 user=me"
START, END = "2016-01-01 00:00:00+00", "2016-01-01 12:00:00+00"
QUERY = f"SELECT * FROM cpu WHERE usage_user > 90.0 AND ts >= '{START}' AND ts < '{END}' AND hostname = 'host_{{}}'"
POINT = "SELECT usage_user FROM cpu WHERE hostname = 'host_{}' AND ts = '{}'"
# Seconds between two rows of a host.
STEP = 10


def statement(host, points, hours):
    if not points:
        return QUERY.format(host)
    # A stride that is prime, so that neither hosts nor times come in order.
    at = host * 7919 % (hours * 3600 // STEP)
    return POINT.format(host, datetime.datetime.fromisoformat(START) + datetime.timedelta(seconds=at * STEP))


def connected():
    for _ in range(100):
        try:
            return psycopg.connect(WHERE, autocommit=True)
        except psycopg.OperationalError:
            time.sleep(0.1)
    raise SystemExit("the server does not answer")


def timed(connection, query):
    begin = time.perf_counter()
    rows = connection.execute(query).fetchall()
    taken = (time.perf_counter() - begin) * 1000
    if not rows:
        raise SystemExit(f"no row: {query}")
    return taken


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--keyspan", required=True)
    arguments.add_argument("--data", required=True)
    arguments.add_argument("--points", action="store_true")
    arguments.add_argument("--hours", type=int, default=12)
    arguments = arguments.parse_args()
    queries = [statement(host, arguments.points, arguments.hours) for host in range(5, 1000, 11)]
    server = subprocess.Popen([arguments.keyspan, "serve", "--data", arguments.data, "--listen", "127.0.0.1:5571"])
    try:
        connection = connected()
        for what in ("first", "second"):
            times = [timed(connection, query) for query in queries]
            print(f"{what}: {len(times)} hosts, median {statistics.median(times):.2f}, most {max(times):.2f}")
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
