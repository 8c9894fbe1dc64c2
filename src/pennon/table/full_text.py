"""Translates the full-text queries of requests for Lance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance.query import (
    BooleanQuery,
    BoostQuery,
    FullTextOperator,
    FullTextQuery,
    MatchQuery,
    MultiMatchQuery,
    Occur,
    PhraseQuery,
)

from pennon.errors import InvalidInputError
from pennon.table.requirements import require_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lance import LanceDataset
    from lance_namespace_urllib3_client.models.fts_query import FtsQuery
    from lance_namespace_urllib3_client.models.match_query import MatchQuery as MatchModel
    from lance_namespace_urllib3_client.models.query_table_request_full_text_query import (
        QueryTableRequestFullTextQuery,
    )

    from pennon.identifiers import Identifier

_KINDS = ("match", "phrase", "boost", "multi_match", "boolean")
_EXPANSIONS = 50
_NEGATIVE_BOOST = 0.5


def parse_full_text(
    dataset: LanceDataset, identifier: Identifier, request: QueryTableRequestFullTextQuery | None
) -> FullTextQuery | None:
    """Return the full-text query of a request, or None. Raises TableColumnNotFoundError, InvalidInputError."""
    if request is None or (request.string_query is None and request.structured_query is None):
        return None
    if request.string_query is not None and request.structured_query is not None:
        raise InvalidInputError("A full-text query has either a string_query or a structured_query, not both")
    parser = _QueryParser(dataset, identifier)
    if request.structured_query is not None:
        return parser.parse(request.structured_query.query)
    if request.string_query is None:
        return None
    terms, columns = request.string_query.query, request.string_query.columns
    require_fields(dataset, identifier, columns or ())
    return parser.search_columns(columns or parser.list_indexed(), lambda column: MatchQuery(terms, column))


class _QueryParser:
    """Parses the queries of one request. A query without a column searches all columns with a full-text index."""

    def __init__(self, dataset: LanceDataset, identifier: Identifier) -> None:
        self._dataset, self._identifier = dataset, identifier

    def parse(self, request: FtsQuery) -> FullTextQuery:
        kinds = [kind for kind in _KINDS if getattr(request, kind) is not None]
        if len(kinds) != 1:
            raise InvalidInputError(f"A structured full-text query has exactly one of {', '.join(_KINDS)}, got {kinds}")
        if request.match is not None:
            return self._parse_match(request.match)
        if request.phrase is not None:
            terms, slop = request.phrase.terms, request.phrase.slop or 0
            return self.search_columns(
                self._find_columns(request.phrase.column), lambda name: PhraseQuery(terms, name, slop=slop)
            )
        if request.boost is not None:
            lowered = request.boost.negative_boost
            return BoostQuery(
                self.parse(request.boost.positive),
                self.parse(request.boost.negative),
                negative_boost=_NEGATIVE_BOOST if lowered is None else float(lowered),
            )
        if request.multi_match is not None:
            return self._parse_multi_match(request.multi_match.match_queries)
        boolean = request.boolean
        clauses = [] if boolean is None else [
            *((Occur.MUST, one) for one in boolean.must),
            *((Occur.SHOULD, one) for one in boolean.should),
            *((Occur.MUST_NOT, one) for one in boolean.must_not),
        ]  # fmt: skip
        return BooleanQuery([(occur, self.parse(one)) for occur, one in clauses])

    def search_columns(self, columns: Sequence[str], query: Callable[[str], FullTextQuery]) -> FullTextQuery:
        """Return a query for one column, or for any of several."""
        if len(columns) == 1:
            return query(columns[0])
        return BooleanQuery([(Occur.SHOULD, query(column)) for column in columns])

    def list_indexed(self) -> list[str]:
        """Return the columns that have a full-text index. Raises InvalidInputError if there are none."""
        columns = [
            column
            for index in self._dataset.describe_indices()
            if "inverted" in index.index_type.lower() or index.index_type.lower() == "fts"
            for column in index.field_names
        ]
        if not columns:
            raise InvalidInputError("A full-text query without a column requires a column with a full-text index")
        return columns

    def _find_columns(self, column: str | None) -> list[str]:
        if column is None:
            return self.list_indexed()
        require_fields(self._dataset, self._identifier, [column])
        return [column]

    def _parse_match(self, request: MatchModel) -> FullTextQuery:
        def in_column(column: str) -> FullTextQuery:
            return MatchQuery(
                request.terms,
                column,
                boost=1.0 if request.boost is None else float(request.boost),
                fuzziness=request.fuzziness or 0,
                max_expansions=_EXPANSIONS if request.max_expansions is None else request.max_expansions,
                operator=_parse_operator(request.operator),
                prefix_length=request.prefix_length or 0,
            )

        return self.search_columns(self._find_columns(request.column), in_column)

    def _parse_multi_match(self, request: Sequence[MatchModel]) -> FullTextQuery:
        """Return a query whose best column counts if all matches have the same terms, else a query for any match."""
        if not request:
            raise InvalidInputError("A multi_match query requires at least one match")
        plain = all(one.column is not None and not one.fuzziness and not one.prefix_length for one in request)
        if plain and len({(one.terms, _parse_operator(one.operator)) for one in request}) == 1:
            columns = [column for one in request for column in self._find_columns(one.column)]
            boosts = [1.0 if one.boost is None else float(one.boost) for one in request]
            return MultiMatchQuery(
                request[0].terms, columns, boosts=boosts, operator=_parse_operator(request[0].operator)
            )
        return BooleanQuery([(Occur.SHOULD, self._parse_match(one)) for one in request])


def _parse_operator(written: str | None) -> FullTextOperator:
    try:
        return FullTextOperator[(written or "or").strip().upper()]
    except KeyError as error:
        raise InvalidInputError(f"The operator of a full-text query is And or Or, got {written!r}") from error
