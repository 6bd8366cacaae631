"""For pytest: SQLAlchemy's suite makes the extensions citext and hstore before its first test, and uses neither."""

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart():
    from sqlalchemy.dialects.postgresql import provision

    provision._extensions = []
