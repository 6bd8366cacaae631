"""psql: statements, COPY, and the backslash commands a newcomer types first."""

import subprocess

from server import ServerCase


class Psql(ServerCase):
    def psql(self, *commands, check=True, stdin=None, footers=False):
        arguments = ["psql", "-X", "-h", "127.0.0.1", "-p", str(self.port), "-U", "me", "-d", "db", "-A", "-v", "ON_ERROR_STOP=1"]
        arguments += [] if footers else ["-t"]
        for command in commands:
            arguments += ["-c", command]
        done = subprocess.run(arguments, capture_output=True, text=True, input=stdin, timeout=60)
        if check:
            self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout if check else done.stderr

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.psql(
            cls(),
            "CREATE TABLE readings (site text, ts timestamp, v double, PRIMARY KEY (site, ts)) WITH CLUSTERING ORDER BY (ts DESC)",
            "CREATE VIEW newest AS SELECT site, max(ts) AS ts FROM readings GROUP BY site",
        )

    def test_copy_in_and_out(self):
        rows = "".join(f"a,2024-01-01 00:00:{n:02},{n}.5\n" for n in range(60))
        self.assertEqual(self.psql("\\copy readings FROM pstdin WITH (FORMAT csv)", stdin=rows).strip(), "COPY 60")
        out = self.psql("\\copy (SELECT site, v FROM readings ORDER BY ts LIMIT 2) TO pstdout WITH (FORMAT csv)")
        self.assertEqual(out, "a,0.5\na,1.5\n")

    def test_copy_leaves_out_what_is_wrong(self):
        self.psql("CREATE TABLE loose (k int PRIMARY KEY, v double)")
        copy = "\\copy loose FROM pstdin WITH (FORMAT csv, ON_ERROR ignore"
        rows = "1,1.5\nx,2\n3,three\n4,4\n"
        self.assertEqual(self.psql(copy + ")", stdin=rows).strip(), "COPY 2")
        told = self.psql(copy + ", LOG_VERBOSITY verbose, REJECT_LIMIT 1)", stdin=rows, check=False)
        self.assertIn("skipped more than REJECT_LIMIT (1) rows", told)
        self.assertEqual(self.psql("SELECT count(*) FROM loose").strip(), "2")

    def test_an_error_points_at_its_place(self):
        error = self.psql("SELECT 1 FORM readings WHERE", check=False)
        self.assertIn("syntax error", error)
        self.assertIn("^", error)
        self.assertIn("readings", self.psql("SELECT * FROM reading", check=False))

    def test_list_of_tables(self):
        listed = self.psql("\\dt")
        self.assertIn("public|readings|table", listed)
        self.assertNotIn("newest", listed)

    def test_list_of_relations(self):
        listed = self.psql("\\d")
        self.assertIn("readings", listed)
        self.assertIn("public|newest|view", listed)

    def test_description_of_a_table(self):
        described = self.psql("\\d readings", footers=True)
        self.assertIn("site|text||not null|", described)
        self.assertIn("ts|timestamp with time zone||not null|", described)
        self.assertIn("v|double precision|||", described)
        self.assertIn('PRIMARY KEY, btree (site, ts DESC)', described)

    def test_description_of_an_index(self):
        self.assertIn("site|text|yes|site", self.psql("\\d readings_pkey"))

    def test_lists_of_schemas_and_databases(self):
        self.assertIn("public|", self.psql("\\dn"))
        self.assertTrue(self.psql("\\l").strip())
