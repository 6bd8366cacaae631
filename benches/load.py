"""Load rates: the same rows by COPY into PostgreSQL and Keyspan, and by `keyspan import`.

    python3 benches/load.py --keyspan target/release/keyspan [--rows 1000000] [--postgres /usr/lib/postgresql/17/bin]

Rows have the shape of TSBS' cpu-only (ten tags, ten fields), in order of time. Every load is over a local socket by psql's
\\copy into an empty table with the key (hostname, ts), all in one step and durable when psql returns. PostgreSQL runs as
the user `postgres` with its defaults and `max_wal_size = 4GB`; without --postgres it is left out.
"""

import argparse
import pathlib
import random
import shutil
import subprocess
import tempfile
import time

TAGS = "hostname region datacenter rack os arch team service service_version service_environment".split()
FIELDS = [f"usage_{name}" for name in "user system idle nice iowait irq softirq steal guest guest_nice".split()]
COLUMNS = ", ".join(["ts", *TAGS, *FIELDS])
PORT = 54399


def table(double):
    columns = ["ts timestamptz NOT NULL"] + [f"{tag} text NOT NULL" for tag in TAGS] + [f"{field} {double}" for field in FIELDS]
    return f"CREATE TABLE cpu ({', '.join(columns)}, PRIMARY KEY (hostname, ts))"


def generate(path, rows, hosts):
    numbers = random.Random(42)
    tags = []
    for host in range(hosts):
        region = numbers.choice(["us-east-1", "us-west-1", "eu-west-1", "eu-central-1", "sa-east-1"])
        rest = [numbers.randrange(100), "Ubuntu16.10", "x64", "SF", numbers.randrange(20), numbers.randrange(2), "production"]
        tags.append(",".join(map(str, [f"host_{host}", region, region + "a", *rest])))
    walk = [[numbers.randrange(101) for _ in FIELDS] for _ in range(hosts)]
    with open(path, "w") as out:
        for step in range(rows // hosts):
            instant = time.strftime("%Y-%m-%d %H:%M:%S+00", time.gmtime(1451606400 + step * 10))
            for host in range(hosts):
                values = walk[host]
                at = numbers.randrange(len(values))
                values[at] = min(100, max(0, values[at] + numbers.randrange(-3, 4)))
                out.write(f"{instant},{tags[host]},{','.join(map(str, values))}\n")


def psql(where, *commands):
    arguments = ["psql", where, "-X", "-q", "-v", "ON_ERROR_STOP=1"]
    for command in commands:
        arguments += ["-c", command]
    return subprocess.run(arguments, check=True, capture_output=True, text=True).stdout


def timed(name, rows, work):
    start = time.monotonic()
    work()
    seconds = time.monotonic() - start
    print(f"{name:28} {rows / seconds / 1000:7.0f} krows/s  {seconds:6.2f} s", flush=True)


def load(name, where, double, rows, csv, binary):
    for kind, file in (("csv", csv), ("binary", binary)):
        if not file.exists():
            continue
        psql(where, "DROP TABLE IF EXISTS cpu", table(double))
        options = "FORMAT csv" if kind == "csv" else "FORMAT binary"
        timed(f"{name} COPY {kind}", rows, lambda: psql(where, f"\\copy cpu ({COLUMNS}) FROM '{file}' WITH ({options})"))
        assert psql(where, "SELECT count(*) FROM cpu").count(str(rows)) == 1
        if not binary.exists():
            psql(where, f"\\copy cpu ({COLUMNS}) TO '{binary}' WITH (FORMAT binary)")


def postgres(folder, programs, rows, csv, binary):
    data = folder / "postgres"
    run = ["runuser", "-u", "postgres", "--"]
    folder.chmod(0o777)
    subprocess.run([*run, f"{programs}/initdb", "-D", data, "-U", "postgres"], check=True, capture_output=True)
    options = f"-p {PORT} -c max_wal_size=4GB -c listen_addresses=127.0.0.1 -k {folder}"
    subprocess.run([*run, f"{programs}/pg_ctl", "-D", data, "-w", "-l", folder / "log", "-o", options, "start"], check=True, capture_output=True)
    try:
        load("PostgreSQL", f"postgresql://postgres@127.0.0.1:{PORT}/postgres", "double precision", rows, csv, binary)
    finally:
        subprocess.run([*run, f"{programs}/pg_ctl", "-D", data, "-m", "fast", "stop"], check=True, capture_output=True)


def keyspan(folder, program, rows, csv, binary):
    command = [program, "serve", "--listen", "127.0.0.1:0", "--data", folder / "served"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        port = server.stdout.readline().strip().rsplit(":", 1)[1]
        load("Keyspan", f"postgresql://me@127.0.0.1:{port}/db", "double precision", rows, csv, binary)
        peak = [line for line in pathlib.Path(f"/proc/{server.pid}/status").read_text().splitlines() if "VmHWM" in line]
        print(f"Keyspan's server: {' '.join(peak[0].split())}")
    finally:
        server.terminate()
        server.wait()
    named = folder / "named.csv"
    with open(named, "w") as out:
        out.write(",".join(["ts", *TAGS, *FIELDS]) + "\n")
        with open(csv) as source:
            shutil.copyfileobj(source, out)
    imported = folder / "imported"
    subprocess.run([program, "sql", "--data", imported, "-c", table("double precision")], check=True, capture_output=True)
    timed("keyspan import csv", rows, lambda: subprocess.run([program, "import", named, "--into", "cpu", "--data", imported], check=True, capture_output=True))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--keyspan", required=True)
    parser.add_argument("--postgres")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--hosts", type=int, default=1000)
    given = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="keyspan-load-"))
    try:
        csv, binary = folder / "rows.csv", folder / "rows.pgcopy"
        rows = given.rows // given.hosts * given.hosts
        generate(csv, rows, given.hosts)
        print(f"{rows} rows, {csv.stat().st_size / rows:.0f} bytes each in csv")
        if given.postgres:
            postgres(folder, given.postgres, rows, csv, binary)
        keyspan(folder, given.keyspan, rows, csv, binary)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
