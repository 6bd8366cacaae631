"""Starts the program's server on a directory of its own for a test case, and stops it; runs clients in other languages."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def program():
    """The `keyspan` program as cargo built it, wherever cargo's target folder is."""
    import json

    metadata = subprocess.run(["cargo", "metadata", "--no-deps", "--format-version", "1"], cwd=ROOT, capture_output=True, check=True)
    return pathlib.Path(json.loads(metadata.stdout)["target_directory"]) / "debug" / "keyspan"


def needs(tool, package):
    """Skips a test class where a toolchain is missing, but not in CI, which installs them."""
    missing = shutil.which(tool) is None and not os.environ.get("CI")
    return unittest.skipIf(missing, f"{tool} is not installed: apt-get install {package}")


def run(command, folder, **environment):
    """Runs a client; its output is the error if it fails."""
    command = [str(part) for part in command]
    done = subprocess.run(command, cwd=folder, env=os.environ | environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"{command} failed:\n{done.stdout}{done.stderr}"
    return done.stdout


def jdbc():
    """The class path of the JDBC driver, which Maven fetches once."""
    jars = ROOT / "target" / "java"
    if not list(jars.glob("postgresql-*.jar")):
        pom = ROOT / "tests/drivers/java/pom.xml"
        run(["mvn", "-q", "-B", "-f", pom, "dependency:copy-dependencies", f"-DoutputDirectory={jars}"], ROOT)
    return f"{jars}/*"


def node():
    """A folder whose programs find the package pg, which npm fetches once."""
    folder = ROOT / "target" / "node"
    if not (folder / "node_modules" / "pg").exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "package.json").write_text('{"private": true}')
        run(["npm", "install", "--silent", "--no-audit", "--no-fund", "pg@8"], folder)
    return folder


class ServerCase(unittest.TestCase):
    """One server for all tests of a class."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="keyspan-drivers-")
        command = [program(), "serve", "--listen", "127.0.0.1:0", "--data", f"{cls.folder}/data"]
        cls.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        line = cls.process.stdout.readline()
        cls.port = int(line.strip().rsplit(":", 1)[1])

    @classmethod
    def tearDownClass(cls):
        cls.process.terminate()
        code = cls.process.wait(timeout=30)
        cls.process.stdout.close()
        shutil.rmtree(cls.folder)
        assert code == 0, f"SIGTERM must stop the server cleanly, not with {code}"
