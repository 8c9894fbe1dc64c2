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
    dataset: LanceDataset, identifier: Identifier, asked: QueryTableRequestFullTextQuery | None
) -> FullTextQuery | None:
    """Return the full-text query of a request, or None. Raises TableColumnNotFoundError, InvalidInputError."""
    if asked is None or (asked.string_query is None and asked.structured_query is None):
        return None
    if asked.string_query is not None and asked.structured_query is not None:
        raise InvalidInputError("A full-text query has either a string_query or a structured_query, not both")
    parser = _QueryParser(dataset, identifier)
    if asked.structured_query is not None:
        return parser.parse(asked.structured_query.query)
    if asked.string_query is None:
        return None
    terms, columns = asked.string_query.query, asked.string_query.columns
    require_fields(dataset, identifier, columns or ())
    return parser.search_columns(columns or parser.list_indexed(), lambda column: MatchQuery(terms, column))


class _QueryParser:
    """Parses the queries of one request. A query without a column searches all columns with a full-text index."""

    def __init__(self, dataset: LanceDataset, identifier: Identifier) -> None:
        self._dataset, self._identifier = dataset, identifier

    def parse(self, asked: FtsQuery) -> FullTextQuery:
        kinds = [kind for kind in _KINDS if getattr(asked, kind) is not None]
        if len(kinds) != 1:
            raise InvalidInputError(f"A structured full-text query has exactly one of {', '.join(_KINDS)}, got {kinds}")
        if asked.match is not None:
            return self._match(asked.match)
        if asked.phrase is not None:
            terms, slop = asked.phrase.terms, asked.phrase.slop or 0
            return self.search_columns(
                self._columns(asked.phrase.column), lambda name: PhraseQuery(terms, name, slop=slop)
            )
        if asked.boost is not None:
            lowered = asked.boost.negative_boost
            return BoostQuery(
                self.parse(asked.boost.positive),
                self.parse(asked.boost.negative),
                negative_boost=_NEGATIVE_BOOST if lowered is None else float(lowered),
            )
        if asked.multi_match is not None:
            return self._multi_match(asked.multi_match.match_queries)
        boolean = asked.boolean
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

    def _columns(self, column: str | None) -> list[str]:
        if column is None:
            return self.list_indexed()
        require_fields(self._dataset, self._identifier, [column])
        return [column]

    def _match(self, asked: MatchModel) -> FullTextQuery:
        def in_column(column: str) -> FullTextQuery:
            return MatchQuery(
                asked.terms,
                column,
                boost=1.0 if asked.boost is None else float(asked.boost),
                fuzziness=asked.fuzziness or 0,
                max_expansions=_EXPANSIONS if asked.max_expansions is None else asked.max_expansions,
                operator=_parse_operator(asked.operator),
                prefix_length=asked.prefix_length or 0,
            )

        return self.search_columns(self._columns(asked.column), in_column)

    def _multi_match(self, asked: Sequence[MatchModel]) -> FullTextQuery:
        """Return a query whose best column counts if all matches have the same terms, else a query for any match."""
        if not asked:
            raise InvalidInputError("A multi_match query requires at least one match")
        plain = all(one.column is not None and not one.fuzziness and not one.prefix_length for one in asked)
        if plain and len({(one.terms, _parse_operator(one.operator)) for one in asked}) == 1:
            columns = [column for one in asked for column in self._columns(one.column)]
            boosts = [1.0 if one.boost is None else float(one.boost) for one in asked]
            return MultiMatchQuery(asked[0].terms, columns, boosts=boosts, operator=_parse_operator(asked[0].operator))
        return BooleanQuery([(Occur.SHOULD, self._match(one)) for one in asked])


def _parse_operator(written: str | None) -> FullTextOperator:
    try:
        return FullTextOperator[(written or "or").strip().upper()]
    except KeyError as error:
        raise InvalidInputError(f"The operator of a full-text query is And or Or, got {written!r}") from error
