"""The two servers: Keyspan on a directory of its own; PostgreSQL 15 where KEYSPAN_POSTGRES says, else started here."""

import contextlib
import glob
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile

import psycopg

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/drivers"))
from server import program  # noqa: E402

DATABASE = "keyspan_differential"


def installed():
    """The folder of PostgreSQL's programs, version 15 before others; `None` if Debian's package is not installed."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin"), key=lambda folder: ("/15/" in folder, folder), reverse=True)
    return next(iter(found), None)


@contextlib.contextmanager
def keyspan():
    """A server of the program as cargo built it; how to connect to it."""
    with tempfile.TemporaryDirectory(prefix="keyspan-differential-") as folder:
        command = [program(), "serve", "--listen", "127.0.0.1:0", "--data", f"{folder}/data"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            port = int(process.stdout.readline().strip().rsplit(":", 1)[1])
            yield f"postgresql://keyspan@127.0.0.1:{port}/keyspan"
        finally:
            process.terminate()
            process.wait(timeout=30)
            process.stdout.close()


@contextlib.contextmanager
def postgres():
    """A database of PostgreSQL for this run; how to connect to it. KEYSPAN_POSTGRES names a server, as libpq does."""
    given = os.environ.get("KEYSPAN_POSTGRES")
    with contextlib.nullcontext(given) if given else started() as server:
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f"DROP DATABASE IF EXISTS {DATABASE}")
            collation = "TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C.UTF-8'"
            connection.execute(f"CREATE DATABASE {DATABASE} {collation}")
        try:
            yield psycopg.conninfo.make_conninfo(server, dbname=DATABASE)
        finally:
            with psycopg.connect(server, autocommit=True) as connection:
                connection.execute(f"DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)")


@contextlib.contextmanager
def started():
    """A server on a directory of its own, run by the user `postgres` if this is root, which PostgreSQL refuses."""
    programs = installed()
    if not programs:
        raise RuntimeError("KEYSPAN_POSTGRES names no server, and none is installed (apt-get install postgresql)")
    user = ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []
    folder = tempfile.mkdtemp(prefix="keyspan-postgres-")
    if user:
        shutil.chown(folder, "postgres")
    control = lambda tool, *arguments: subprocess.run(
        [*user, f"{programs}/{tool}", *arguments], cwd=folder, check=True, stdout=subprocess.DEVNULL
    )
    control("initdb", "-D", f"{folder}/data", "-U", "postgres", "-A", "trust", "--no-sync")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=off"
    control("pg_ctl", "-D", f"{folder}/data", "-l", f"{folder}/log", "-o", settings, "-w", "start")
    try:
        yield f"host=127.0.0.1 port={port} user=postgres dbname=postgres"
    finally:
        control("pg_ctl", "-D", f"{folder}/data", "-m", "immediate", "stop")
        shutil.rmtree(folder)
