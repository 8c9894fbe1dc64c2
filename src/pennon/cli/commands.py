"""Turning functions into commands that all share some options.

```python
app = new_app()


@command(app, "ls")
def ls(session: Session, namespace: Annotated[str | None, typer.Argument()] = None) -> None:
    ...
```
The first parameter is the session; typer sees the others, and the shared options behind them. The options may also
stand before the command's name, as in `pennon --root /data ls`. What is large is imported inside of the function, so
that its help answers at once.
"""

import inspect
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from pennon.cli import startup
from pennon.cli.failures import PipeClosed
from pennon.cli.session import Session
from pennon.cli.settings import Options

F = TypeVar("F", bound=Callable[..., Any])
CONTEXT = {"help_option_names": ["-h", "--help"]}


def shared(
    *,
    root: Annotated[
        str | None, typer.Option("--root", metavar="URI", help="Where the catalog is: a directory or a bucket's URI.")
    ] = None,
    property_: Annotated[
        list[str] | None,
        typer.Option("--property", "-p", metavar="KEY=VALUE", help="A property of the catalog; may be repeated."),
    ] = None,
    impl: Annotated[str | None, typer.Option("--impl", metavar="NAME", help="The implementation.")] = None,
    config: Annotated[Path | None, typer.Option("--config", metavar="FILE", help="The file of settings.")] = None,
    profile: Annotated[
        str | None, typer.Option("--profile", metavar="NAME", help="A profile of the file of settings.")
    ] = None,
    json: Annotated[
        bool | None,
        typer.Option("--json/--table", help="JSON or tables, whatever stdout is.", show_default=False),
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    """Stand for the options that all commands have: their names, types and defaults are read from here."""


_SHARED = inspect.signature(shared).parameters


def new_app() -> typer.Typer:
    """Make what a module registers its commands with."""
    return typer.Typer(rich_markup_mode=None, add_completion=False, context_settings=CONTEXT)


def command(app: typer.Typer, name: str, *, spark: bool = False) -> Callable[[F], F]:
    """Register a function that takes a session as a command. One that starts Spark says so: Spark needs pandas."""

    def register(function: F) -> F:
        app.command(name, context_settings=CONTEXT)(sharing_options(function, fast=not spark))
        return function

    return register


def sharing_options(function: Callable[..., Any], *, fast: bool = False) -> Callable[..., Any]:
    """Give a function that takes a session the signature that typer is to see: its own and the shared options.

    A `fast` one does without what makes imports slow (see `startup`).
    """

    @wraps(function)
    def called(context: typer.Context, **given: Any) -> Any:
        session = session_of(context)
        take(session, **{key: given.pop(key) for key in _SHARED})
        if fast:
            startup.prepare()
        try:
            return function(session, **given)
        except BrokenPipeError as error:
            raise PipeClosed from error

    own = list(inspect.signature(function).parameters.values())[1:]
    context = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    parameters = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in (context, *own, *_SHARED.values())]
    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {one.name: one.annotation for one in parameters}
    return called


def session_of(context: typer.Context) -> Session:
    """Give the session of a run."""
    session = context.find_object(Session)
    if session is None:
        session = context.obj = Session()
    return session


def take(
    session: Session,
    *,
    root: str | None,
    property_: list[str] | None,
    impl: str | None,
    config: Path | None,
    profile: str | None,
    json: bool | None,
    debug: bool,
) -> None:
    """Put shared options on top of what the session has."""
    given = Options(root, impl, tuple(property_ or ()), config, profile)
    session.options = given.over(session.options)
    if json is not None:
        session.output.json = json
    session.debug = session.debug or debug
