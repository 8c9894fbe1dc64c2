"""The reader of pages sees what a person would see, and notices what does not work."""

from __future__ import annotations

import pytest

from tests.documentation.code_blocks import parse_blocks
from tests.documentation.python_blocks import run_python
from tests.documentation.reader import Reader
from tests.documentation.screens import matches, render_screen


@pytest.fixture
def reader(tmp_path):
    with Reader(tmp_path) as one:
        yield one


def block(text, number=0):
    return parse_blocks("page.md", text)[number]


def test_blocks_have_their_output_title_and_indentation():
    page = "```sh\necho a\n```\n\n```text\na\n```\n\nSave:\n\n"
    page += '  ```yaml title="a.yaml"\n  a:\n    b\n  ```\n\n```text\nb\n```\n'
    echo, file, text = parse_blocks("page.md", page)
    assert (echo.language, echo.code, echo.output, echo.line) == ("sh", "echo a\n", "a\n", 1)
    assert (file.language, file.title, file.code, file.output) == ("yaml", "a.yaml", "a:\n  b\n", None)
    assert (text.language, text.code) == ("text", "b\n")
    assert [one.output for one in parse_blocks("page.md", "```sh\na\n```\nThen:\n```text\nb\n```\n")] == [None, None]


def test_block_that_is_not_closed_is_an_error():
    with pytest.raises(ValueError, match=r"page\.md:2"):
        parse_blocks("page.md", "text\n```sh\necho\n")


def test_screen_has_no_lines_that_were_cleared():
    written = "one\r\nreading 0\r\x1b[2Kreading 1\r\n\x1b[1A\x1b[2K\x1b[1mtwo\x1b[0m  \r\nthree\rT\r\n"
    assert render_screen(written) == "one\ntwo\nThree"


@pytest.mark.parametrize(
    ("expected", "shown", "same"),
    [
        ("a  b\n", "a b", True),
        ("at 2026-01-01 10:00:00\n", "at 2027-12-31 09:59:59", True),
        ("at 2026-01-01 10:00:00\n", "at noon", False),
        ("took … s", "took 12.5 s", True),
        ("a\n…\nd", "a\nb\nc\nd", True),
        ("a\n…\nd", "a\nd", True),
        ("a\n…\nd", "b\nd", False),
        ("a", "a\nb", False),
        ("a.c", "abc", False),
    ],
)
def test_screen_matches_page(expected, shown, same):
    assert matches(expected, shown) is same


def test_commands_share_variables_a_directory_and_a_terminal(reader):
    reader.run_commands(block("```sh\nexport NAME='a b'\nmkdir sub\ncd sub\n```"))
    reader.run_commands(block('```sh\necho "$NAME" in "${PWD##*/}" of "${HOME##*/}"\ntty -s && echo terminal\n```'))
    shown = '```sh\necho "$NAME" "${PWD##*/}"\n```\n\n```text\na b sub\n```'
    reader.run_commands(block(shown))


def test_command_that_fails_in_the_middle_is_noticed(reader):
    with pytest.raises(AssertionError, match="'false' ended with 1"):
        reader.run_commands(block("```sh\nfalse\ntrue\n```"))
    reader.run_commands(block("```sh\n(exit 9)\necho $?\n```\n```text\n9\n```"))


def test_output_that_differs_is_noticed(reader):
    with pytest.raises(AssertionError, match=r"-one\n\+two"):
        reader.run_commands(block("```sh\necho two\n```\n\n```text\none\n```"))
    with pytest.raises(AssertionError, match=r"-2\n\+3"):
        reader.run_python(block("```python\n1 + 2\n```\n\n```text\n2\n```"))


def test_python_blocks_share_names_and_see_files(reader):
    reader.write_file(block('```csv title="rows.csv"\na,b\n```'))
    reader.run_python(block("```python\nrows = open('rows.csv').read()\n```"))
    reader.run_python(block("```python\nrows\n```\n\n```text\n'a,b\\n'\n```"))


def test_comments_with_values_are_checked():
    names = {}
    assert (
        run_python("a = 1 + 1\na  # 2\n[\n    a,\n]  # [2]\na  # the sum\nprint(a)  # 2\n", names) == "2\n[2]\n2\n2\n"
    )
    with pytest.raises(AssertionError, match="line 2: the value is 2, the comment says 3"):
        run_python("b = 1\na  # 3\n", names)
    with pytest.raises(AssertionError, match="the comment says 3"):
        run_python("print(a)  # 3\n", names)


def test_server_that_does_not_start_is_noticed(reader):
    with pytest.raises(AssertionError, match="No such option"):
        reader.run_commands(block("```sh\npennon serve --wrong\n```\n\n```text\nserving\n```"))
