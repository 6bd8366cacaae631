"""The two servers' answers to a statement of CQL, with values of one form."""

import dataclasses
import datetime
import decimal
import ipaddress
import json
import re
import uuid

import psycopg
from cassandra.cluster import Cluster, NoHostAvailable
from cassandra.protocol import _ProtocolHandler
from cassandra.util import Date, Time


@dataclasses.dataclass
class Answer:
    """Rows by name and value, or an error. `texts` are the values as Keyspan writes them."""

    error: str = ""
    names: tuple = ()
    rows: tuple = ()
    texts: tuple = ()

    def __str__(self):
        if self.error:
            return self.error
        rows = [" | ".join(map(str, row)) for row in self.rows[:12]]
        return "\n".join([" | ".join(self.names) + f"  ({len(self.rows)})", *rows])


class Cassandra:
    def __init__(self, port):
        self.cluster = Cluster(["127.0.0.1"], port=port)
        self.session = self.cluster.connect()
        # Its own clock stamps conditional writes; one clock for all.
        self.session.use_client_timestamp = False
        self.session.default_timeout = 60
        # The compiled one fails where a list holds nulls, as the times to live of a collection do.
        self.session.client_protocol_handler = _ProtocolHandler

    def use(self, keyspace):
        replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
        self.session.execute(f"CREATE KEYSPACE {keyspace} WITH replication = {replication}")
        self.session.set_keyspace(keyspace)

    def ask(self, text):
        try:
            result = self.session.execute(text)
        except NoHostAvailable:
            raise
        except Exception as error:
            return Answer(error=str(error).splitlines()[0][:200])
        names = tuple(result.column_names or ())
        rows = tuple(tuple(map(plain, row)) for row in (result if names else ()))
        return Answer(names=names, rows=rows)


LITERAL = re.compile(
    r"'(?:[^']|'')*'|(?<!\w)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?<![\w$])0x[0-9a-f]*|"
    r"(?<![\w$])-?\d+(?:\.\d+)?(?:e\d+)?(?!\w)|\b(?:true|false)\b"
)


def with_parameters(text):
    """A statement with `$1`, `$2`, … for its literals, and their values as texts."""
    values = []

    def placed(found):
        literal = found[0]
        literal = literal[1:-1].replace("''", "'") if literal[0] == "'" else literal
        values.append(f"\\x{literal[2:]}" if literal.startswith("0x") else literal)
        return f"${len(values)}"

    return LITERAL.sub(placed, text), values


class Keyspan:
    def __init__(self, conninfo, parameters=False):
        self.parameters = parameters
        self.connection = psycopg.connect(conninfo, autocommit=True)
        for setting in ("SET TIME ZONE 'UTC'", "SET advice = 'off'"):
            self.connection.execute(setting)

    def use(self, keyspace):
        self.connection.execute(f"CREATE SCHEMA {keyspace}")
        self.connection.execute(f"SET search_path = {keyspace}")

    def ask(self, text):
        try:
            with self.connection.cursor() as cursor:
                if self.parameters and text.split()[0] in ("INSERT", "UPDATE", "DELETE", "SELECT") and " JSON " not in text:
                    text, values = with_parameters(text)
                    cursor = psycopg.RawCursor(self.connection)
                    cursor.execute(text, values)
                else:
                    cursor.execute(text)
                while cursor.nextset():
                    pass
                if cursor.description is None:
                    return Answer()
                names = tuple(column.name for column in cursor.description)
                result = cursor.pgresult
                decoded = lambda value: None if value is None else value.decode()
                row = lambda at: tuple(decoded(result.get_value(at, column)) for column in range(result.nfields))
                texts = tuple(map(row, range(result.ntuples)))
                return Answer(names=names, rows=tuple(tuple(map(plain, row)) for row in cursor.fetchall()), texts=texts)
        except psycopg.Error as error:
            # A batch that failed in the middle is open.
            self.connection.rollback()
            return Answer(error=f"{error.sqlstate} {str(error).splitlines()[0]}")


def plain(value):
    """A value in the form that both drivers' values are brought to."""
    if isinstance(value, dict) or hasattr(value, "_asdict"):
        fields = value if isinstance(value, dict) else value._asdict()
        return {key if isinstance(key, str) else json.dumps(plain(key)): plain(item) for key, item in fields.items()}
    if hasattr(value, "items") and callable(value.items):
        return {key if isinstance(key, str) else json.dumps(plain(key)): plain(item) for key, item in value.items()}
    if isinstance(value, str) and value[:1] == "{":
        return parsed(value)
    if isinstance(value, (uuid.UUID, ipaddress.IPv4Address, ipaddress.IPv6Address)):
        return str(value)
    if isinstance(value, (bytes, memoryview)):
        return "0x" + bytes(value).hex()
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=None).isoformat()
    if isinstance(value, Date):
        return value.date().isoformat()
    if isinstance(value, Time):
        return value.time().isoformat()
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, (str, int, float, type(None))):
        return value
    return [plain(item) for item in value]


def parsed(text):
    """The object of SELECT JSON; another text is what it is."""
    try:
        return json.loads(text)
    except ValueError:
        return text
