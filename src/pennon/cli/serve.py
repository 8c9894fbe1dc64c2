"""The command `serve`, which serves the catalog to Iceberg clients."""

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pennon.cli.commands import command, new_app
from pennon.cli.failures import CommandFailure, ExitCode
from pennon.cli.output import Block, Note
from pennon.cli.serve_options import FILE, ServeCommand, option
from pennon.cli.session import Session
from pennon.server.operation.limits import Limits

if TYPE_CHECKING:
    from typing import Any

    from pennon.catalog_namespace import CatalogNamespace
    from pennon.server.operation.tracing import Tracer
    from pennon.server.running import Certificate

app = new_app()

_PORT = 8181
_STOP_SECONDS = 10
_LIMITS = Limits()
_TRACE_VARIABLES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


class LogFormat(str, Enum):
    """How log lines are written."""

    TEXT = "text"
    JSON = "json"


@command(
    app,
    "serve",
    examples=["pennon serve", "pennon serve --host 0.0.0.0 --port 8181 --token-file token"],
    kind=ServeCommand,
)
def serve(
    session: Session,
    *,
    host: Annotated[
        str, option("--host", "The address to listen on. Other addresses than loopback need a token or a policy.")
    ] = "127.0.0.1",
    port: Annotated[int, option("--port", "The port; 0 for any free port.", min=0, max=65535)] = _PORT,
    token_file: Annotated[
        Path | None,
        option("--token-file", "A file with the bearer token. The default is PENNON_SERVER_TOKEN.", metavar=FILE),
    ] = None,
    policy: Annotated[
        Path | None,
        option("--policy", "A file with users and what each may do. It is read again when it changes.", metavar=FILE),
    ] = None,
    audit_log: Annotated[
        str | None,
        option(
            "--audit-log", "Append a JSON line for each change and each denial to this file; - is stderr.", metavar=FILE
        ),
    ] = None,
    vending: Annotated[
        Path | None,
        option(
            "--vending",
            "A file that says which storage credentials clients get for their tables. The default is none.",
            metavar=FILE,
        ),
    ] = None,
    tls_cert: Annotated[
        Path | None, option("--tls-cert", "Serve over https with this certificate (PEM).", metavar=FILE)
    ] = None,
    tls_key: Annotated[
        Path | None, option("--tls-key", "The key of the certificate, if it is in another file.", metavar=FILE)
    ] = None,
    log_format: Annotated[LogFormat, option("--log-format", "Log lines of text or of JSON.")] = LogFormat.TEXT,
    log_requests: Annotated[bool, option("--log-requests", "Log each request to stderr.")] = False,
    trace_endpoint: Annotated[
        str | None,
        option(
            "--trace-endpoint",
            "Send traces to this OTLP collector. The default is in the variables OTEL_EXPORTER_OTLP_*.",
            metavar="URL",
        ),
    ] = None,
    max_running: Annotated[
        int, option("--max-running", "Requests that are worked on at once.", min=1, max=1000)
    ] = _LIMITS.running,
    max_queued: Annotated[
        int, option("--max-queued", "Requests that wait for their turn; more get 503.", min=0)
    ] = _LIMITS.queued,
    queue_seconds: Annotated[
        float, option("--queue-seconds", "How long a request waits for its turn before it gets 503.", min=0)
    ] = _LIMITS.queue_seconds,
    request_seconds: Annotated[
        float,
        option("--request-seconds", "How long the work on a request may take before it gets 504; 0: any.", min=0),
    ] = _LIMITS.request_seconds,
    max_rate: Annotated[
        float, option("--max-rate", "Requests per second of one user; more get 429; 0: any number.", min=0)
    ] = _LIMITS.rate,
    max_json_bytes: Annotated[
        int, option("--max-json-bytes", "The size of a JSON body; more get 413.", min=1024)
    ] = _LIMITS.json_bytes,
    max_upload_bytes: Annotated[
        int, option("--max-upload-bytes", "The size of any body; more get 413; 0: any size.", min=0)
    ] = _LIMITS.upload_bytes,
    max_page_size: Annotated[
        int, option("--max-page-size", "The most entries of a page, however many a client asks for.", min=1)
    ] = _LIMITS.page_size,
    stop_delay: Annotated[
        float, option("--stop-delay", "Seconds in which the server is not ready, but serves, before it stops.", min=0)
    ] = 0.0,
    stop_seconds: Annotated[
        int, option("--stop-seconds", "Seconds that current requests may take when the server stops.", min=0)
    ] = _STOP_SECONDS,
) -> None:
    """Serve the catalog by the Lance REST namespace protocol, and a directory as an Iceberg REST catalog, too.

    Options come from the command line, the environment (PENNON_SERVE_*) or the table [serve] of the settings file, in
    this order. Ctrl-C stops the server after it has finished the current requests.
    """
    try:
        from pennon.cli.table_access import translate_failures
        from pennon.directory import DirectoryNamespace
        from pennon.directory.lookup import listing
        from pennon.identifiers import ROOT
        from pennon.server import access, running
        from pennon.server import app as application
        from pennon.server.operation import logs
        from pennon.server.operation.health import HealthEndpoints, Readiness
        from pennon.server.operation.metrics import Metrics
        from pennon.server.operation.observer import Observer
        from pennon.server.security import Security
    except ModuleNotFoundError as error:
        raise CommandFailure(
            f"'serve' needs {error.name}, which is not installed: pip install 'pennon[server]'", ExitCode.UNSUPPORTED
        ) from error
    security = Security.open(policy, audit_log, vending)
    rule = access.chosen(host, os.environ, token_file, security.policy)
    certificate = _certificate(tls_cert, tls_key)
    if rule.token is not None:
        session.hidden.add(rule.token)
    limits = Limits(
        running=max_running,
        queued=max_queued,
        queue_seconds=queue_seconds,
        request_seconds=request_seconds,
        rate=max_rate,
        json_bytes=max_json_bytes,
        upload_bytes=max_upload_bytes,
        page_size=max_page_size,
    )
    with session.namespace() as namespace, _tracer(trace_endpoint) as tracer:
        try:
            taken = running.listening(host, port)
        except OSError as error:
            raise CommandFailure(f"Cannot listen on {host}:{port}: {error.strerror}", ExitCode.UNREACHABLE) from error
        with taken, translate_failures("serve"):
            # Check the address that the name resolved to.
            access.chosen(taken.getsockname()[0], os.environ, token_file, security.policy)
            catalog = namespace.catalog if isinstance(namespace, DirectoryNamespace) else None
            hidden = (
                0 if catalog is None else len(listing.list_tables(catalog, ROOT, None, None, include_declared=True)[0])
            )
            url = running.address(taken, certificate)
            root = namespace.namespace_id() if catalog is None else catalog.store.identity()
            iceberg = None if catalog is None else f"{url}{application.ICEBERG}"
            metrics, readiness = Metrics(), Readiness(lambda: _probe(namespace))
            app_ = application.build(
                namespace,
                rule,
                catalog=catalog,
                guard=security.guard,
                limits=limits,
                metrics=metrics,
                audit=security.audit,
                vending=security.vending,
            )
            served = running.server(
                HealthEndpoints(Observer(app_, metrics, tracer), readiness),
                certificate=certificate,
                readiness=readiness,
                stop_delay_seconds=stop_delay,
                last_requests_seconds=stop_seconds,
                running_requests=max_running,
            )
            document = {
                "root": root,
                "url": url,
                "lance": url,
                "iceberg": iceberg,
                "token": rule.token is not None,
                "policy": None if policy is None else str(policy),
                "hidden": hidden,
            }

            def view() -> Iterable[Block]:
                yield Note(f"serving {root}; stop with Ctrl-C")
                yield Note(f"catalog pages and Lance REST namespace: {url}")
                if iceberg is not None:
                    yield Note(f"Iceberg REST catalog: {iceberg}")
                if hidden:
                    yield Note(f"{hidden:,} root tables are not served: in Iceberg, every table is in a namespace")

            logs.configure(as_json=log_format is LogFormat.JSON, requests=log_requests, secrets=session.hidden)
            # A program that reads the address may stop the server at once.
            with served.capture_signals():
                session.output.show(document, view)
                sys.stdout.flush()
                served.run(sockets=[taken])


def _certificate(certificate: Path | None, key: Path | None) -> "Certificate | None":
    """Return the files for TLS, or None. Raises CommandFailure or InvalidInputError if they cannot be used."""
    from pennon.server.running import Certificate

    if certificate is None:
        if key is not None:
            raise CommandFailure("--tls-key needs --tls-cert")
        return None
    found = Certificate(certificate, key)
    found.require_usable()
    return found


@contextmanager
def _tracer(endpoint: str | None) -> Iterator["Tracer | None"]:
    """Return what traces requests, if that is asked for."""
    if endpoint is None and not any(os.environ.get(name) for name in _TRACE_VARIABLES):
        yield None
        return
    try:
        from pennon.server.operation.tracing import Tracer
    except ModuleNotFoundError as error:
        raise CommandFailure(
            f"Traces need {error.name}, which is not installed: pip install 'pennon[tracing]'", ExitCode.UNSUPPORTED
        ) from error
    tracer = Tracer(endpoint)
    try:
        yield tracer
    finally:
        tracer.close()


def _probe(namespace: "CatalogNamespace[Any]") -> None:
    """Raise an error if the storage or the server of the catalog does not answer."""
    from lance_namespace import ListNamespacesRequest

    from pennon.directory import DirectoryNamespace

    if isinstance(namespace, DirectoryNamespace):
        store = namespace.catalog.store
        # On a disk, a root that is gone looks like an empty one.
        if store.is_local and not Path(store.identity()).is_dir():
            raise NotADirectoryError(store.identity())
    namespace.list_namespaces(ListNamespacesRequest(id=[], limit=1))
