"""The programs of docs/clients.md, as they stand there."""

import pathlib
import re
import shutil
import sys
import tempfile

from server import ROOT, ServerCase, jdbc, needs, run


class Clients(ServerCase):
    def examples(self, language):
        """The page's programs in a language, for this test's server."""
        page = (ROOT / "docs/clients.md").read_text()
        found = re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)
        self.assertTrue(found, f"docs/clients.md has no example in {language}")
        return [example.replace("5433", str(self.port)) for example in found]

    def setUp(self):
        self.here = pathlib.Path(tempfile.mkdtemp(prefix="keyspan-clients-"))
        self.addCleanup(shutil.rmtree, self.here)

    def test_psql(self):
        for example in self.examples("sh"):
            self.assertIn("PRIMARY KEY, btree (sensor, ts)", run(["bash", "-c", example], self.here))

    def test_python(self):
        for example in self.examples("python"):
            run([sys.executable, "-c", example], self.here)

    @needs("mvn", "maven default-jdk-headless")
    def test_java(self):
        for example in self.examples("java"):
            (self.here / "Example.java").write_text(example)
            run(["java", "-cp", jdbc(), "Example.java"], self.here)

    @needs("go", "golang-go")
    def test_go(self):
        for example in self.examples("go"):
            for name in ("go.mod", "go.sum"):
                shutil.copy(ROOT / "tests/drivers/go" / name, self.here)
            (self.here / "main.go").write_text(example)
            run(["go", "run", "."], self.here, GOTOOLCHAIN="local")
