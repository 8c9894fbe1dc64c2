"""Pages of the documentation site that are made from other files while mkdocs builds it: mkdocs calls this as a hook.

`contributing.md` and `changelog.md` come from the top of the repository, `reference/commands.md` from the command
line, `reference/rest-routes.md` from the OpenAPI files of the server, `notebooks/*.md` from notebooks. The records of
decisions are added to the navigation.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from mkdocs.structure.files import File

from pennon.cli.app import COMMANDS, load_command
from pennon.cli.commands import SHARED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

TOP = Path(__file__).parent.parent
LANCE_OPENAPI = TOP / "tests" / "specs" / "lance-namespace-openapi.yaml"
PENNON_OPENAPI = TOP / "docs" / "reference" / "pennon-openapi.yaml"
DECISIONS = "Decisions"
COMMANDS_HEAD = """# Commands

Every command with its arguments and options, as `pennon COMMAND --help` shows them.
[The command line](../guides/command-line.md) explains addresses, settings, output and exit codes.

## Options of all commands
"""
ROUTES_HEAD = """# Routes of the REST server

[The Lance REST server](rest.md) describes what the routes have in common. The files with every field:
[the specification](lance-namespace-openapi.yaml), [Pennon's operations beyond it](pennon-openapi.yaml)."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add the records of decisions to the navigation, below the entry `Decisions`."""
    for section in config.nav or []:
        for entries in section.values():
            for entry in entries if isinstance(entries, list) else []:
                if DECISIONS in entry:
                    entry[DECISIONS] = ["adr/README.md", *_decisions(Path(config.docs_dir))]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made from other files."""
    pages = {
        "contributing.md": _from_the_top("CONTRIBUTING.md"),
        "changelog.md": _from_the_top("CHANGELOG.md"),
        "reference/commands.md": command_page(),
        "reference/rest-routes.md": route_page(),
        "reference/lance-namespace-openapi.yaml": LANCE_OPENAPI.read_text(encoding="utf-8"),
    }
    for notebook in sorted((Path(config.docs_dir) / "notebooks").glob("*.ipynb")):
        pages[f"notebooks/{notebook.stem}.md"] = notebook_page(notebook)
    for path, content in pages.items():
        files.append(File.generated(config, path, content=content))
    return files


def command_page() -> str:
    """Return the page with every command, its arguments and its options."""
    lines = [
        COMMANDS_HEAD,
        "| | | default |",
        "|---|---|---|",
        *_option_rows(_shared()),
    ]
    for entry in COMMANDS:
        for name, command in _leaves(f"pennon {entry.name}", load_command(entry)):
            lines += ["", f"## {name}", "", *_describe(name, command)]
    return "\n".join(lines) + "\n"


def route_page() -> str:
    """Return the page with every route of both OpenAPI files."""
    lines = [ROUTES_HEAD]
    for title, file in (("The specification", LANCE_OPENAPI), ("Beyond the specification", PENNON_OPENAPI)):
        document = yaml.safe_load(file.read_text(encoding="utf-8"))
        lines += ["", f"## {title}", "", "| request | operation | |", "|---|---|---|"]
        for path, methods in document["paths"].items():
            for method, route in methods.items():
                if method in {"get", "post", "put", "delete", "patch", "head"}:
                    summary = route.get("summary") or route.get("description", "").strip().split("\n")[0]
                    lines.append(f"| `{method.upper()} {path}` | {route['operationId']} | {_cell(summary)} |")
    return "\n".join(lines) + "\n"


def notebook_page(notebook: Path) -> str:
    """Return a notebook as a page, with a link to the notebook below its title."""
    parts = []
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
    title, _, rest = parts[0].partition("\n")
    link = f"[Download this notebook]({notebook.name}), and run it in an empty directory."
    return "\n\n".join([title, link, rest.strip(), *parts[1:]]) + "\n"


def _decisions(docs: Path) -> list[str]:
    return sorted(f"adr/{path.name}" for path in (docs / "adr").glob("0*.md"))


def _from_the_top(name: str) -> str:
    """Return a file of the top directory, with links as they are below `docs`."""
    return (TOP / name).read_text(encoding="utf-8").replace("](docs/", "](")


def _leaves(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    """Yield the name and the command of each command below this one, or of this one."""
    if hasattr(command, "commands"):
        for sub_name, sub_command in command.commands.items():
            yield from _leaves(f"{name} {sub_name}", sub_command)
    else:
        yield name, command


def _describe(name: str, command: Any) -> Iterator[str]:
    text, _, examples = (command.help or "").partition("\b")
    own = [one for one in command.params if one.name not in SHARED and not getattr(one, "hidden", False)]
    arguments = [one for one in own if one.param_type_name == "argument"]
    options = [one for one in own if one.param_type_name == "option"]
    usage = " ".join([name, *map(_argument, arguments), *(["[OPTIONS]"] if options else [])])
    yield from (text.strip(), "", "```text", usage, "```", "")
    if examples.strip():
        yield from ("```text", examples.strip("\n"), "```", "")
    explained = [f"| `{_metavar(one)}` | {_cell(one.help)} | |" for one in arguments if one.help]
    if explained or options:
        yield from ("| | | default |", "|---|---|---|", *explained, *_option_rows(options))


def _option_rows(options: list[Any]) -> Iterator[str]:
    for option in options:
        names = ", ".join(f"`{one}`" for one in [*option.opts, *option.secondary_opts])
        value = "" if option.is_flag else f" `{_metavar(option)}`"
        default = option.default
        shown = f"`{default}`" if isinstance(default, (str, int, float)) and not isinstance(default, bool) else ""
        yield f"| {names}{value} | {_cell(option.help)} | {shown} |"


def _argument(argument: Any) -> str:
    several = "..." if argument.nargs == -1 else ""
    return f"{_metavar(argument)}{several}" if argument.required else f"[{_metavar(argument)}]{several}"


def _metavar(parameter: Any) -> str:
    """Return the word for a value of an argument or an option, such as TABLE."""
    if parameter.metavar:
        return parameter.metavar.strip("[]{}.")
    if parameter.param_type_name == "argument":
        return parameter.name.upper()
    return "NUMBER" if "int" in str(parameter.type_descriptor.annotation) else "TEXT"


def _shared() -> list[Any]:
    return [one for one in load_command(COMMANDS[0]).params if one.name in SHARED]


def _cell(text: str | None) -> str:
    return re.sub(r"\s+", " ", text or "").replace("|", "\\|")
