"""The program's own shell on a terminal: the editor, the pager, Ctrl-C, the line for long statements, the start file."""

import os
import pty
import re
import select
import signal
import struct
import tempfile
import termios
import time
import unittest
from fcntl import ioctl
from pathlib import Path

from server import ServerCase, program

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
PROMPT = "keyspan=> "
# Takes long, whatever the machine.
LONG = "SELECT count(*) FROM generate_series(1, 300000) a(x), generate_series(1, 300000) b(y) WHERE (x + y) % 7 = 1;"


def shown(text):
    """What of it a person sees."""
    return ESCAPES.sub("", text).replace("\r", "")


class Terminal:
    """A shell in a terminal of 20 lines of 100 columns."""

    def __init__(self, home, *arguments, **environment):
        environment = os.environ | {"HOME": str(home), "TERM": "xterm"} | environment
        environment.pop("LINES", None)
        command = [str(program()), "shell", *arguments]
        self.process, self.terminal = pty.fork()
        if self.process == 0:
            os.execvpe(command[0], command, environment)
        ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 20, 100, 0, 0))
        self.read()

    def read_to(self, text, seconds=40):
        """What is printed, at least to this text."""
        printed, end = "", time.monotonic() + seconds
        while time.monotonic() < end:
            if select.select([self.terminal], [], [], 0.2)[0]:
                printed += os.read(self.terminal, 65536).decode(errors="replace")
            if text in shown(printed):
                return shown(printed)
        raise AssertionError(f"{text!r} does not come: {printed!r}")

    def read(self, until=PROMPT, seconds=40):
        """What is printed until a text is its end and nothing follows."""
        text, end = "", time.monotonic() + seconds
        while time.monotonic() < end:
            if select.select([self.terminal], [], [], 0.2)[0]:
                text += os.read(self.terminal, 65536).decode(errors="replace")
            elif shown(text).endswith(until):
                return shown(text)
        raise AssertionError(f"{until!r} does not come: {text!r}")

    def type(self, line):
        os.write(self.terminal, (line + "\r").encode())

    def answer(self, line):
        self.type(line)
        return self.read()

    def interrupt(self):
        os.write(self.terminal, b"\x03")
        return self.read()

    def close(self):
        self.type("\\q")
        end = time.monotonic() + 30
        while os.waitpid(self.process, os.WNOHANG) == (0, 0):
            if select.select([self.terminal], [], [], 0.1)[0]:
                try:
                    os.read(self.terminal, 65536)
                except OSError:
                    pass
            if time.monotonic() > end:
                os.kill(self.process, signal.SIGKILL)
                os.waitpid(self.process, 0)
                raise AssertionError("the shell does not end")
        os.close(self.terminal)


class Shell(ServerCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.home = Path(self.folder.name)
        (self.home / ".keyspanrc").write_text("\\set greeting hello\n\\pset null ~\n")
        editor = self.home / "editor"
        editor.write_text("#!/bin/sh\nfor file; do :; done\nsed -i s/one/two/ \"$file\"\n")
        editor.chmod(0o755)

    def tearDown(self):
        self.folder.cleanup()

    def both(self, **environment):
        """A shell on a directory, and one on the server."""
        environment = {"EDITOR": str(self.home / "editor"), "PAGER": "cat -n"} | environment
        for place in (["--data", str(self.home / "db")], ["--url", f"postgres://127.0.0.1:{self.port}"]):
            terminal = Terminal(self.home, *place, **environment)
            yield terminal
            terminal.close()

    def test_start_file_editor_and_history(self):
        for terminal in self.both():
            self.assertIn("| ~", terminal.answer("SELECT :'greeting' AS hello, NULL AS none;"))
            terminal.answer("SELECT 'one' AS one;")
            self.assertIn("\n two\n", terminal.answer("\\e"))
            self.assertIn("\n two\n", terminal.answer("\\g"))
            self.assertIn("Expanded display is on.", terminal.answer("SELECT 1; \\x"))
        self.assertIn("SELECT 'one' AS one;", (self.home / ".keyspan_history").read_text())

    def test_long_answers_go_through_the_pager(self):
        for terminal in self.both():
            self.assertIn("    33\t(30 rows)", terminal.answer("SELECT x FROM generate_series(1, 30) AS t(x);"))
            self.assertNotIn("\t(3 rows)", terminal.answer("SELECT x FROM generate_series(1, 3) AS t(x);"))
            terminal.answer("\\pset pager off")
            self.assertNotIn("\t(30 rows)", terminal.answer("SELECT x FROM generate_series(1, 30) AS t(x);"))

    def test_who_leaves_the_pager_stays_in_the_shell(self):
        for terminal in self.both(PAGER="head -2"):
            terminal.answer("SELECT x FROM generate_series(1, 300000) AS t(x);")
            self.assertIn("alive", terminal.answer("SELECT 1 AS alive;"))

    def test_a_long_statement_shows_its_time_and_ends(self):
        for terminal in self.both():
            terminal.type(LONG)
            self.assertIn("1.0 s", terminal.read_to("(Ctrl-C ends it)"))
            self.assertIn("canceling statement due to user request", terminal.interrupt())
            terminal.type("SELECT 1 AS again \\watch 0.2")
            terminal.read("\n\n", 10)
            terminal.interrupt()


if __name__ == "__main__":
    unittest.main()
