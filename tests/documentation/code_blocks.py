"""The blocks of code in Markdown pages."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

TOP = Path(__file__).parents[2]
_FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>`{3,})(?P<info>.*)$")
_TITLE = re.compile(r'title="([^"]*)"')
_OUTPUT = "text"


@dataclass(frozen=True)
class CodeBlock:
    """A block of a page. A block `text` that follows directly is what it shows."""

    page: str
    line: int
    language: str
    title: str | None
    code: str
    output: str | None = None

    def __str__(self) -> str:
        return f"{self.page}:{self.line} ({self.language or 'no language'})"

    @property
    def first_line(self) -> str:
        """The first line of its code, which names the block within its page."""
        return self.code.split("\n", 1)[0].strip()


def read_blocks(page: str) -> list[CodeBlock]:
    """Return the blocks of a page, which is a path in the repository. Raises ValueError if one is not closed."""
    return parse_blocks(page, (TOP / page).read_text(encoding="utf-8"))


def parse_blocks(page: str, text: str) -> list[CodeBlock]:
    """Return the blocks in the text of a page. Raises ValueError if one is not closed."""
    blocks: list[CodeBlock] = []
    lines = text.split("\n")
    at, may_be_output = 0, False
    while at < len(lines):
        opening = _FENCE.match(lines[at])
        if opening is None:
            may_be_output = may_be_output and not lines[at].strip()
            at += 1
            continue
        closing = opening["indent"] + opening["ticks"]
        try:
            end = next(n for n in range(at + 1, len(lines)) if lines[n].rstrip() == closing)
        except StopIteration:
            raise ValueError(f"{page}:{at + 1}: the block is not closed") from None
        code = "".join(line.removeprefix(opening["indent"]) + "\n" for line in lines[at + 1 : end])
        language, _, rest = opening["info"].strip().partition(" ")
        title = _TITLE.search(rest)
        block = CodeBlock(page, at + 1, language, title and title[1], code)
        if may_be_output and language == _OUTPUT and title is None:
            last = blocks.pop()
            blocks.append(CodeBlock(page, last.line, last.language, last.title, last.code, code))
            may_be_output = False
        else:
            blocks.append(block)
            may_be_output = language != _OUTPUT and title is None
        at = end + 1
    return blocks
