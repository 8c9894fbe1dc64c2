"""Split the text of a script into statements."""

from __future__ import annotations

from sqlglot import TokenType

from pennon.spark.tokens import tokenize_script


def split_statements(text: str) -> tuple[list[str], str]:
    """Return the statements that end with a semicolon, without it, and the text after the last one.

    Semicolons in strings, names and comments end nothing. If a string is not closed, the whole text is the rest.
    Statements and a rest without a word are left out.
    """
    tokens = tokenize_script(text)
    if tokens is None:
        return [], text.strip()
    statements = []
    start, has_words = 0, False
    for token in tokens:
        if token.token_type is not TokenType.SEMICOLON:
            has_words = True
            continue
        if has_words:
            statements.append(text[start : token.start].strip())
        start, has_words = token.end + 1, False
    return statements, text[start:].strip() if has_words else ""
