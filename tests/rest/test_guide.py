"""The examples of docs/guides/rest.md run."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support import list_tables

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "rest.md").read_text()


def test_the_examples_run(root, open_namespace):
    served = open_namespace(root)
    code = "\n".join(re.findall(r"```python\n(.*?)```", GUIDE, flags=re.DOTALL))
    exec(code.replace("http://127.0.0.1:8181", served._settings.uri), {})  # noqa: S102 - what a reader would run
    assert list_tables(served, "sales") == ["orders"]
