"""pgjdbc: java/Jdbc.java says what is asked and expected."""

from server import ROOT, ServerCase, jdbc, needs, run


@needs("mvn", "maven default-jdk-headless")
class Jdbc(ServerCase):
    def test_what_programs_do(self):
        run(["java", "-cp", jdbc(), "Jdbc.java", self.port], ROOT / "tests/drivers/java")
