"""The commands `access key`, `access check` and `access explain`, for the policy of `pennon serve`."""

from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Annotated, Any

import typer

from pennon import addresses
from pennon.cli.commands import command, format_examples, new_app
from pennon.cli.failures import CommandFailure, ExitCode
from pennon.cli.output import Block, Fields, Lines, Note
from pennon.cli.session import Session

app = new_app()

PolicyOption = Annotated[
    Path | None,
    typer.Option("--policy", metavar="FILE", help="The policy file. The default is PENNON_SERVE_POLICY.", envvar=None),
]


@app.callback(
    epilog=format_examples(["pennon access key ann --days 90", "pennon access explain ann QueryTable prod.events"])
)
def access() -> None:
    """Make API keys, and check and explain the policy of a server."""


@command(app, "key", examples=["pennon access key ann --days 90"])
def key(
    session: Session,
    user: Annotated[str, typer.Argument(metavar="USER", help="The user whom the key belongs to.")],
    *,
    days: Annotated[int | None, typer.Option("--days", min=1, help="The key expires after so many days.")] = None,
) -> None:
    """Make an API key. It is shown once: give it to the user, and add the line to the list 'keys' of the policy."""
    from pennon.server.permissions import keys, policy_model

    if not policy_model.is_user_name(user):
        raise CommandFailure(f"{user!r} cannot be the name of a user with a key")
    made = keys.create_key()
    expires = None
    if days is not None:
        expires = (datetime.now(timezone.utc) + timedelta(days=days)).replace(microsecond=0).isoformat()
    line = made.line(user, expires)

    def view() -> Iterable[Block]:
        yield Lines([("The key, which is shown only now:", "dim"), (made.text, "bold")])
        yield Lines([("The line for the list 'keys' of the policy:", "dim"), (line, "")])

    session.output.show({"user": user, "key": made.text, "line": line, "expires": expires}, view)


@command(app, "check", examples=["pennon access check --policy policy.yaml"])
def check(session: Session, *, policy: PolicyOption = None) -> None:
    """Check a policy file. All problems are shown at once, with their lines."""
    found = _load(policy)
    document = {"keys": len(found.keys), "issuers": len(found.issuers), "grants": len(found.grants)}

    def view() -> Iterable[Block]:
        yield Note(", ".join(f"{count:,} {what}" for what, count in document.items()))

    session.output.show(document, view)


@command(app, "explain", examples=["pennon access explain ann QueryTable prod.events --policy policy.yaml"])
def explain(
    session: Session,
    user: Annotated[str, typer.Argument(metavar="USER", help="A user: alice, or corp:alice of the issuer corp.")],
    action: Annotated[
        str, typer.Argument(metavar="ACTION", help="see, read, write, create, manage, administer, or an operation.")
    ],
    table: Annotated[str, typer.Argument(metavar="TABLE", help="For example prod.events.")],
    *,
    namespace: Annotated[bool, typer.Option("--namespace", help="TABLE names a namespace; / is the root.")] = False,
    group: Annotated[
        list[str] | None,
        typer.Option("--group", metavar="NAME", help="A group in the user's token, as corp:analysts; may be repeated."),
    ] = None,
    policy: PolicyOption = None,
) -> None:
    """Explain whether a user may do something with a table, and which grant allows it."""
    from pennon.server.permissions import explain as explaining
    from pennon.server.permissions.rights import Principal

    identifier = addresses.parse_namespace(table) if namespace else addresses.parse_table(table)
    principal = Principal(user, frozenset(group or ()))
    found = explaining.explain(_load(policy), principal, action, identifier, kind="namespace" if namespace else "table")

    def view() -> Iterable[Block]:
        yield Fields({"answer": "allowed" if found.allowed else "denied", "right": found.right.value})
        yield Lines([(line, "") for line in found.reasons])

    document: dict[str, Any] = {
        "allowed": found.allowed,
        "visible": found.visible,
        "right": found.right.value,
        "reasons": list(found.reasons),
    }
    session.output.show(document, view)


def _load(file: Path | None) -> Any:
    import os

    try:
        from pennon.server.permissions.policy_file import POLICY_VARIABLE, load_policy
    except ModuleNotFoundError as error:
        raise CommandFailure(
            f"'access' needs {error.name}, which is not installed: pip install 'pennon[server]'", ExitCode.UNSUPPORTED
        ) from error
    chosen = file or (Path(os.environ[POLICY_VARIABLE]) if os.environ.get(POLICY_VARIABLE) else None)
    if chosen is None:
        raise CommandFailure(f"There is no policy: give --policy, or set {POLICY_VARIABLE}")
    return load_policy(chosen)
