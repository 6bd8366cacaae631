"""ActiveRecord: ruby/active_record.rb says what is asked and expected."""

from server import ROOT, ServerCase, needs, run


@needs("ruby", "ruby-activerecord ruby-pg ruby-minitest")
class ActiveRecord(ServerCase):
    def test_what_programs_do(self):
        run(["ruby", "active_record.rb"], ROOT / "tests/drivers/ruby", KEYSPAN_PORT=str(self.port))
