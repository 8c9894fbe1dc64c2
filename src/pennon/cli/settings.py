"""Find the catalog of a command in options, the environment and a settings file.

Each value comes from the first of the three that sets it. Properties are merged key by key.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pennon.cli.failures import CommandFailure, ExitCode
from pennon.cli.trust import FoundFile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

DEFAULT_IMPL = "dir"
LOCAL_FILE = "pennon.toml"
_KEYS = {"impl", "root", "properties", "serve"}


@dataclass(frozen=True)
class Options:
    """Options of the command line."""

    root: str | None = None
    impl: str | None = None
    properties: tuple[str, ...] = field(default=(), repr=False)
    config: Path | None = None
    profile: str | None = None

    def over(self, outer: Options) -> Options:
        """Return these options, completed by those before the command's name."""
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
    """The settings file in the working directory that set some of the properties, if any."""


@dataclass(frozen=True)
class _SettingsSource:
    """The values from one of the three sources."""

    root: str | None = None
    impl: str | None = None
    properties: dict[str, str] = field(default_factory=dict, repr=False)
    serve: dict[str, Any] = field(default_factory=dict)
    """The options of `pennon serve`."""

    def all_properties(self) -> dict[str, str]:
        """Return the properties with the root among them."""
        return self.properties if self.root is None else {**self.properties, "root": self.root}


def resolve_connection(options: Options, environment: Mapping[str, str]) -> Connection:
    """Return the catalog to use. Raises CommandFailure, which names the wrong option, variable or file."""
    by_option = _SettingsSource(options.root, options.impl, parse_pairs(options.properties, "--property"))
    by_environment = _SettingsSource(
        _expand_home(environment.get("PENNON_ROOT")),
        environment.get("PENNON_IMPL") or None,
        _parse_environment(environment.get("PENNON_PROPERTIES", "")),
    )
    path = _find_file(options, environment)
    by_file = _load_source(path, options, environment)
    sources = (by_option, by_environment, by_file)
    properties: dict[str, str] = {}
    for source in reversed(sources):
        properties |= source.all_properties()
    impl = next((source.impl for source in sources if source.impl is not None), DEFAULT_IMPL)
    if impl != DEFAULT_IMPL:
        # An unknown implementation is reported before a missing root.
        from pennon.connection import KNOWN

        if impl not in KNOWN.split(", "):
            raise CommandFailure(f"Unknown namespace implementation {impl!r}; known: {KNOWN}")
    # A catalog on a server has a URI instead of a root.
    if not properties.get("root") and not properties.get("uri"):
        raise CommandFailure(
            f"No catalog is named: give --root, set PENNON_ROOT, or write `root = ...` into {LOCAL_FILE} "
            f"or {_user_file(environment)}"
        )
    found = None
    if path is not None and path == Path(LOCAL_FILE) and not _is_named(options, environment):
        trusted = by_option.all_properties().keys() | by_environment.all_properties().keys()
        found = FoundFile(path, frozenset(by_file.all_properties().keys() - trusted))
        found.require_no_foreign_credential(properties, environment)
    return Connection(impl, properties, found)


def find_serve_options(options: Options, environment: Mapping[str, str]) -> tuple[Path | None, dict[str, Any]]:
    """Return the options of `pennon serve` in a settings file, and the file. Raises CommandFailure if it is not valid.

    A file in the working directory that nobody has named may not open the catalog to others.
    """
    path = _find_file(options, environment)
    found = _load_source(path, options, environment).serve
    if found and path == Path(LOCAL_FILE) and not _is_named(options, environment):
        raise CommandFailure(
            f"The file {str(path.absolute())!r} sets options of 'serve'. If you trust this file, name it: "
            f"--config {path}",
            ExitCode.REFUSED,
        )
    return path, found


def parse_pairs(texts: Sequence[str], what: str) -> dict[str, str]:
    """Parse `key=value` texts. Raises CommandFailure, which names `what`, if one is not valid."""
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            # The text is not shown, because it may be a secret without its key.
            raise CommandFailure(f"{what} must be KEY=VALUE, but a value has no '=' or no key")
        found[key.strip()] = value
    return found


def _parse_environment(text: str) -> dict[str, str]:
    if not text.strip():
        return {}
    if text.lstrip().startswith("{"):
        try:
            content = json.loads(text)
        except ValueError as error:
            raise CommandFailure("PENNON_PROPERTIES starts with '{' but is not a valid JSON object") from error
        return _flatten(content, "PENNON_PROPERTIES")
    return parse_pairs([part for part in text.split(",") if part.strip()], "PENNON_PROPERTIES")


def _load_source(path: Path | None, options: Options, environment: Mapping[str, str]) -> _SettingsSource:
    profile = options.profile or environment.get("PENNON_PROFILE") or None
    if path is None:
        if profile is not None:
            raise CommandFailure(f"There is no settings file, so the profile {profile!r} does not exist")
        return _SettingsSource()
    content = _read_toml(path)
    profiles = content.pop("profiles", {})
    default = content.pop("profile", None)
    if not isinstance(profiles, dict) or not all(isinstance(one, dict) for one in profiles.values()):
        raise CommandFailure(f"{path}: 'profiles' must contain tables, such as [profiles.test]")
    if default is not None and not isinstance(default, str):
        raise CommandFailure(f"{path}: 'profile' must be the name of a profile")
    basis = _parse_source(content, path, "")
    name = profile or default
    if name is None:
        return basis
    if name not in profiles:
        known = ", ".join(sorted(profiles)) or "none"
        raise CommandFailure(f"{path} has no profile {name!r}; it has: {known}")
    chosen = _parse_source(profiles[name], path, f"profiles.{name}.")
    return _SettingsSource(
        chosen.root if chosen.root is not None else basis.root,
        chosen.impl if chosen.impl is not None else basis.impl,
        {**basis.properties, **chosen.properties},
        {**basis.serve, **chosen.serve},
    )


def _find_file(options: Options, environment: Mapping[str, str]) -> Path | None:
    named = options.config or environment.get("PENNON_CONFIG") or None
    if named is not None:
        path = Path(named).expanduser()
        if not path.exists():
            raise CommandFailure(f"The settings file {str(path)!r} does not exist")
        return path
    return next((path for path in (Path(LOCAL_FILE), _user_file(environment)) if path.is_file()), None)


def _is_named(options: Options, environment: Mapping[str, str]) -> bool:
    return bool(options.config or environment.get("PENNON_CONFIG"))


def _user_file(environment: Mapping[str, str]) -> Path:
    base = environment.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path("~/.config").expanduser()) / "pennon" / "config.toml"


def _read_toml(path: Path) -> dict[str, Any]:
    # tomllib is part of Python 3.11 and newer; tomli is the same code for Python 3.10.
    toml = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        content: dict[str, Any] = toml.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CommandFailure(f"The settings file {str(path)!r} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise CommandFailure(f"{path} is not valid TOML: {error}") from error
    return content


def _parse_source(content: Mapping[str, Any], path: Path, where: str) -> _SettingsSource:
    unknown = sorted(set(content) - _KEYS)
    if unknown:
        raise CommandFailure(
            f"{path} contains the unknown key '{where}{unknown[0]}'; known: {', '.join(sorted(_KEYS))}"
        )
    for key in ("root", "impl"):
        if key in content and (not isinstance(content[key], str) or not content[key]):
            raise CommandFailure(f"{path}: '{where}{key}' must be a non-empty string")
    root = _expand_home(content.get("root"))
    if root is not None and "://" not in root:
        # A relative root is relative to the settings file.
        root = str(path.absolute().parent / root)
    serve = content.get("serve", {})
    if not isinstance(serve, dict):
        raise CommandFailure(f"{path}: '{where}serve' must be a table of options")
    properties = _flatten(content.get("properties", {}), f"{path}: '{where}properties'")
    return _SettingsSource(root, content.get("impl"), properties, serve)


def _flatten(content: object, what: str, prefix: str = "") -> dict[str, str]:
    """Return a table of properties as one level: `[properties.storage]` contains `storage.*`."""
    if not isinstance(content, dict):
        raise CommandFailure(f"{what} must be a table of properties")
    found: dict[str, str] = {}
    for key, value in content.items():
        name = prefix + str(key)
        if isinstance(value, dict):
            found |= _flatten(value, what, name + ".")
        elif isinstance(value, bool):
            found[name] = str(value).lower()
        elif isinstance(value, (str, int, float)):
            found[name] = str(value)
        else:
            raise CommandFailure(f"{what}: the value of {name!r} must be a string, a number or a boolean")
    return found


def _expand_home(root: str | None) -> str | None:
    if not root:
        return None
    return root if "://" in root else str(Path(root).expanduser())
