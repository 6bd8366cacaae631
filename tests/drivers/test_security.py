"""Passwords, TLS, rules of access and roles, with psql and psycopg."""

import pathlib
import shutil
import signal
import stat
import subprocess
import tempfile
import time
import unittest

import psycopg
from server import needs, program


def certificate(folder, name, host):
    """A certificate of its own and its key; who trusts it gives it as the root."""
    subject = ["-subj", f"/CN={host}", "-addext", f"subjectAltName=DNS:{host},IP:127.0.0.1"]
    files = ["-keyout", folder / f"{name}.key", "-out", folder / f"{name}.crt"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject, *files]
    subprocess.run([str(part) for part in command], check=True, capture_output=True)
    (folder / f"{name}.key").chmod(0o600)


@needs("openssl", "openssl")
class Security(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="keyspan-security-"))
        certificate(cls.folder, "one", "localhost")
        certificate(cls.folder, "two", "localhost")
        for end in ("crt", "key"):
            shutil.copy2(cls.folder / f"one.{end}", cls.folder / f"server.{end}")
        cls.rules = cls.folder / "hba"
        cls.rules.write_text("local all all scram-sha-256\nhostssl all all all scram-sha-256\n")
        cls.create("admin", "secret's", "--superuser")
        cls.start()

    @classmethod
    def create(cls, name, password, *options):
        command = [program(), "role", "create", "--data", cls.folder / "data", *options, name]
        subprocess.run([str(part) for part in command], input=password + "\n", text=True, check=True, capture_output=True)

    @classmethod
    def start(cls):
        command = [program(), "serve", "--data", cls.folder / "data", "--listen", "127.0.0.1:0", "--socket", cls.folder]
        command += ["--tls-cert", cls.folder / "server.crt", "--tls-key", cls.folder / "server.key", "--hba", cls.rules]
        cls.log = open(cls.folder / "log", "w+")
        command = [str(part) for part in command]
        cls.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=cls.log, text=True)
        cls.port = int(cls.process.stdout.readline().strip().rsplit(":", 1)[1])

    @classmethod
    def tearDownClass(cls):
        cls.process.terminate()
        code = cls.process.wait(timeout=30)
        cls.process.stdout.close()
        cls.log.close()
        shutil.rmtree(cls.folder)
        assert code == 0, f"SIGTERM must stop the server cleanly, not with {code}"

    def connect(self, user="admin", password="secret's", root="one", **options):
        options = {"sslmode": "verify-full", "sslrootcert": str(self.folder / f"{root}.crt"), "host": "localhost"} | options
        return psycopg.connect(port=self.port, dbname="public", user=user, password=password, autocommit=True, **options)

    def refused(self, part, **options):
        with self.assertRaises(psycopg.OperationalError) as raised:
            self.connect(**options)
        self.assertIn(part, str(raised.exception))

    def hang_up(self):
        self.process.send_signal(signal.SIGHUP)
        time.sleep(0.3)

    def test_tls_with_channel_binding(self):
        with self.connect(channel_binding="require") as connection:
            self.assertTrue(connection.pgconn.ssl_in_use)
            self.assertEqual(connection.execute("SELECT current_user").fetchone(), ("admin",))
            # More than one record of TLS, both ways.
            text = "x" * 300_000
            self.assertEqual(connection.execute("SELECT %s", (text,)).fetchone(), (text,))

    def test_wrong_passwords_and_strangers(self):
        for user, password in (("admin", "wrong"), ("nobody", "secret's"), ("admin", "")):
            self.refused("no password supplied" if not password else "password authentication failed", user=user, password=password)
        self.refused("certificate verify failed", root="two")

    def test_without_tls(self):
        self.refused("no encryption", sslmode="disable")

    def test_psql_by_the_unix_socket(self):
        socket = self.folder / f".s.PGSQL.{self.port}"
        self.assertEqual(stat.S_IMODE(socket.stat().st_mode), 0o600)
        address = f"host={self.folder} port={self.port} user=admin dbname=public password='secret\\'s'"
        done = subprocess.run(["psql", address, "-Atc", "SELECT 40 + 2", "-c", "\\du"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("42\n", done.stdout)
        self.assertIn("admin|Superuser", done.stdout)

    def test_the_certificate_and_the_rules_are_read_again(self):
        before = self.connect()
        for end in ("crt", "key"):
            shutil.copy2(self.folder / f"two.{end}", self.folder / f"server.{end}")
        self.hang_up()
        self.connect(root="two", channel_binding="require").close()
        self.refused("certificate verify failed")
        before.execute("SELECT 1")
        # What is no certificate leaves the former one.
        (self.folder / "server.crt").write_text("nothing")
        self.rules.write_text("host all all all reject\n")
        self.hang_up()
        self.refused("no rule of access", root="two")
        self.rules.write_text("hostssl all all all scram-sha-256\nlocal all all scram-sha-256\n")
        for end in ("crt", "key"):
            shutil.copy2(self.folder / f"one.{end}", self.folder / f"server.{end}")
        self.hang_up()
        self.connect().close()
        before.close()

    def test_rights_over_the_wire(self):
        with self.connect() as admin:
            admin.execute("CREATE TABLE shop (id int PRIMARY KEY, v text, secret text)")
            admin.execute("INSERT INTO shop VALUES (1, 'a', 's')")
            admin.execute("CREATE ROLE clerk LOGIN PASSWORD 'c' CONNECTION LIMIT 1")
            admin.execute("GRANT SELECT (id, v) ON shop TO clerk")
            with self.connect("clerk", "c") as clerk:
                for parameter in range(8):  # psycopg prepares what it has sent five times
                    clerk.execute("SELECT v FROM shop WHERE id = %s", (parameter,), prepare=True)
                    clerk.execute("SELECT count(v) FROM shop WHERE id >= %s", (parameter,), prepare=True)
                self.assert_denied(clerk, "SELECT secret FROM shop WHERE id = 1")
                self.assert_denied(clerk, "SELECT * FROM shop")
                self.assert_denied(clerk, "INSERT INTO shop (id) VALUES (2)")
                self.assert_denied(clerk, "COPY shop FROM STDIN")
                self.assert_denied(clerk, "COPY shop TO STDOUT")
                self.assert_denied(clerk, "DECLARE c CURSOR WITH HOLD FOR SELECT secret FROM shop")
                self.refused("too many connections for role", user="clerk", password="c")
                admin.execute("REVOKE SELECT ON shop FROM clerk")
                for query in ("SELECT v FROM shop WHERE id = %s", "SELECT count(v) FROM shop WHERE id >= %s"):
                    with self.assertRaises(psycopg.errors.InsufficientPrivilege):
                        clerk.execute(query, (1,), prepare=True)
                clerk.execute("ALTER ROLE clerk PASSWORD 'new'")
            self.refused("password authentication failed", user="clerk", password="c")
            admin.execute("DROP TABLE shop")
            admin.execute("DROP ROLE clerk")
        self.log.flush()
        text = (self.folder / "log").read_text()
        self.assertIn("CREATE ROLE", text)
        for hidden in ("secret's", "PASSWORD 'c'"):
            self.assertNotIn(hidden, text)

    def assert_denied(self, connection, query):
        with self.assertRaises(psycopg.errors.InsufficientPrivilege):
            with connection.cursor() as cursor:
                if query.startswith("COPY"):
                    with cursor.copy(query) as copy:
                        for _ in copy if query.endswith("STDOUT") else ():
                            pass
                else:
                    cursor.execute(query)


if __name__ == "__main__":
    unittest.main()
