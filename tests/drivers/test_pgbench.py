"""PostgreSQL's own pgbench, as Debian packages it: its tables, its keys, its three scripts, in each protocol."""

import glob
import os
import re
import shutil
import subprocess
import unittest

from server import ServerCase


def pgbench():
    """The program, which Debian puts beside the server's."""
    return shutil.which("pgbench") or next(iter(sorted(glob.glob("/usr/lib/postgresql/*/bin/pgbench"), reverse=True)), None)


@unittest.skipIf(pgbench() is None and not os.environ.get("CI"), "pgbench is not installed: apt-get install postgresql")
class Pgbench(ServerCase):
    SCALE = 1

    def run_pgbench(self, *arguments, **environment):
        command = [pgbench(), "-h", "127.0.0.1", "-p", str(self.port), "-U", "me", *arguments, "bench"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=os.environ | environment)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout + done.stderr

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.run_pgbench(cls(), "-i", "-s", str(cls.SCALE))

    def scalar(self, statement):
        command = ["psql", "-X", "-A", "-t", "-h", "127.0.0.1", "-p", str(self.port), "-U", "me", "-d", "bench", "-c", statement]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def bench(self, *arguments, **environment):
        out = self.run_pgbench("-c", "4", "-T", "3", *arguments, **environment)
        failed = re.search(r"number of failed transactions: (\d+)", out)
        self.assertEqual(failed.group(1) if failed else "0", "0", out)
        done = re.search(r"number of transactions actually processed: (\d+)", out)
        self.assertGreater(int(done.group(1)), 0, out)

    def test_1_its_tables_have_keys_and_rows(self):
        self.assertEqual(self.scalar("SELECT count(*) FROM pgbench_accounts"), str(100_000 * self.SCALE))
        keys = "SELECT string_agg(conname, ' ' ORDER BY conname) FROM pg_constraint WHERE contype = 'p'"
        self.assertEqual(self.scalar(keys), "pgbench_accounts_pkey pgbench_branches_pkey pgbench_tellers_pkey")

    def test_2_tpcb_keeps_its_sums(self):
        self.bench("-b", "tpcb-like")
        sums = "SELECT (SELECT sum(abalance) FROM pgbench_accounts), (SELECT sum(bbalance) FROM pgbench_branches), \
                (SELECT sum(tbalance) FROM pgbench_tellers), (SELECT sum(delta) FROM pgbench_history)"
        self.assertEqual(len(set(self.scalar(sums).split("|"))), 1, self.scalar(sums))

    def test_3_simple_update(self):
        self.bench("-b", "simple-update")

    def test_4_select_only(self):
        self.bench("-b", "select-only")

    def test_5_the_other_protocols(self):
        for protocol in ("extended", "prepared"):
            for script in ("tpcb-like", "simple-update", "select-only"):
                with self.subTest(protocol=protocol, script=script):
                    self.bench("-b", script, "-M", protocol)

    def test_6_under_postgres_semantics_of_writes(self):
        self.bench("-b", "tpcb-like", "-M", "prepared", PGOPTIONS="-c write_semantics=postgres")

    def test_7_it_can_be_initialized_again(self):
        self.run_pgbench("-i", "-s", str(self.SCALE), PGOPTIONS="-c write_semantics=postgres")
        self.assertEqual(self.scalar("SELECT sum(abalance) FROM pgbench_accounts"), "0")
