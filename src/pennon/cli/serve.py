"""The command `serve`, which serves the catalog to Iceberg clients."""

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from pennon.cli.commands import command, new_app
from pennon.cli.failures import CommandFailure, ExitCode
from pennon.cli.output import Block, Note
from pennon.cli.session import Session

app = new_app()

_PORT = 8181


@command(app, "serve")
def serve(
    session: Session,
    *,
    host: Annotated[
        str, typer.Option("--host", help="The address to listen on. Other addresses than loopback need a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="The port; 0 for any free port.")] = _PORT,
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file", metavar="FILE", help="A file with the bearer token. The default is PENNON_SERVER_TOKEN."
        ),
    ] = None,
    tls_cert: Annotated[
        Path | None, typer.Option("--tls-cert", metavar="FILE", help="Serve over https with this certificate (PEM).")
    ] = None,
    tls_key: Annotated[
        Path | None,
        typer.Option("--tls-key", metavar="FILE", help="The key of the certificate, if it is in another file."),
    ] = None,
    log_requests: Annotated[bool, typer.Option("--log-requests", help="Log each request to stderr.")] = False,
) -> None:
    """Serve the catalog by the Lance REST namespace protocol, and a directory as an Iceberg REST catalog, too.

    Ctrl-C stops the server after it has finished the current requests.
    """
    try:
        from pennon.cli.table_access import translate_failures
        from pennon.directory import DirectoryNamespace
        from pennon.directory.lookup import listing
        from pennon.identifiers import ROOT
        from pennon.server import access, running
        from pennon.server import app as application
    except ModuleNotFoundError as error:
        raise CommandFailure(
            f"'serve' needs {error.name}, which is not installed: pip install 'pennon[server]'", ExitCode.UNSUPPORTED
        ) from error
    if tls_key is not None and tls_cert is None:
        raise CommandFailure("--tls-key needs --tls-cert")
    rule = access.chosen(host, os.environ, token_file)
    certificate = None if tls_cert is None else running.Certificate(tls_cert, tls_key)
    if certificate is not None:
        certificate.require_usable()
    if rule.token is not None:
        session.hidden.add(rule.token)
    with session.namespace() as namespace:
        try:
            taken = running.listening(host, port)
        except OSError as error:
            raise CommandFailure(f"Cannot listen on {host}:{port}: {error.strerror}", ExitCode.UNREACHABLE) from error
        with taken, translate_failures("serve"):
            # Check the address that the name resolved to.
            access.chosen(taken.getsockname()[0], os.environ, token_file)
            catalog = namespace.catalog if isinstance(namespace, DirectoryNamespace) else None
            hidden = (
                0 if catalog is None else len(listing.list_tables(catalog, ROOT, None, None, include_declared=True)[0])
            )
            url = running.address(taken, certificate)
            root = namespace.namespace_id() if catalog is None else catalog.store.identity()
            iceberg = None if catalog is None else f"{url}{application.ICEBERG}"
            app_ = application.build(namespace, rule, catalog=catalog)
            served = running.server(app_, certificate=certificate, log_requests=log_requests)
            document = {
                "root": root,
                "url": url,
                "lance": url,
                "iceberg": iceberg,
                "token": rule.token is not None,
                "hidden": hidden,
            }

            def view() -> Iterable[Block]:
                yield Note(f"serving {root}; stop with Ctrl-C")
                yield Note(f"Lance REST namespace: {url}")
                if iceberg is not None:
                    yield Note(f"Iceberg REST catalog: {iceberg}")
                if hidden:
                    yield Note(f"{hidden:,} root tables are not served: in Iceberg, every table is in a namespace")

            session.output.show(document, view)
            sys.stdout.flush()
            served.run(sockets=[taken])
