"""Tokens of SQL text, and a cursor that parses them from left to right."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, TypeVar

from sqlglot import Token, TokenType
from sqlglot.dialects.spark import Spark
from sqlglot.errors import TokenError

from pennon.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Callable

_Item = TypeVar("_Item")
_OPENING = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE}
_CLOSING = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE}
# Keywords after which a value must follow, and keywords that can only follow a value.
_BEFORE_VALUE = {"CASE", "WHEN", "THEN", "ELSE", "AND", "OR", "NOT", "DIV", "LIKE", "ILIKE", "RLIKE", "BETWEEN", "FROM"}
_AFTER_VALUE = {
    *("AND", "OR", "DIV", "LIKE", "ILIKE", "RLIKE", "BETWEEN", "IN", "IS", "AS", "FROM", "THEN", "ELSE", "END"),
}


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
    tokens = tokenize_script(text)
    while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
        tokens.pop()
    return tokens


def tokenize_script(text: str) -> list[Token] | None:
    """Return the tokens of several statements, semicolons included, or None if the text cannot be tokenized."""
    try:
        return list(_WordTokenizer(dialect="spark").tokenize(text))
    except TokenError:
        return None


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

    def parse_name(self) -> tuple[str, ...]:
        """Parse a name and return its parts."""
        parts = [self.parse_part()]
        while self.peek(".") and self.position + 1 < len(self.tokens) and is_word(self.tokens[self.position + 1]):
            self.position += 1
            parts.append(self.parse_part())
        return tuple(parts)

    def parse_part(self) -> str:
        """Parse one part of a name."""
        token = self.token
        if token is None or not is_word(token):
            raise self.syntax_error("expected a name")
        if token.token_type is not TokenType.IDENTIFIER and not token.text.isascii():
            raise self.syntax_error("a name with other characters than ASCII letters, digits and '_' needs backticks")
        self.position += 1
        return token.text

    def parse_string(self) -> str:
        """Parse a string literal."""
        text = self._take(TokenType.STRING, "expected a string in quotes")
        # As in Spark, a doubled quote is a quote, and adjacent literals are concatenated.
        while (token := self.token) is not None and token.token_type is TokenType.STRING:
            quote = self.text[token.start] if token.start == self.tokens[self.position - 1].end + 1 else ""
            text += quote + token.text
            self.position += 1
        return text

    def parse_optional_string(self) -> str | None:
        """Parse a string literal if one comes next; otherwise return None."""
        return self.parse_string() if self._is_next(TokenType.STRING) else None

    def parse_integer(self) -> int:
        """Parse a whole number."""
        if self.token is not None and not self.token.text.isdigit():
            raise self.syntax_error("expected a whole number")
        return int(self._take(TokenType.NUMBER, "expected a whole number"))

    def parse_value(self) -> str:
        """Parse the value of a property: a string, a number, true or false. Return it as text."""
        if self._is_next(TokenType.STRING):
            return self.parse_string()
        sign = "-" if self.accept("-") else ""
        word = self.accept_one("TRUE", "FALSE")
        return sign + (word or self._take(TokenType.NUMBER, "expected a string, a number, true or false")).lower()

    def take_until(self, *stops: str) -> str:
        """Return the text of an expression up to one of `stops` outside parentheses and CASE, or up to the end."""
        first = self.position
        opened: list[str] = []
        while not self.at_end:
            token = self.tokens[self.position]
            if not opened and (token.token_type in _CLOSING or any(map(self._is_stop, stops))):
                break
            if token.token_type in _OPENING or self._is_case():
                opened.append(token.text.upper())
            elif opened and (token.token_type in _CLOSING or (opened[-1] == "CASE" and self._is_end())):
                opened.pop()
            self.position += 1
        if self.position == first:
            raise self.syntax_error("expected an expression")
        return self.text_since(first)

    def text_since(self, first: int) -> str:
        """Return the text from a token to the last consumed one."""
        return self.text[self.tokens[first].start : self.tokens[self.position - 1].end + 1]

    def parse_items(self, parse_item: Callable[[], _Item]) -> list[_Item]:
        """Parse `a, b, ...`."""
        items = [parse_item()]
        while self.accept(","):
            items.append(parse_item())
        return items

    def parse_list(self, parse_item: Callable[[], _Item]) -> list[_Item]:
        """Parse `(a, b, ...)`."""
        self.expect("(")
        items = self.parse_items(parse_item)
        self.expect(")")
        return items

    def parse_properties(self) -> dict[str, str]:
        """Parse `('key' = 'value', key.with.dots = 5, ...)`."""
        return dict(self.parse_list(self._parse_property))

    def parse_property_key(self) -> str:
        """Parse the key of a property: a string, or words with dots."""
        key = self.parse_optional_string()
        return ".".join(self.parse_name()) if key is None else key

    def take_rest(self) -> str:
        """Return the remaining text and move to the end."""
        if self.at_end:
            raise self.syntax_error("expected a query or an expression")
        first, self.position = self.position, len(self.tokens)
        return self.text_since(first)

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

    def _is_next(self, kind: TokenType) -> bool:
        return self.token is not None and self.token.token_type is kind

    def _take(self, kind: TokenType, message: str) -> str:
        token = self.token
        if token is None or token.token_type is not kind:
            raise self.syntax_error(message)
        self.position += 1
        return token.text

    def _parse_property(self) -> tuple[str, str]:
        key = self.parse_property_key()
        self.accept("=")
        return key, self.parse_value()

    def _is_stop(self, word: str) -> bool:
        """Return True if this keyword or symbol comes next, not a field with its name."""
        return self.peek(word) and not self._is_field(self.position)

    def _is_field(self, number: int) -> bool:
        return number > 0 and self.tokens[number - 1].token_type is TokenType.DOT

    def _is_case(self) -> bool:
        """Return True if a CASE expression starts here, not a column named `case`."""
        if not self._is_stop("CASE") or self.position + 1 >= len(self.tokens):
            return False
        following = self.tokens[self.position + 1]
        if following.token_type in {TokenType.L_PAREN, TokenType.STRING, TokenType.NUMBER, TokenType.DASH}:
            return True
        return is_word(following) and not self._is_keyword(self.position + 1, _AFTER_VALUE)

    def _is_end(self) -> bool:
        """Return True if a CASE expression ends here: a column named `end` follows a keyword or a sign."""
        if not self._is_stop("END"):
            return False
        before = self.tokens[self.position - 1]
        is_value = before.token_type in {*_CLOSING, TokenType.STRING, TokenType.NUMBER, TokenType.RAW_STRING}
        return is_value or (is_word(before) and not self._is_keyword(self.position - 1, _BEFORE_VALUE))

    def _is_keyword(self, number: int, words: set[str]) -> bool:
        token = self.tokens[number]
        is_name = token.token_type is TokenType.IDENTIFIER or self._is_field(number)
        return not is_name and token.text.upper() in words


def _shorten(text: str) -> str:
    one_line = " ".join(text.split())
    return one_line if len(one_line) <= 200 else one_line[:197] + "..."  # noqa: PLR2004 - a readable message
