"""Starts the program's server on a directory of its own for a test case, and stops it."""

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
