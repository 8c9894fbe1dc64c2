"""The options of `pennon serve`: each may also be set in the environment and in a settings file.

The command line wins over the environment (`PENNON_SERVE_*`), which wins over the table `[serve]` of the settings file.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand

from pennon.cli.commands import SHARED, find_session
from pennon.cli.failures import CommandFailure
from pennon.cli.settings import Options, find_serve_options

PREFIX = "PENNON_SERVE_"
FILE = "FILE"
"""The metavar of options that name a file."""


def option(name: str, description: str, **settings: Any) -> Any:
    """Return an option that a variable of the environment sets, too."""
    return typer.Option(name, help=description, envvar=_variable(name.removeprefix("--")), **settings)


class ServeCommand(TyperCommand):
    """A command whose options have defaults in a settings file."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line, the environment and the settings file."""
        given, _, __ = self.make_parser(ctx).parse_args(args=list(args))
        if given.get("help"):
            return super().parse_args(ctx, args)
        named = Options(config=_path(given.get("config")), profile=given.get("profile"))
        path, found = find_serve_options(named.over(find_session(ctx).options), os.environ)
        ctx.default_map = {name: self._check(ctx, path, name, value) for name, value in found.items()}
        _require_known_variables(self._own(ctx))
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            name = "" if error.param is None else str(error.param.name)
            if name not in found or name in given or _variable(name) in os.environ:
                raise
            raise CommandFailure(f"{path}: 'serve.{name}' is not valid: {error.message}") from error

    def _own(self, ctx: Any) -> dict[str, Any]:
        """Return the parameters that only this command has, by name."""
        return {one.name: one for one in self.get_params(ctx) if one.name not in {*SHARED, "help"}}

    def _check(self, ctx: Any, path: Path | None, name: str, value: object) -> object:
        """Return a value of the file. Raises CommandFailure if there is no such option, or it is of another kind."""
        own = self._own(ctx)
        if name not in own:
            raise CommandFailure(f"{path} contains the unknown key 'serve.{name}'; known: {', '.join(sorted(own))}")
        expected = "true or false" if own[name].is_flag else "a text or a number"
        if isinstance(value, bool) != own[name].is_flag or not isinstance(value, (str, int, float)):
            raise CommandFailure(f"{path}: 'serve.{name}' must be {expected}")
        # A relative path is relative to the settings file; - is a stream.
        if path is not None and own[name].metavar == FILE and value != "-":
            return str(path.absolute().parent / Path(str(value)).expanduser())
        return value


def _variable(name: str) -> str:
    return PREFIX + name.replace("-", "_").upper()


def _require_known_variables(own: dict[str, Any]) -> None:
    known = {_variable(name) for name in own}
    unknown = sorted(name for name in os.environ if name.startswith(PREFIX) and name not in known)
    if unknown:
        raise CommandFailure(f"The variable {unknown[0]} sets no option of 'serve'; known: {', '.join(sorted(known))}")


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)
