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
from pennon.spark.pipeline.problems import suggest

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
        if "${" not in text:
            return FilledText(text, text)
        faults: list[str] = []
        value: list[str] = []
        masked: list[str] = []
        position = 0
        for found in _REFERENCE.finditer(text):
            before = text[position : found.start()]
            position = found.end()
            one = self._resolve(found, faults)
            value += (before, one.value)
            masked += (before, one.masked)
        rest = text[position:]
        return FilledText("".join((*value, rest)), "".join((*masked, rest)), tuple(faults))

    def _resolve(self, found: re.Match[str], faults: list[str]) -> FilledText:
        if found[0] == "$${":
            return FilledText("${", "${")
        reference = found[1]
        if reference is None:
            faults.append("a '${' has no '}'; write '$${' for a literal '${'")
            return FilledText("", "")
        environment = _ENVIRONMENT.fullmatch(reference)
        if environment is not None:
            name, default = environment[1], environment[2]
            value = self.environment.get(name, default)
            if value is None:
                faults.append(f"the environment variable {name!r} is not set")
                return FilledText("", found[0])
            self.secrets.add(value)
            return FilledText(value, f"${{ENV:{name}}}")
        if reference not in self.values:
            hint = suggest(reference, list(self.values))
            what = (
                f"the variable {reference!r} is not declared in 'vars'"
                if _NAME.fullmatch(reference)
                else (f"{found[0]!r} is not a variable; write ${{name}} or ${{ENV:NAME}}")
            )
            faults.append(what + hint)
            return FilledText("", found[0])
        return self.values[reference]


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
        faults += [
            (name, f"unknown key {key!r}" + suggest(key, ["default", "secret"]))
            for key in options
            if key not in {"default", "secret"}
        ]
        default = options.get("default")
        if name in given:
            filled = FilledText(given[name], given[name])
        elif default is None:
            faults.append((name, f"it has no default: set it with --var {name}=..."))
            filled = FilledText("", "")
        elif isinstance(default, (str, int, float)):
            filled = bare.fill(format_scalar(default))
            faults += [(name, fault) for fault in filled.faults]
        else:
            faults.append((name, "a default must be a text, a number, true or false"))
            filled = FilledText("", "")
        if options.get("secret") is True:
            bare.secrets.add(filled.value)
            filled = FilledText(filled.value, f"${{{name}}}")
        values[name] = filled
    faults += [
        (name, "it is set, but the file does not declare it" + suggest(name, list(section)))
        for name in given
        if name not in section
    ]
    return Variables(environment, values, bare.secrets), faults
