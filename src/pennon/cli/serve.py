"""Serving the catalog to other tools: `serve`."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from pennon.cli.commands import command, new_app
from pennon.cli.failures import CommandFailure, ExitCode
from pennon.cli.output import Note
from pennon.cli.session import Session

app = new_app()

_PORT = 8181


@command(app, "serve")
def serve(
    session: Session,
    *,
    host: Annotated[
        str, typer.Option("--host", help="The address to listen at; others than loopback need a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="The port; 0 for any that is free.")] = _PORT,
    token_file: Annotated[
        Path | None,
        typer.Option("--token-file", metavar="FILE", help="Holds the bearer token; else PENNON_SERVER_TOKEN does."),
    ] = None,
    log_requests: Annotated[bool, typer.Option("--log-requests", help="Write a line per request to stderr.")] = False,
) -> None:
    """Serve the catalog as an Iceberg REST catalog, under /iceberg.

    Ctrl-C ends it, once the requests that were begun are done.
    """
    try:
        from pennon.server import access, running  # noqa: PLC0415 - help does without
        from pennon.server import app as application  # noqa: PLC0415 - the same
    except ModuleNotFoundError as error:
        raise CommandFailure(
            f"'serve' needs {error.name}, which is not installed: pip install 'pennon[server]'", ExitCode.UNSUPPORTED
        ) from error
    rule = access.chosen(host, os.environ, token_file)
    if rule.token is not None:
        session.hidden.add(rule.token)
    with session.catalog() as catalog:
        try:
            taken = running.listening(host, port)
        except OSError as error:
            raise CommandFailure(f"Cannot listen at {host}:{port}: {error.strerror}", ExitCode.UNREACHABLE) from error
        with taken:
            url, root = running.address(taken), catalog.store.identity()
            iceberg = f"{url}{application.ICEBERG}"
            served = running.server(application.build(catalog, rule), log_requests=log_requests)
            document = {"root": root, "url": url, "iceberg": iceberg, "token": rule.token is not None}
            session.output.show(document, lambda: [Note(f"serving {root} at {iceberg}; Ctrl-C ends it")])
            sys.stdout.flush()
            served.run(sockets=[taken])
