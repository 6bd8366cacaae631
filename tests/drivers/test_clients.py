"""The programs of docs/clients/, as they stand there."""

import pathlib
import re
import shutil
import sys
import tempfile

from server import ROOT, ServerCase, jdbc, needs, node, run


class Clients(ServerCase):
    def examples(self, page, language):
        """The programs of a page, for this test's server."""
        text = (ROOT / "docs/clients" / page).read_text()
        found = re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)
        self.assertTrue(found, f"docs/clients/{page} has no example in {language}")
        return [example.replace("5433", str(self.port)) for example in found]

    def setUp(self):
        self.here = pathlib.Path(tempfile.mkdtemp(prefix="keyspan-clients-"))
        self.addCleanup(shutil.rmtree, self.here)

    def test_psql(self):
        for example in self.examples("psql.md", "sh"):
            self.assertIn("PRIMARY KEY, btree (sensor, ts)", run(["bash", "-c", example], self.here))

    def test_python(self):
        for example in self.examples("python.md", "python"):
            run([sys.executable, "-c", example], self.here)

    @needs("mvn", "maven default-jdk-headless")
    def test_jdbc(self):
        for example in self.examples("jdbc.md", "java"):
            (self.here / "Example.java").write_text(example)
            run(["java", "-cp", jdbc(), "Example.java"], self.here)

    @needs("go", "golang-go")
    def test_go(self):
        for example in self.examples("go.md", "go"):
            for name in ("go.mod", "go.sum"):
                shutil.copy(ROOT / "tests/drivers/go" / name, self.here)
            (self.here / "main.go").write_text(example)
            run(["go", "run", "."], self.here, GOTOOLCHAIN="local")

    @needs("ruby", "ruby-activerecord ruby-pg")
    def test_ruby(self):
        for example in self.examples("ruby.md", "ruby"):
            run(["ruby", "-e", example], self.here)

    @needs("php", "php-cli php-pgsql")
    def test_php(self):
        for example in self.examples("php.md", "php"):
            (self.here / "example.php").write_text(example)
            run(["php", "example.php"], self.here)

    @needs("npm", "nodejs npm")
    def test_node(self):
        for example in self.examples("node.md", "js"):
            program = node() / f"example-{self.port}.mjs"
            program.write_text(example)
            self.addCleanup(program.unlink)
            run(["node", program], self.here)
