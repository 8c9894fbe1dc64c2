"""Tokens of a statement, and a cursor that parses them from left to right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from sqlglot import Token, TokenType
from sqlglot.dialects.spark import Spark
from sqlglot.errors import TokenError

from pennon.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Callable

_OPENING = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE}
_CLOSING = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE}


@dataclass(frozen=True)
class QualifiedName:
    """A name of one or more parts, and its start and end in the text."""

    parts: tuple[str, ...]
    start: int
    end: int


class _WordTokenizer(Spark.Tokenizer):
    """Spark's tokenizer, but every word is one token and no statement becomes a single command token."""

    COMMANDS: ClassVar[set[TokenType]] = set()
    KEYWORDS: ClassVar[dict[str, TokenType]] = {
        word: kind
        for word, kind in Spark.Tokenizer.KEYWORDS.items()
        if " " not in word and not word.startswith("{") and not word.endswith("}")
    }


def tokenize(text: str) -> list[Token] | None:
    """Return the tokens of a statement without trailing semicolons, or None if it cannot be tokenized."""
    try:
        tokens = list(_WordTokenizer(dialect="spark").tokenize(text))
    except TokenError:
        return None
    while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
        tokens.pop()
    return tokens


def is_word(token: Token) -> bool:
    """Return True if a token can be a name or a keyword."""
    if token.token_type is TokenType.IDENTIFIER:
        return True
    if token.token_type in {TokenType.STRING, TokenType.NUMBER, TokenType.RAW_STRING}:
        return False
    first = token.text[:1]
    return first == "_" or first.isalnum()


class TokenCursor:
    """A position in a statement. Methods that expect something raise InvalidInputError with the position."""

    def __init__(self, text: str, tokens: list[Token], position: int = 0) -> None:
        self.text = text
        self.tokens = tokens
        self.position = position

    @property
    def token(self) -> Token | None:
        """The next token, or None at the end."""
        return self.tokens[self.position] if self.position < len(self.tokens) else None

    @property
    def at_end(self) -> bool:
        """Whether all tokens are consumed."""
        return self.position >= len(self.tokens)

    def peek(self, *words: str) -> bool:
        """Return True if these keywords or symbols come next."""
        following = self.tokens[self.position : self.position + len(words)]
        return len(following) == len(words) and all(
            token.token_type not in {TokenType.IDENTIFIER, TokenType.STRING} and token.text.upper() == word
            for token, word in zip(following, words, strict=True)
        )

    def accept(self, *words: str) -> bool:
        """Consume these keywords or symbols and return True if they come next; otherwise return False."""
        if not self.peek(*words):
            return False
        self.position += len(words)
        return True

    def accept_one(self, *words: str) -> str | None:
        """Consume one of these keywords or symbols and return it, or None if none comes next."""
        return next((word for word in words if self.accept(word)), None)

    def expect(self, *words: str) -> None:
        """Consume these keywords or symbols."""
        if not self.accept(*words):
            raise self.syntax_error(f"expected {' '.join(words)}")

    def expect_one(self, *words: str) -> str:
        """Consume one of these keywords or symbols and return it."""
        word = self.accept_one(*words)
        if word is None:
            raise self.syntax_error(f"expected {' or '.join(words)}")
        return word

    def expect_end(self) -> None:
        """Raise InvalidInputError if tokens are left."""
        if not self.at_end:
            raise self.syntax_error("expected the end of the statement")

    def parse_name(self) -> QualifiedName:
        """Parse a name of one or more parts."""
        first = self.position
        parts = [self.parse_part()]
        while self.peek(".") and self.position + 1 < len(self.tokens) and is_word(self.tokens[self.position + 1]):
            self.position += 1
            parts.append(self.parse_part())
        return QualifiedName(tuple(parts), self.tokens[first].start, self.tokens[self.position - 1].end + 1)

    def parse_part(self) -> str:
        """Parse one part of a name."""
        token = self.token
        if token is None or not is_word(token):
            raise self.syntax_error("expected a name")
        self.position += 1
        return token.text

    def parse_string(self) -> str:
        """Parse a string literal."""
        token = self.token
        if token is None or token.token_type is not TokenType.STRING:
            raise self.syntax_error("expected a string in quotes")
        self.position += 1
        text = token.text
        # As in Spark, a doubled quote is a quote, and adjacent literals are concatenated.
        while self.token is not None and self.token.token_type is TokenType.STRING:
            quote = self.text[self.token.start] if self.token.start == self.tokens[self.position - 1].end + 1 else ""
            text += quote + self.token.text
            self.position += 1
        return text

    def parse_optional_string(self) -> str | None:
        """Parse a string literal if one comes next; otherwise return None."""
        token = self.token
        return self.parse_string() if token is not None and token.token_type is TokenType.STRING else None

    def parse_integer(self) -> int:
        """Parse a whole number."""
        token = self.token
        if token is None or token.token_type is not TokenType.NUMBER or not token.text.isdigit():
            raise self.syntax_error("expected a whole number")
        self.position += 1
        return int(token.text)

    def parse_value(self) -> str:
        """Parse the value of a property: a string, a number, true or false. Return it as text."""
        token = self.token
        if token is None:
            raise self.syntax_error("expected a value")
        if token.token_type is TokenType.STRING:
            return self.parse_string()
        sign = "-" if self.accept("-") else ""
        token = self.token
        if token is not None and (token.token_type is TokenType.NUMBER or token.text.upper() in {"TRUE", "FALSE"}):
            self.position += 1
            return sign + token.text.lower()
        raise self.syntax_error("expected a string, a number, true or false")

    def take_until(self, *stops: str) -> str:
        """Return the text of an expression up to one of `stops` outside parentheses and CASE, or up to the end."""
        first, last = self._skip(lambda: any(self.peek(stop) for stop in stops))
        if last < first:
            raise self.syntax_error("expected an expression")
        return self.text[self.tokens[first].start : self.tokens[last].end + 1]

    def parse_list(self, parse_item: Callable[[], str]) -> list[str]:
        """Parse `(a, b, ...)`."""
        self.expect("(")
        items = [parse_item()]
        while self.accept(","):
            items.append(parse_item())
        self.expect(")")
        return items

    def parse_properties(self) -> dict[str, str]:
        """Parse `('key' = 'value', key.with.dots = 5, ...)`."""
        self.expect("(")
        properties: dict[str, str] = {}
        while True:
            key = self.parse_property_key()
            self.accept("=")
            properties[key] = self.parse_value()
            if not self.accept(","):
                break
        self.expect(")")
        return properties

    def parse_property_key(self) -> str:
        """Parse the key of a property: a string, or words with dots."""
        key = self.parse_optional_string()
        return ".".join(self.parse_name().parts) if key is None else key

    def take_rest(self) -> str:
        """Return the remaining text and move to the end."""
        first = self.token
        if first is None:
            raise self.syntax_error("expected a query or an expression")
        self.position = len(self.tokens)
        return self.text[first.start : self.tokens[-1].end + 1]

    def syntax_error(self, message: str) -> InvalidInputError:
        """Return the error for the next token."""
        token = self.token
        if token is None:
            return InvalidInputError(f"Syntax error at the end of the statement: {message}: {_shorten(self.text)}")
        column = token.start - (self.text.rfind("\n", 0, token.start) + 1) + 1
        near = self.text[token.start : token.end + 1]
        return InvalidInputError(
            f"Syntax error at line {token.line}, column {column}, near {near!r}: {message}: {_shorten(self.text)}"
        )

    def _skip(self, stop: Callable[[], bool]) -> tuple[int, int]:
        first = self.position
        depth = 0
        while not self.at_end:
            token = self.tokens[self.position]
            if depth == 0 and (stop() or token.token_type in _CLOSING):
                break
            opens = token.token_type in _OPENING or self._is_case()
            closes = token.token_type in _CLOSING or (depth > 0 and self.peek("END"))
            depth += opens - closes
            self.position += 1
        return first, self.position - 1

    def _is_case(self) -> bool:
        """Return True if a CASE expression starts here, not a column named `case`."""
        if not self.peek("CASE") or self.position + 1 >= len(self.tokens):
            return False
        before = self.tokens[self.position - 1].token_type if self.position else None
        return before is not TokenType.DOT and self.tokens[self.position + 1].token_type is not TokenType.DOT


def _shorten(text: str) -> str:
    one_line = " ".join(text.split())
    return one_line if len(one_line) <= 200 else one_line[:197] + "..."  # noqa: PLR2004 - a readable message
