"""Limits for the length and depth of SQL expressions, which are checked before Lance parses them.

Lance parses and plans by recursion. An expression whose tree is too deep overflows the stack, which ends the process.
The parser tries some forms in two ways, and the planner repeats some operands, so each nested form doubles the time.
Neither can be interrupted, so the text is checked first. Measured with Lance 14:

| expression | works | ends the process, or takes minutes |
|---|---|---|
| `1 + 1 + ...` and other operators | 400 operators | 800 |
| `a AND b AND ...`, `OR` | 30,000 terms | 100,000 |
| `(((a)))` | 46 levels; more raise an error | |
| `CAST(CAST(...))`, `SUBSTRING`, `POSITION`, with or without a mistake inside | 12 levels | 24 |
| `coalesce(coalesce(...))`, `(a BETWEEN b AND c) BETWEEN ...` | 8 levels | 24 |
| `a IN (1, 2, ...)` | 100,000 values | |
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

LONGEST = 1 << 20
"""Characters."""
DEEPEST = 40
"""Nested brackets."""
HIGHEST = 200
"""Levels of the tree: operators in a row, including those in brackets between them."""
MOST_WORK = 2 << 20
"""Characters that Lance reads. Nested forms make it read the same text repeatedly."""
_JUNCTIONS_PER_LEVEL = 32
"""AND and OR need this many times less of the stack than other operators."""
_FACTOR, _BETWEEN_FACTOR = 3, 5
_FACTORS = {"POSITION": 5}
"""Most forms double the work, BETWEEN and POSITION do more. Any function may be such a form."""
_PREFIXES = {"NOT", "INTERVAL"}
_JUNCTIONS = {"AND", "OR"}
_SEPARATORS = {*_JUNCTIONS, "WHEN", "THEN", "ELSE"}
_ENOUGH = 32
"""The largest exponent that matters: beyond it, any amount of work exceeds the limit."""
_PLAIN_BEFORE_BRACKET = {"AND", "OR", "IN", "WHEN", "THEN", "ELSE", "CASE", "LIKE", "IS", "ANY", "ALL", "ON"}
_TOKEN = re.compile(
    r"""
      (?P<skipped> \s+ | --[^\n]* | /\*.*?\*/ )
    | (?P<quoted> '(?:[^']|'')*' | "(?:[^"]|"")*" | `(?:[^`]|``)*` )
    | (?P<word> \w+ )
    | (?P<open> [(\[{] )
    | (?P<close> [)\]}] )
    | (?P<sign> . )
    """,
    re.VERBOSE | re.DOTALL,
)
_BARE_TOKEN = re.compile(r"(?P<word> \w+ ) | (?P<open> [(\[{] ) | (?P<close> [)\]}] ) | (?P<sign> \S )", re.VERBOSE)
_AMBIGUOUS = re.compile(r"\\|--|/\*|\$\$|&'|'''|\"\"\"")
"""The dialect may decide where a text or comment ends. Such an expression is also checked as if it had none."""


@dataclass
class _Level:
    """The part of one pair of brackets that has been read."""

    begin: int
    factor: int = 1
    """The factor by which the form of the bracket multiplies the work inside it."""
    height: float = 0.0
    work: int = 0
    junctions: int = 0
    # The current term, which ends at AND, OR or a comma.
    term_begin: int = 0
    tokens: int = 0
    inner_height: float = 0.0
    extra_work: int = 0
    betweens: int = 0
    unfinished_betweens: int = 0
    word: str = ""
    """The preceding word."""
    prefix_factor: int = 1
    """The factor of the preceding prefix words."""

    def end_term(self, at: int) -> None:
        """Add the term to the totals, and start the next one."""
        # Operators in a row form a tree that leans to one side. The planner repeats the first operand of BETWEEN.
        repeated = self.betweens if self.inner_height else max(self.betweens - 1, 0)
        work = (at - self.term_begin + self.extra_work) * self.prefix_factor
        self.height = max(self.height, self.tokens / 2 + self.inner_height)
        self.work += work * _BETWEEN_FACTOR ** min(repeated, _ENOUGH)
        self.term_begin, self.tokens, self.inner_height, self.extra_work = at, 0, 0.0, 0
        self.betweens = self.unfinished_betweens = 0
        self.word, self.prefix_factor = "", 1


@dataclass
class _ExpressionReader:
    """Reads an expression token by token and adds up its height and work."""

    levels: list[_Level] = field(default_factory=lambda: [_Level(0)])
    deepest: int = 0

    def read(self, expression: str, tokens: re.Pattern[str]) -> tuple[float, int]:
        """Return the height of the tree and the work to parse it."""
        for found in tokens.finditer(expression):
            kind = found.lastgroup
            if kind == "open":
                self._open(found.end())
            elif kind == "close":
                self._close(found.start())
            elif kind == "word":
                self._word(found[0].upper(), found.start())
            elif kind != "skipped":
                self._sign(found[0], found.start())
        while len(self.levels) > 1:
            self._close(len(expression))
        return self._total(len(expression))

    def _open(self, at: int) -> None:
        level = self.levels[-1]
        factor = level.prefix_factor
        if level.word and level.word not in _PLAIN_BEFORE_BRACKET:
            factor *= _FACTORS.get(level.word, _FACTOR)
        level.prefix_factor, level.word = 1, ""
        self.levels.append(_Level(at, factor, term_begin=at))
        self.deepest = max(self.deepest, len(self.levels) - 1)

    def _close(self, at: int) -> None:
        if len(self.levels) == 1:
            return
        height, work = self._total(at)
        closed, level = self.levels.pop(), self.levels[-1]
        level.inner_height = max(level.inner_height, height)
        level.extra_work = min(level.extra_work + work - (at - closed.begin), MOST_WORK + 1)
        level.tokens += 1
        level.word = ""

    def _total(self, at: int) -> tuple[float, int]:
        level = self.levels[-1]
        level.end_term(at)
        height = level.height + level.junctions / _JUNCTIONS_PER_LEVEL + 1
        return height, level.work * level.factor

    def _word(self, word: str, at: int) -> None:
        level = self.levels[-1]
        if word == "AND" and level.unfinished_betweens:
            level.unfinished_betweens -= 1
        elif word in _SEPARATORS:
            level.end_term(at)
            level.junctions += word in _JUNCTIONS
            return
        level.tokens += 1
        if word == "BETWEEN":
            level.betweens += 1
            level.unfinished_betweens += 1
        if word in _PREFIXES:
            level.prefix_factor = min(level.prefix_factor * _FACTOR, MOST_WORK)
            level.word = ""
        else:
            self._operand(level)
            level.word = word

    def _sign(self, sign: str, at: int) -> None:
        level = self.levels[-1]
        if sign == ",":
            level.end_term(at)
            return
        level.tokens += 1
        level.word = ""
        self._operand(level)

    @staticmethod
    def _operand(level: _Level) -> None:
        """End a sequence of prefix words."""
        if level.prefix_factor > 1:
            level.extra_work += level.prefix_factor
            level.prefix_factor = 1


def find_excess(expression: str) -> str | None:
    """Return why an expression exceeds a limit, as the end of a sentence, or None."""
    if len(expression) > LONGEST:
        return f"is longer than {LONGEST:,} characters: it has {len(expression):,}"
    ways = (_TOKEN, _BARE_TOKEN) if _AMBIGUOUS.search(expression) else (_TOKEN,)
    for tokens in ways:
        reader = _ExpressionReader()
        height, work = reader.read(expression, tokens)
        if reader.deepest > DEEPEST:
            return f"has more than {DEEPEST} nested brackets"
        if height > HIGHEST:
            return f"has too many operators in a row: about {height:,.0f} levels, and at most {HIGHEST} are allowed"
        if work > MOST_WORK:
            return "has too many nested functions, casts, NOT or BETWEEN"
    return None
