"""A psql script as its statements.

Text between `;` outside of quotes and comments is a statement. A line that begins with a backslash is a command of
psql, of which only those are followed that say which file COPY reads (`\\getenv`, `\\set`). Rows after
`COPY … FROM stdin` belong to it.
"""

import dataclasses
import pathlib
import re

# What may hold a semicolon that ends nothing, or ends a statement.
TOKENS = re.compile(
    r"(?P<comment>--[^\n]*|/\*.*?\*/)"
    r"|(?P<quoted>'(?:[^']|'')*'|\"[^\"]*\"|(?P<tag>\$\w*\$).*?(?P=tag))"
    r"|(?P<escaped>\b[eE]'(?:[^'\\]|\\.|'')*')"
    r"|(?P<command>(?m:^)\\[^\n]*)"
    r"|(?P<inline>\\(?:gset|gexec|gdesc|gx|g|crosstabview|watch)\b[^\n]*)"
    r"|(?P<end>;)"
    r"|(?P<open>\()|(?P<close>\))",
    re.DOTALL,
)


@dataclasses.dataclass
class Statement:
    """A statement, where it begins, and the rows that COPY reads after it."""

    text: str
    line: int
    rows: bytes | None = None


def statements(path, variables=None):
    """The statements of a file. `variables` are what `\\getenv` finds."""
    reader = Reader(path.read_text(encoding="utf-8", errors="replace"), dict(variables or {}))
    return list(reader.statements())


class Reader:
    def __init__(self, text, environment):
        self.text, self.environment, self.variables = text, environment, {}
        self.begin, self.parts, self.depth = 0, [], 0

    def statements(self):
        place = 0
        while found := self.next_token(place):
            kind, end = found.lastgroup if found.lastgroup != "tag" else "quoted", found.end()
            if kind == "command":
                self.command(found.group())
            if kind in ("comment", "command"):
                self.parts.append(self.text[self.begin : found.start()])
                self.begin = end
            self.depth += (kind == "open") - (kind == "close")
            # A rule's body has semicolons in parentheses.
            if kind == "inline" or (kind == "end" and self.depth <= 0):
                statement = self.finished(found.start())
                self.begin = end
                if statement and re.match(r"copy\b.*\bfrom\s+stdin\b", statement.text, re.I | re.S):
                    self.begin = end = self.rows(statement, end)
                if statement:
                    yield statement
            place = end

    def next_token(self, place):
        # `e'…'` comes before its quote, with which it would match as a plain text.
        return TOKENS.search(self.text, place)

    def finished(self, end):
        self.parts.append(self.text[self.begin : end])
        text = "".join(self.parts)
        self.parts, self.depth = [], 0
        line = self.text.count("\n", 0, end) + 1 - text.strip().count("\n")
        text = self.substituted(text.strip())
        if not text:
            return None
        file = re.match(r"(copy\s+.*\bfrom\s+)'(/[^']+)'(.*)$", text, re.I | re.S)
        if file and pathlib.Path(file[2]).exists():
            return Statement(f"{file[1]}stdin{file[3]}", line, pathlib.Path(file[2]).read_bytes())
        return Statement(text, line)

    def rows(self, statement, end):
        """Takes the rows up to the line `\\.`; returns where it ends."""
        begin = self.text.index("\n", end) + 1
        if last := re.compile(r"^\\\.$", re.M).search(self.text, begin):
            statement.rows = self.text[begin : last.start()].encode()
            return last.end()
        return end

    def command(self, line):
        words = line.split()
        if words[0] == "\\getenv" and len(words) == 3:
            self.variables[words[1]] = self.environment.get(words[2], "")
        elif words[0] == "\\set" and len(words) > 2:
            self.variables[words[1]] = "".join(self.substituted(word).strip("'") for word in words[2:])

    def substituted(self, text):
        value = lambda found: self.variables.get(found[2])
        quoted = lambda found: found[0] if value(found) is None else found[1] + value(found) + found[1]
        return re.sub(r"(?<![:\w]):(['\"]?)([a-z_]+)\1(?!\w)", quoted, text)
