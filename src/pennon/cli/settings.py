"""Which catalog a command works on: options, then the environment, then a file of settings.

Each value is taken from the first of the three that gives it; properties are put together key by key.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pennon.cli.failures import CommandFailure
from pennon.cli.trust import FoundFile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

DEFAULT_IMPL = "dir"
LOCAL_FILE = "pennon.toml"
_KEYS = {"impl", "root", "properties"}


@dataclass(frozen=True)
class Options:
    """What was given on the command line."""

    root: str | None = None
    impl: str | None = None
    properties: tuple[str, ...] = field(default=(), repr=False)
    config: Path | None = None
    profile: str | None = None

    def over(self, outer: Options) -> Options:
        """Put these on top of those that stood before the command's name."""
        return Options(
            self.root if self.root is not None else outer.root,
            self.impl if self.impl is not None else outer.impl,
            outer.properties + self.properties,
            self.config if self.config is not None else outer.config,
            self.profile if self.profile is not None else outer.profile,
        )


@dataclass(frozen=True)
class Connection:
    """The catalog to open: an implementation and its properties, `root` among them."""

    impl: str
    properties: dict[str, str] = field(repr=False)
    found: FoundFile | None = None
    """The file in the working directory that chose some of them, if one did."""


@dataclass(frozen=True)
class _Given:
    """What one of the three sources says."""

    root: str | None = None
    impl: str | None = None
    properties: dict[str, str] = field(default_factory=dict, repr=False)

    def all_properties(self) -> dict[str, str]:
        """Return the properties with the root among them."""
        return self.properties if self.root is None else {**self.properties, "root": self.root}


def resolve(options: Options, environment: Mapping[str, str]) -> Connection:
    """Find out which catalog is meant; a failure names the option, variable or file that is wrong."""
    by_option = _Given(options.root, options.impl, pairs(options.properties, "--property"))
    by_environment = _Given(
        _home_expanded(environment.get("PENNON_ROOT")),
        environment.get("PENNON_IMPL") or None,
        _environment_properties(environment.get("PENNON_PROPERTIES", "")),
    )
    path = _file(options, environment)
    by_file = _from_file(path, options, environment)
    sources = (by_option, by_environment, by_file)
    properties: dict[str, str] = {}
    for source in reversed(sources):
        properties |= source.all_properties()
    # A catalog on a server has an address instead.
    if not properties.get("root") and not properties.get("uri"):
        raise CommandFailure(
            f"No catalog is named: give --root, set PENNON_ROOT, or write `root = ...` into {LOCAL_FILE} "
            f"or {_user_file(environment)}"
        )
    impl = next((source.impl for source in sources if source.impl is not None), DEFAULT_IMPL)
    found = None
    if path is not None and path == Path(LOCAL_FILE) and not _is_named(options, environment):
        trusted = by_option.all_properties().keys() | by_environment.all_properties().keys()
        found = FoundFile(path, frozenset(by_file.all_properties().keys() - trusted))
        found.require_no_foreign_credential(properties, environment)
    return Connection(impl, properties, found)


def pairs(texts: Sequence[str], what: str) -> dict[str, str]:
    """Read `key=value` texts; a failure names what they were given for."""
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            # What follows may be a secret without its key.
            raise CommandFailure(f"{what} takes KEY=VALUE, and one of those given has no '=' or no key")
        found[key.strip()] = value
    return found


def _environment_properties(text: str) -> dict[str, str]:
    if not text.strip():
        return {}
    if text.lstrip().startswith("{"):
        try:
            content = json.loads(text)
        except ValueError as error:
            raise CommandFailure("PENNON_PROPERTIES begins with '{' and is no valid JSON object") from error
        return _flat(content, "PENNON_PROPERTIES")
    return pairs([part for part in text.split(",") if part.strip()], "PENNON_PROPERTIES")


def _from_file(path: Path | None, options: Options, environment: Mapping[str, str]) -> _Given:
    profile = options.profile or environment.get("PENNON_PROFILE") or None
    if path is None:
        if profile is not None:
            raise CommandFailure(f"There is no file of settings that could have the profile {profile!r}")
        return _Given()
    content = _read(path)
    profiles = content.pop("profiles", {})
    default = content.pop("profile", None)
    if not isinstance(profiles, dict) or not all(isinstance(one, dict) for one in profiles.values()):
        raise CommandFailure(f"{path}: 'profiles' must hold tables, such as [profiles.test]")
    if default is not None and not isinstance(default, str):
        raise CommandFailure(f"{path}: 'profile' must be the name of a profile")
    basis = _given(content, path, "")
    name = profile or default
    if name is None:
        return basis
    if name not in profiles:
        known = ", ".join(sorted(profiles)) or "none"
        raise CommandFailure(f"{path} has no profile {name!r}; it has: {known}")
    chosen = _given(profiles[name], path, f"profiles.{name}.")
    return _Given(
        chosen.root if chosen.root is not None else basis.root,
        chosen.impl if chosen.impl is not None else basis.impl,
        {**basis.properties, **chosen.properties},
    )


def _file(options: Options, environment: Mapping[str, str]) -> Path | None:
    named = options.config or environment.get("PENNON_CONFIG") or None
    if named is not None:
        path = Path(named).expanduser()
        if not path.exists():
            raise CommandFailure(f"There is no file of settings {str(path)!r}")
        return path
    return next((path for path in (Path(LOCAL_FILE), _user_file(environment)) if path.is_file()), None)


def _is_named(options: Options, environment: Mapping[str, str]) -> bool:
    return bool(options.config or environment.get("PENNON_CONFIG"))


def _user_file(environment: Mapping[str, str]) -> Path:
    base = environment.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path("~/.config").expanduser()) / "pennon" / "config.toml"


def _read(path: Path) -> dict[str, Any]:
    # Python has a reader of TOML since 3.11; before, the same code is the package tomli.
    toml = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        content: dict[str, Any] = toml.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CommandFailure(f"The file of settings {str(path)!r} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise CommandFailure(f"{path} is no valid TOML: {error}") from error
    return content


def _given(content: Mapping[str, Any], path: Path, where: str) -> _Given:
    unknown = sorted(set(content) - _KEYS)
    if unknown:
        raise CommandFailure(f"{path} has the unknown key '{where}{unknown[0]}'; known: {', '.join(sorted(_KEYS))}")
    for key in ("root", "impl"):
        if key in content and (not isinstance(content[key], str) or not content[key]):
            raise CommandFailure(f"{path}: '{where}{key}' must be a text")
    root = _home_expanded(content.get("root"))
    if root is not None and "://" not in root:
        # A relative root is meant from where it is written down, wherever the command is run.
        root = str(path.absolute().parent / root)
    return _Given(root, content.get("impl"), _flat(content.get("properties", {}), f"{path}: '{where}properties'"))


def _flat(content: object, what: str, prefix: str = "") -> dict[str, str]:
    """Read a table of properties; inner tables are prefixes, so `[properties.storage]` holds `storage.*`."""
    if not isinstance(content, dict):
        raise CommandFailure(f"{what} must be a table of properties")
    found: dict[str, str] = {}
    for key, value in content.items():
        name = prefix + str(key)
        if isinstance(value, dict):
            found |= _flat(value, what, name + ".")
        elif isinstance(value, bool):
            found[name] = str(value).lower()
        elif isinstance(value, (str, int, float)):
            found[name] = str(value)
        else:
            raise CommandFailure(f"{what}: the value of {name!r} must be a text, a number or true or false")
    return found


def _home_expanded(root: str | None) -> str | None:
    if not root:
        return None
    return root if "://" in root else str(Path(root).expanduser())
