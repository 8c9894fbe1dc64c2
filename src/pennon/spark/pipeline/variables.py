"""Variables and secrets in a pipeline file: `${name}`, `${ENV:NAME}`, `${ENV:NAME:-default}`; `$${` is a literal `${`.

Every text is filled in twice: with values, and masked. The masked text has the names of secrets in place of their
values. It is what is shown, stored and compared, so a secret is never printed, and changing a secret does not change
the pipeline.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from pennon.spark.pipeline.model import format_scalar
from pennon.yaml_documents.problems import suggest

_REFERENCE = re.compile(r"\$\$\{|\$\{([^{}]*)\}|\$\{")
_ENVIRONMENT = re.compile(r"ENV:([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class FilledText:
    """A text with its variables filled in."""

    value: str = field(repr=False)
    masked: str
    faults: tuple[str, ...] = ()

    @property
    def is_secret(self) -> bool:
        """Whether the value must not be shown."""
        return self.value != self.masked


@dataclass(frozen=True)
class Variables:
    """The values of variables: environment variables, and those that the file declares."""

    environment: Mapping[str, str] = field(repr=False)
    values: Mapping[str, FilledText] = field(default_factory=dict)
    secrets: set[str] = field(default_factory=set, repr=False)
    """The secret values that were filled in so far."""

    def fill(self, text: str) -> FilledText:
        """Return a text with its variables filled in."""
        faults: list[str] = []
        parts: list[FilledText] = []
        position = 0
        for found in _REFERENCE.finditer(text):
            parts += [_plain(text[position : found.start()]), self._resolve(found, faults)]
            position = found.end()
        parts.append(_plain(text[position:]))
        return FilledText("".join(one.value for one in parts), "".join(one.masked for one in parts), tuple(faults))

    def fill_default(self, name: str, default: object) -> FilledText:
        """Return the value of a variable that is not passed."""
        if default is None:
            return FilledText("", "", (f"it has no default: set it with --var {name}=...",))
        if isinstance(default, (str, int, float)):
            return self.fill(format_scalar(default))
        return FilledText("", "", ("a default must be a text, a number, true or false",))

    def _resolve(self, found: re.Match[str], faults: list[str]) -> FilledText:
        if found[0] == "$${":
            return _plain("${")
        reference = found[1]
        if reference is None:
            faults.append("a '${' has no '}'; write '$${' for a literal '${'")
            return _plain("")
        environment = _ENVIRONMENT.fullmatch(reference)
        if environment is not None:
            name, default = environment[1], environment[2]
            value = self.environment.get(name, default)
            if value is not None:
                self.secrets.add(value)
                return FilledText(value, f"${{ENV:{name}}}")
            faults.append(f"the environment variable {name!r} is not set")
        elif reference in self.values:
            return self.values[reference]
        elif _NAME.fullmatch(reference):
            hint = suggest(reference, list(self.values))
            faults.append(f"the variable {reference!r} is not declared in 'vars'{hint}")
        else:
            hint = suggest(reference, list(self.values))
            faults.append(f"{found[0]!r} is not a variable; write ${{name}} or ${{ENV:NAME}}{hint}")
        return FilledText("", found[0])


def _plain(text: str) -> FilledText:
    return FilledText(text, text)


def parse_variables(
    section: object, given: Mapping[str, str], environment: Mapping[str, str]
) -> tuple[Variables, list[tuple[str, str]]]:
    """Parse the section `vars`; return the variables, and the faults as pairs of a variable's name and a message.

    A variable is its default, or a mapping with `default` and `secret`. A variable without a default must be passed.
    """
    bare = Variables(environment)
    values: dict[str, FilledText] = {}
    faults: list[tuple[str, str]] = []
    section = section if isinstance(section, Mapping) else {}
    for name, content in section.items():
        options = content if isinstance(content, Mapping) else {"default": content}
        if not _NAME.fullmatch(name):
            faults.append(
                (name, "a variable's name must consist of letters, digits and '_', and must not begin with a digit")
            )
        unknown = [key for key in options if key not in {"default", "secret"}]
        faults += [(name, f"unknown key {key!r}" + suggest(key, ["default", "secret"])) for key in unknown]
        filled = _plain(given[name]) if name in given else bare.fill_default(name, options.get("default"))
        faults += [(name, fault) for fault in filled.faults]
        if options.get("secret") is True:
            bare.secrets.add(filled.value)
            filled = FilledText(filled.value, f"${{{name}}}")
        values[name] = filled
    unknown = [name for name in given if name not in section]
    faults += [(name, "it is set, but the file does not declare it" + suggest(name, list(section))) for name in unknown]
    return Variables(environment, values, bare.secrets), faults
