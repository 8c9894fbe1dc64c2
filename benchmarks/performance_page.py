"""Write the tables and plots of docs/performance.md from the results of the sections.

Run it as `python benchmarks/performance_page.py` after `cold.py`, `remote.py`, `concurrency.py` and `server.py`. It
replaces what stands between the two comments of each section, and leaves a section alone whose results are missing.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

from figures import RESULTS, format_figure

DOCS = Path(__file__).parent.parent / "docs"
PAGE, IMAGES = DOCS / "performance.md", DOCS / "images"
SECTIONS = ("cold", "remote", "concurrency", "server")


def main() -> int:
    """Replace the tables and plots of the page."""
    parser = argparse.ArgumentParser(description="Write the tables and plots of docs/performance.md.")
    parser.add_argument("--results", type=Path, default=RESULTS, help="directory of the results (%(default)s)")
    options = parser.parse_args()
    text = PAGE.read_text(encoding="utf-8")
    IMAGES.mkdir(exist_ok=True)
    for section in SECTIONS:
        path = options.results / f"{section}.json"
        if not path.exists():
            print(f"{section}: no results in {options.results}, left as it is")
            continue
        shutil.copyfile(path.with_suffix(".png"), IMAGES / f"performance-{section}.png")
        text = _replace(text, section, _render(section, json.loads(path.read_text(encoding="utf-8"))))
    PAGE.write_text(text, encoding="utf-8")
    return 0


def _replace(text: str, section: str, content: str) -> str:
    start, end = f"<!-- {section} -->", f"<!-- end of {section} -->"
    pattern = re.compile(f"{re.escape(start)}.*{re.escape(end)}", re.DOTALL)
    return pattern.sub(lambda _: f"{start}\n{content}\n{end}", text)


def _render(section: str, document: dict[str, Any]) -> str:
    """Return a section as Markdown: a table, the notes and the plot."""
    run = document["environment"]
    pylance = run["packages"]["pylance"]
    lines = [
        "| client | operation | Pennon | reference | goal | verdict |",
        "|---|---|--:|--:|---|---|",
        *(_row(figure) for figure in document["figures"]),
        "",
        *(f"- {note}" for note in document["notes"]),
        f"- Measured on {run['time'][:10]}, {run['cpus']} CPUs, Python {run['python']}, pylance {pylance}.",
        "",
        f"![{section}](images/performance-{section}.png)",
    ]
    return "\n".join(lines)


def _row(figure: dict[str, Any]) -> str:
    unit = figure["unit"]
    ours, reference = (
        format_figure(value) if value is None else f"{format_figure(value)} {unit}"
        for value in (figure["ours"], figure["reference"])
    )
    goal, verdict = figure["wanted"], figure["verdict"]
    return f"| {figure['client']} | {figure['operation']} | {ours} | {reference} | {goal} | {verdict} |"


if __name__ == "__main__":
    sys.exit(main())
