"""A request for a page: who asks, for which object, and what that person may do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from pennon.errors import (
    InvalidInputError,
    NamespaceNotFoundError,
    PermissionDeniedError,
    TableNotFoundError,
    UnsupportedOperationError,
)
from pennon.identifiers import namespace_identifier, split_object_id, table_identifier
from pennon.server.pages import page_tree
from pennon.server.pages.rendering import render
from pennon.server.permissions.rights import ANONYMOUS, Right

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from starlette.responses import Response

    from pennon.catalog_namespace import CatalogNamespace
    from pennon.directory.catalog import Catalog
    from pennon.identifiers import Identifier
    from pennon.server.pages.root_search import RootSearch
    from pennon.server.permissions.rights import Guard, Kind, Principal

Item = TypeVar("Item")
T = TypeVar("T")
TOGETHER = 16
"""How many tables are looked into together, between two looks at the time."""
_MOST_DIGITS = 18


@dataclass(frozen=True)
class PageRequest:
    """A request, and the catalog that it is about."""

    namespace: CatalogNamespace[Any]
    catalog: Catalog | None
    """The catalog of a directory namespace; None if another kind is served."""
    guard: Guard
    root_search: RootSearch | None
    """The search of a root; None if another kind is served."""
    principal: Principal
    url: str
    """The address of the server, as the browser knows it."""
    path: str
    is_signed_in: bool
    form_token: str = field(repr=False)
    parts: Mapping[str, str]
    """The parameters in the path."""
    fields: Mapping[str, str]
    """The query of a GET, the form of a POST."""

    @property
    def table(self) -> Identifier:
        """The table in the path or in the form."""
        return table_identifier(split_object_id(self.parts.get("id") or self.fields.get("id", "")))

    @property
    def container(self) -> Identifier:
        """The namespace in the path or in the query; the root if there is none."""
        return namespace_identifier(split_object_id(self.parts.get("id") or self.fields.get("namespace", "")))

    @property
    def directory(self) -> Catalog:
        """The catalog of a directory namespace. Raises UnsupportedOperationError for another kind."""
        if self.catalog is None:
            raise UnsupportedOperationError("This page is only for directory catalogs")
        return self.catalog

    @property
    def page_token(self) -> str | None:
        """The token of the page of a listing."""
        return self.fields.get("page") or None

    def text(self, name: str) -> str:
        """Return a field, or an empty text."""
        return self.fields.get(name, "").strip()

    def number(self, name: str, default: int | None = None) -> int | None:
        """Return a field as a number that is not negative. Raises InvalidInputError for anything else."""
        given = self.text(name)
        if not given:
            return default
        if not given.isascii() or not given.isdigit() or len(given) > _MOST_DIGITS:
            raise InvalidInputError(f"The parameter {name!r} must be a number, got {given[:40]!r}")
        return int(given)

    def map(self, function: Callable[[Item], T], items: Iterable[Item]) -> list[T]:
        """Return the results of the function for all items, in order. For a bucket, the calls run in parallel."""
        return [function(one) for one in items] if self.catalog is None else self.catalog.store.map(function, items)

    def allows(self, right: Right, kind: Kind, identifier: Identifier) -> bool:
        """Return True if the one who asks has a right on an object."""
        try:
            self.guard.require(self.principal, right, identifier, kind=kind)
        except (PermissionDeniedError, NamespaceNotFoundError, TableNotFoundError):
            return False
        return True

    def render(
        self,
        template: str,
        title: str,
        *,
        place: Identifier = (),
        section: str = "",
        **values: Any,  # noqa: ANN401 - of a template
    ) -> Response:
        """Return a whole page, with the tree around it."""
        frame = {
            "title": title,
            "section": section,
            "place": place,
            "tree": page_tree.build_tree(self, place),
            "can_read_all": self.catalog is not None and self.allows(Right.READ, "namespace", ()),
            "user": None if self.principal == ANONYMOUS else self.principal.name,
            "is_signed_in": self.is_signed_in,
            "form_token": self.form_token,
            "search_text": "",
        }
        return render(template, {**frame, **values})
