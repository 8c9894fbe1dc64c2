"""Register functions as commands with shared options.

```python
app = new_app()


@command(app, "ls", examples=["pennon ls", "pennon ls prod"])
def ls(session: Session, namespace: Annotated[str | None, typer.Argument()] = None) -> None:
    ...
```
The first parameter is the session. typer sees the other parameters, followed by the shared options. Shared options can
also be before the command's name, as in `pennon --root /data ls`. The function imports large modules itself, so that
help is fast.
"""

import inspect
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from typer.core import TyperCommand

from pennon.cli import startup
from pennon.cli.completion import complete_values
from pennon.cli.failures import PipeClosed
from pennon.cli.session import Session
from pennon.cli.settings import Options

F = TypeVar("F", bound=Callable[..., Any])
CONTEXT = {"help_option_names": ["-h", "--help"]}


def shared_options(
    *,
    root: Annotated[
        str | None,
        typer.Option("--root", metavar="URI", help="The location of the catalog: a directory or the URI of a bucket."),
    ] = None,
    property_: Annotated[
        list[str] | None,
        typer.Option("--property", "-p", metavar="KEY=VALUE", help="A property of the catalog; may be repeated."),
    ] = None,
    impl: Annotated[
        str | None,
        typer.Option(
            "--impl",
            metavar="NAME",
            help="The implementation of the catalog: dir, iceberg or rest.",
            autocompletion=complete_values("dir", "iceberg", "rest"),
        ),
    ] = None,
    uri: Annotated[
        str | None, typer.Option("--uri", metavar="URI", help="The address of a server, for iceberg and rest.")
    ] = None,
    config: Annotated[Path | None, typer.Option("--config", metavar="FILE", help="The settings file.")] = None,
    profile: Annotated[
        str | None, typer.Option("--profile", metavar="NAME", help="A profile in the settings file.")
    ] = None,
    json: Annotated[
        bool | None,
        typer.Option(
            "--json/--table", help="Write JSON or tables. The default is tables on a terminal.", show_default=False
        ),
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")] = False,
) -> None:
    """Declare the options of all commands. Only its signature is used."""


SHARED = inspect.signature(shared_options).parameters


def new_app() -> typer.Typer:
    """Return an app to which a module adds its commands."""
    return typer.Typer(rich_markup_mode=None, add_completion=False, context_settings=CONTEXT)


def command(
    app: typer.Typer,
    name: str,
    *,
    examples: Sequence[str],
    spark: bool = False,
    kind: type[TyperCommand] | None = None,
) -> Callable[[F], F]:
    """Return a decorator that registers a function as a command, with examples at the end of its help.

    Set `spark` if it starts Spark, which needs pandas.
    """
    epilog = format_examples(examples)

    def register(function: F) -> F:
        called = add_shared_options(function, fast=not spark)
        app.command(name, cls=kind, context_settings=CONTEXT, epilog=epilog)(called)
        return function

    return register


def format_examples(examples: Sequence[str]) -> str:
    """Return the end of a help text."""
    # The first character keeps the lines of the paragraph apart.
    return "\b\nExamples:\n" + "\n".join(f"  {one}" for one in examples)


def add_shared_options(function: Callable[..., Any], *, fast: bool = False) -> Callable[..., Any]:
    """Return the function that typer calls: it has the options of `function` and the shared options.

    If `fast`, slow imports are avoided (see `startup`).
    """

    @wraps(function)
    def called(context: typer.Context, **given: Any) -> Any:
        session = find_session(context)
        apply_options(session, **{key: given.pop(key) for key in SHARED})
        if fast:
            startup.prepare()
        try:
            return function(session, **given)
        except BrokenPipeError as error:
            raise PipeClosed from error

    own = list(inspect.signature(function).parameters.values())[1:]
    context = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    parameters = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in (context, *own, *SHARED.values())]
    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {one.name: one.annotation for one in parameters}
    return called


def find_session(context: typer.Context) -> Session:
    """Return the session of this run."""
    session = context.find_object(Session)
    if session is None:
        session = context.obj = Session()
    return session


def apply_options(
    session: Session,
    *,
    root: str | None,
    property_: list[str] | None,
    impl: str | None,
    uri: str | None,
    config: Path | None,
    profile: str | None,
    json: bool | None,
    debug: bool,
) -> None:
    """Override the options of the session by those that are given."""
    properties = [*(property_ or ()), *([] if uri is None else [f"uri={uri}"])]
    given = Options(root, impl, tuple(properties), config, profile)
    session.options = given.over(session.options)
    if json is not None:
        session.output.json = json
    session.debug = session.debug or debug
