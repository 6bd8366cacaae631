"""Laravel's Eloquent and Doctrine's DBAL: the programs in php/ say what is asked and expected."""

from server import ROOT, ServerCase, needs, run

PACKAGES = "php-cli php-pgsql php-illuminate-database php-doctrine-dbal"


@needs("php", PACKAGES)
class Eloquent(ServerCase):
    def test_what_programs_do(self):
        run(["php", "eloquent.php"], ROOT / "tests/drivers/php", KEYSPAN_PORT=str(self.port))


@needs("php", PACKAGES)
class Doctrine(ServerCase):
    def test_what_programs_do(self):
        run(["php", "doctrine.php"], ROOT / "tests/drivers/php", KEYSPAN_PORT=str(self.port))
