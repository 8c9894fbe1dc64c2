"""The examples of docs/guides/python.md run, and return what their comments say."""

from __future__ import annotations

import re
from pathlib import Path

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "python.md").read_text()


def test_the_examples_of_the_guide_run(tmp_path):
    code = "\n".join(re.findall(r"```python\n(.*?)```", GUIDE, flags=re.DOTALL)).replace("/data/lake", str(tmp_path))
    names: dict = {}
    exec(code, names)  # noqa: S102 - what a reader would run
    lake = names["lake"]
    assert lake.tables() == ["sales.items", "sales.texts"]
    assert lake["sales.items"].to_list() == [{"id": 1}, {"id": 2}]
    assert lake.trash() == []
    assert names["t"].versions[("sales", "texts")] == lake["sales.texts"].version
    lake.close()
