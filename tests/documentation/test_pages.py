"""Every block of code in README.md and in the pages of the documentation runs, except for those that are listed.

A page is followed from the top: its blocks share a directory, a shell, the names of Python and a catalog. A block
`text` directly below another one is what that prints; a literal in a comment after an expression of Python is its
value. A block with a title is a file. `page_settings.py` prepares pages, and lists what cannot run.
"""

from __future__ import annotations

import pytest

from tests.documentation.code_blocks import TOP, read_blocks
from tests.documentation.page_runner import PageRun, parse_block
from tests.documentation.page_settings import NOT_RUN, OWN_TEST, PAGES, find_settings
from tests.documentation.test_tutorial import free_port

NOT_CODE = {"mermaid"}
FOUND = [path.relative_to(TOP).as_posix() for path in sorted((TOP / "docs").rglob("*.md"))]
ALL_PAGES = ["README.md", *(page for page in FOUND if not page.startswith("docs/adr/"))]
BLOCKS = {page: [one for one in read_blocks(page) if one.language not in NOT_CODE] for page in ALL_PAGES}
WITH_BLOCKS = [page for page in ALL_PAGES if BLOCKS[page] and page not in OWN_TEST]
ON_SPARK = [page for page in WITH_BLOCKS if find_settings(page).spark]
SPARK_CASES = [pytest.param(one, marks=[pytest.mark.soak] if find_settings(one).long else []) for one in ON_SPARK]


def reason_not_to_run(block):
    """Return why a block cannot run, or None."""
    return next(
        (why for (page, text), why in NOT_RUN.items() if block.page == page and block.code.startswith(text)), None
    )


def follow(page, home, spark=None):
    """Run the blocks of a page in order."""
    settings = find_settings(page)
    with PageRun(home, free_port(), spark) as run:
        if settings.prepare is not None:
            settings.prepare(run)
        for block in BLOCKS[page]:
            if reason_not_to_run(block):
                parse_block(block)
                continue
            for text, prepare in settings.before.items():
                if block.code.startswith(text):
                    prepare(run)
            run.run(block)


@pytest.mark.parametrize("page", [page for page in WITH_BLOCKS if page not in ON_SPARK])
def test_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    follow(page, tmp_path)


@pytest.mark.parametrize("page", SPARK_CASES)
def test_blocks_run_on_spark(page, tmp_path, monkeypatch, spark):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    follow(page, tmp_path, spark)


def test_settings_are_of_blocks_that_exist():
    """A block that was changed must run, or be listed again."""
    prepared = [(page, text) for page, settings in PAGES.items() for text in settings.before]
    found = {
        (page, text): sum(block.code.startswith(text) for block in BLOCKS.get(page, ()))
        for page, text in (*NOT_RUN, *prepared)
    }
    assert {key: count for key, count in found.items() if count != 1} == {}
    assert PAGES.keys() | OWN_TEST.keys() <= BLOCKS.keys()
    assert all(reason.strip() for reason in NOT_RUN.values())
