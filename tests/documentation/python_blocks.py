"""Run blocks of Python as an interactive session does. As a program, it runs those that it reads from stdin.

It imports nothing of the tests, because the environment of a reader runs it.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import linecache
import sys
import tokenize
import traceback
from typing import Any

_NOTHING = object()


def run_python(code: str, names: dict[str, Any], where: str = "<block>", *, interactive: bool = True) -> str:
    """Run a block in a namespace, and return what it prints. An interactive session shows values of expressions, too.

    Raises AssertionError if the comment after an expression is a literal, and neither its value nor what it prints.
    """
    names.setdefault("__name__", "__main__")
    linecache.cache[where] = (len(code), None, code.splitlines(keepends=True), where)
    comments = _comments(code)
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        for node in ast.parse(code, where).body:
            if not isinstance(node, ast.Expr):
                exec(compile(ast.Module([node], []), where, "exec"), names)  # noqa: S102 - what a reader would run
                continue
            begin = shown.tell()
            value = eval(compile(ast.Expression(node.value), where, "eval"), names)  # noqa: S307 - the same
            if value is None:
                value = _literal(shown.getvalue()[begin:].strip())
            elif interactive:
                print(repr(value))
            said = _literal(comments.get(node.end_lineno, ""))
            if said is not _NOTHING and value != said:
                raise AssertionError(f"{where}, line {node.lineno}: the value is {value!r}, the comment says {said!r}")
    return shown.getvalue()


def _comments(code: str) -> dict[int, str]:
    tokens = tokenize.generate_tokens(io.StringIO(code).readline)
    return {one.start[0]: one.string for one in tokens if one.type == tokenize.COMMENT}


def _literal(comment: str) -> Any:
    try:
        return ast.literal_eval(comment.lstrip("# "))
    except (SyntaxError, ValueError):
        return _NOTHING


def literal_comments(code: str) -> dict[int, Any]:
    """Return the values of comments that are literals, by their lines."""
    values = {line: _literal(comment) for line, comment in _comments(code).items()}
    return {line: value for line, value in values.items() if value is not _NOTHING}


def _serve() -> None:
    """Run the blocks that come in, each a line of JSON, and answer each with what it shows or how it failed."""
    names: dict[str, Any] = {}
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = {"shown": run_python(request["code"], names, request["where"]), "failure": None}
        except BaseException:  # noqa: BLE001 - the test decides
            answer = {"shown": "", "failure": traceback.format_exc()}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    _serve()
