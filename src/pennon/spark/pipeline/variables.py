"""Variables and secrets in a pipeline's file: `${name}`, `${ENV:NAME}`, `${ENV:NAME:-default}`; `$${` is a plain `${`.

Every text is filled in twice: for use, and for show. What is shown, stored and compared has the names of secrets where
their values would be, so a secret is never printed, and one that was changed does not make a pipeline another one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from pennon.spark.pipeline.problems import suggestion

_REFERENCE = re.compile(r"\$\$\{|\$\{([^{}]*)\}|\$\{")
_ENVIRONMENT = re.compile(r"ENV:([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Filled:
    """A text after its variables were filled in."""

    used: str = field(repr=False)
    shown: str
    faults: tuple[str, ...] = ()

    @property
    def is_secret(self) -> bool:
        """Tell whether what is used may not be shown."""
        return self.used != self.shown


@dataclass(frozen=True)
class Variables:
    """Values for references: of the environment, and of the variables that the file declares."""

    environment: Mapping[str, str] = field(repr=False)
    values: Mapping[str, Filled] = field(default_factory=dict)
    secrets: set[str] = field(default_factory=set, repr=False)
    """Values that were used and may not be shown, gathered along the way."""

    def fill(self, text: str) -> Filled:
        """Replace the references in a text."""
        if "${" not in text:
            return Filled(text, text)
        faults: list[str] = []
        used: list[str] = []
        shown: list[str] = []
        position = 0
        for found in _REFERENCE.finditer(text):
            before = text[position : found.start()]
            position = found.end()
            one = self._looked_up(found, faults)
            used += (before, one.used)
            shown += (before, one.shown)
        rest = text[position:]
        return Filled("".join((*used, rest)), "".join((*shown, rest)), tuple(faults))

    def _looked_up(self, found: re.Match[str], faults: list[str]) -> Filled:
        if found[0] == "$${":
            return Filled("${", "${")
        reference = found[1]
        if reference is None:
            faults.append("a '${' has no '}'; write '$${' for the characters themselves")
            return Filled("", "")
        environment = _ENVIRONMENT.fullmatch(reference)
        if environment is not None:
            name, default = environment[1], environment[2]
            value = self.environment.get(name, default)
            if value is None:
                faults.append(f"the environment variable {name!r} is not set")
                return Filled("", found[0])
            self.secrets.add(value)
            return Filled(value, f"${{ENV:{name}}}")
        if reference not in self.values:
            hint = suggestion(reference, list(self.values))
            what = (
                f"the variable {reference!r} is not declared in 'vars'"
                if _NAME.fullmatch(reference)
                else (f"{found[0]!r} is no reference; write ${{name}} or ${{ENV:NAME}}")
            )
            faults.append(what + hint)
            return Filled("", found[0])
        return self.values[reference]


def declared(
    section: object, given: Mapping[str, str], environment: Mapping[str, str]
) -> tuple[Variables, list[tuple[str, str]]]:
    """Read the section `vars`; gives the variables, and what is wrong as pairs of a variable's name and a message.

    A variable is its default, or a mapping with `default` and `secret`; null means that it has to be given.
    """
    bare = Variables(environment)
    values: dict[str, Filled] = {}
    faults: list[tuple[str, str]] = []
    section = section if isinstance(section, Mapping) else {}
    for name, content in section.items():
        options = content if isinstance(content, Mapping) else {"default": content}
        if not _NAME.fullmatch(name):
            faults.append((name, "a variable's name is letters, digits and '_', and does not begin with a digit"))
        faults += [
            (name, f"unknown key {key!r}" + suggestion(key, ["default", "secret"]))
            for key in options
            if key not in {"default", "secret"}
        ]
        default = options.get("default")
        if name in given:
            filled = Filled(given[name], given[name])
        elif default is None:
            faults.append((name, f"it has no default, so it has to be given: --var {name}=..."))
            filled = Filled("", "")
        elif isinstance(default, (str, int, float)):
            filled = bare.fill(_text(default))
            faults += [(name, fault) for fault in filled.faults]
        else:
            faults.append((name, "a default is a text, a number, true or false"))
            filled = Filled("", "")
        if options.get("secret") is True:
            bare.secrets.add(filled.used)
            filled = Filled(filled.used, f"${{{name}}}")
        values[name] = filled
    faults += [
        (name, "it is given, but the file declares no such variable" + suggestion(name, list(section)))
        for name in given
        if name not in section
    ]
    return Variables(environment, values, bare.secrets), faults


def _text(value: str | float | bool) -> str:  # noqa: FBT001 - a default of any kind
    return str(value).lower() if isinstance(value, bool) else str(value)
