"""PostgreSQL's regression files, from Debian's source package, which apt fetches into `target/`. None is copied here."""

import pathlib
import re
import subprocess
import tarfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "target/postgresql-source"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
SOURCE = f"deb-src [signed-by={KEYRING}] http://deb.debian.org/debian bookworm main\n"


def fetched():
    """The folder `src/test/regress`, fetched once."""
    if not list(FOLDER.glob("postgresql-*/src/test/regress/sql")):
        fetch()
    return next(FOLDER.glob("postgresql-*/src/test/regress"))


def fetch():
    """Asks apt with a list of sources of its own, so that the machine's settings stay as they are."""
    (FOLDER / "lists/partial").mkdir(parents=True, exist_ok=True)
    (FOLDER / "sources.list").write_text(SOURCE)
    own = [
        f"Dir::Etc::SourceList={FOLDER}/sources.list",
        "Dir::Etc::SourceParts=-",
        f"Dir::State::Lists={FOLDER}/lists",
        f"Dir::Cache::srcpkgcache={FOLDER}/sources.bin",
        f"Dir::Cache::pkgcache={FOLDER}/packages.bin",
        "APT::Sandbox::User=root",
    ]
    apt = ["apt-get", "-qq", *(part for option in own for part in ("-o", option))]
    subprocess.run([*apt, "update"], cwd=FOLDER, check=True)
    subprocess.run([*apt, "source", "--download-only", "postgresql-15"], cwd=FOLDER, check=True)
    archive = next(FOLDER.glob("postgresql-15_*.orig.tar.*"))
    with tarfile.open(archive) as files:
        wanted = [file for file in files if "/src/test/regress/" in file.name]
        files.extractall(FOLDER, wanted, filter="data")


def schedule(folder):
    """The names of the files in the order in which PostgreSQL runs them."""
    text = (folder / "parallel_schedule").read_text()
    names = [name for line in re.findall(r"^test: (.*)$", text, re.M) for name in line.split()]
    return [name for name in names if name != "test_setup" and (folder / "sql" / f"{name}.sql").exists()]
