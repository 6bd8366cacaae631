"""How long rows take that nobody has read: high-cpu-1 of 91 hosts, one after another, right after a server's start.

    python3 benches/first_reads.py --keyspan target/release/keyspan --data DIR

DIR is what `tsbs --hosts 1000 --hours 12 --data DIR --peers ""` has left. Needs psycopg. Prints milliseconds: the first time of
each host, and the second. Which pages of the files the system holds is not controlled: run it twice.
"""

import argparse
import statistics
import subprocess
import time

import psycopg

WHERE = "host=127.0.0.1 port=5571 user=me"
START, END = "2016-01-01 00:00:00+00", "2016-01-01 12:00:00+00"
QUERY = f"SELECT * FROM cpu WHERE usage_user > 90.0 AND ts >= '{START}' AND ts < '{END}' AND hostname = 'host_{{}}'"


def connected():
    for _ in range(100):
        try:
            return psycopg.connect(WHERE, autocommit=True)
        except psycopg.OperationalError:
            time.sleep(0.1)
    raise SystemExit("the server does not answer")


def timed(connection, host):
    begin = time.perf_counter()
    connection.execute(QUERY.format(host)).fetchall()
    return (time.perf_counter() - begin) * 1000


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--keyspan", required=True)
    arguments.add_argument("--data", required=True)
    arguments = arguments.parse_args()
    server = subprocess.Popen([arguments.keyspan, "serve", "--data", arguments.data, "--listen", "127.0.0.1:5571"])
    try:
        connection = connected()
        for what in ("first", "second"):
            times = [timed(connection, host) for host in range(5, 1000, 11)]
            print(f"{what}: {len(times)} hosts, median {statistics.median(times):.1f}, most {max(times):.1f}")
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
