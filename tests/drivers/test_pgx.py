"""pgx: go/pgx_test.go says what is asked and expected."""

from server import ROOT, ServerCase, needs, run


@needs("go", "golang-go")
class Pgx(ServerCase):
    def test_what_programs_do(self):
        run(["go", "test", "-count=1", "."], ROOT / "tests/drivers/go", KEYSPAN_PORT=str(self.port), GOTOOLCHAIN="local")
