"""The models of a pipeline. YAML files are validated by them, and Python code can create them directly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

if TYPE_CHECKING:
    from collections.abc import Iterator

Scalar = str | int | float | bool
NAME_PATTERN = r"^[0-9A-Za-z][0-9A-Za-z_.-]{0,99}$"


def _to_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def format_scalar(value: Scalar) -> str:
    """Return a scalar as YAML writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _to_text(value: Any) -> Any:
    return format_scalar(value) if isinstance(value, (bool, int, float)) else value


def _require_scalars(value: Any) -> Any:
    if isinstance(value, list) and not all(isinstance(one, (str, int, float, bool)) for one in value):
        raise ValueError("accepted values must be texts, numbers, true or false")
    return value


Names = Annotated[tuple[str, ...], BeforeValidator(_to_list)]
"""One name or several."""
OptionText = Annotated[str, BeforeValidator(_to_text)]
AcceptedValues = Annotated[tuple[Any, ...], Field(min_length=1), BeforeValidator(_require_scalars)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    def __repr_args__(self) -> list[tuple[str | None, Any]]:
        """Show which keys are set, but no values: each may be a secret."""
        return [(name, ...) for name in sorted(self.model_fields_set)]


class CatalogSettings(_Model):
    """The catalog of the pipeline, unless the caller passes one."""

    impl: str = "dir"
    root: str | None = None
    properties: dict[str, OptionText] = {}

    def all_properties(self) -> dict[str, str]:
        """Return the properties, including the root."""
        return {**self.properties, **({} if self.root is None else {"root": self.root})}


class SparkSettings(_Model):
    """How to start the session, unless the caller passes one."""

    master: str | None = None
    conf: dict[str, OptionText] = {}


class Source(_Model):
    """An input: a table of the catalog (`table`), or a format that Spark reads (`format`)."""

    table: str | None = None
    version: int | None = Field(None, ge=1)
    tag: str | None = None
    branch: str | None = None
    as_of: str | None = None
    format: str | None = None
    path: Names | None = None
    options: dict[str, OptionText] = {}
    schema_: str | None = Field(None, alias="schema")

    @model_validator(mode="after")
    def _require_one_kind(self) -> Source:
        if (self.table is None) == (self.format is None):
            raise ValueError("name either a 'table' of the catalog or a 'format' that Spark reads")
        given = [key for key in ("version", "tag", "as_of", "branch") if getattr(self, key) is not None]
        pins = [key for key in given if key != "branch"]
        if self.table is None and given:
            raise ValueError(f"{given[0]!r} is for tables of the catalog")
        if len(pins) > 1:
            raise ValueError(f"only one of version, tag and as_of is allowed, got {' and '.join(pins)}")
        if self.tag is not None and self.branch is not None:
            raise ValueError("a tag determines its branch: give a tag or a branch, not both")
        wrong = [key for key in ("path", "options", "schema") if getattr(self, "schema_" if key == "schema" else key)]
        if self.table is not None and wrong:
            raise ValueError(f"{wrong[0]!r} is for a 'format', not for a table of the catalog")
        return self


class RowCount(_Model):
    """Bounds on the number of rows. The ratios are relative to the rows of the published version."""

    min: int | None = Field(None, ge=0)
    max: int | None = Field(None, ge=0)
    min_ratio: float | None = Field(None, ge=0)
    max_ratio: float | None = Field(None, ge=0)

    @model_validator(mode="after")
    def _require_bound(self) -> RowCount:
        bounds = self.model_dump(exclude_none=True)
        if not bounds:
            raise ValueError("give at least one of 'min', 'max', 'min_ratio', 'max_ratio'")
        for low, high in (("min", "max"), ("min_ratio", "max_ratio")):
            if low in bounds and high in bounds and bounds[low] > bounds[high]:
                raise ValueError(f"{low!r} ({bounds[low]}) is larger than {high!r} ({bounds[high]})")
        return self

    @property
    def has_ratio(self) -> bool:
        """Whether a bound is relative to the published version."""
        return self.min_ratio is not None or self.max_ratio is not None


CHECK_KINDS = ("not_null", "unique", "accepted_values", "row_count", "sql")


class Check(_Model):
    """A condition that data must meet before it is published; exactly one kind."""

    not_null: Names | None = Field(None, min_length=1)
    unique: Names | None = Field(None, min_length=1)
    accepted_values: dict[str, AcceptedValues] | None = Field(None, min_length=1)
    row_count: RowCount | None = None
    sql: str | None = None
    expect: Literal["empty", "true"] = "empty"
    name: str | None = None
    severity: Literal["error", "warn"] = "error"
    scope: Literal["table", "new"] = "table"

    @model_validator(mode="before")
    @classmethod
    def _accept_boolean(cls, value: Any) -> Any:
        # In YAML, `expect: true` is a boolean.
        return {**value, "expect": "true"} if isinstance(value, dict) and value.get("expect") is True else value

    @model_validator(mode="after")
    def _require_one_kind(self) -> Check:
        kinds = [kind for kind in CHECK_KINDS if getattr(self, kind) is not None]
        if len(kinds) != 1:
            listed = " and ".join(kinds) if kinds else "none"
            raise ValueError(f"a check must be exactly one of {', '.join(CHECK_KINDS)}; got {listed}")
        if "expect" in self.model_fields_set and self.sql is None:
            raise ValueError("'expect' belongs to a check by 'sql'")
        return self

    @property
    def kind(self) -> str:
        """The kind of the check."""
        return next(kind for kind in CHECK_KINDS if getattr(self, kind) is not None)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the check names; none for SQL checks."""
        return (*(self.not_null or ()), *(self.unique or ()), *(self.accepted_values or ()))

    @property
    def title(self) -> str:
        """The name of the check in reports."""
        if self.name is not None:
            return self.name
        if self.row_count is not None:
            bounds = self.row_count.model_dump(exclude_none=True)
            return f"row_count({', '.join(f'{key}={value}' for key, value in bounds.items())})"
        if self.sql is not None:
            text = " ".join(self.sql.split())
            longest = 48
            return f"sql({text if len(text) <= longest else text[: longest - 3] + '...'})"
        return f"{self.kind}({', '.join(getattr(self, self.kind))})"


class Step(_Model):
    """A query over sources, earlier steps and tables of the catalog."""

    sql: str
    stage: Literal["auto", "always", "never"] = "auto"
    checks: tuple[Check, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _accept_text(cls, value: Any) -> Any:
        return {"sql": value} if isinstance(value, str) else value


_MERGE_KEYS = {"on", "when_matched", "when_not_matched", "when_not_matched_by_source", "null_safe"}


class Target(_Model):
    """A table of the catalog to which the rows of a step or source are written."""

    table: str
    from_: str = Field(alias="from")
    mode: Literal["append", "overwrite", "merge"] = "append"
    on: Names = ()
    when_matched: Literal["update", "delete", "ignore"] = "update"
    when_not_matched: Literal["insert", "ignore"] = "insert"
    when_not_matched_by_source: Literal["delete", "ignore"] = "ignore"
    null_safe: bool = False
    merge_schema: bool = False
    create: bool = True
    checks: tuple[Check, ...] = ()

    @model_validator(mode="after")
    def _require_merge_keys(self) -> Target:
        if self.mode == "merge" and not self.on:
            raise ValueError("a merge needs 'on': the columns by which rows are matched")
        if self.mode != "merge":
            given = self.model_fields_set & _MERGE_KEYS
            if given:
                raise ValueError(f"{min(given)!r} belongs to 'mode: merge', not to {self.mode!r}")
        return self


@dataclass(frozen=True)
class CheckGroup:
    """The checks of a step (`steps.tidy`), of a target (`sales.orders`), or of the whole pipeline."""

    label: str
    path: tuple[str | int, ...]
    checks: tuple[Check, ...]
    step: str | None = None
    target: int | None = None


class Definition(_Model):
    """The whole definition of a pipeline."""

    name: str = Field(pattern=NAME_PATTERN)
    description: str | None = None
    vars: dict[str, Any] = {}
    catalog: CatalogSettings = CatalogSettings()
    spark: SparkSettings = SparkSettings()
    sources: dict[str, Source] = {}
    steps: dict[str, Step] = {}
    targets: tuple[Target, ...] = Field(min_length=1)
    checks: tuple[Check, ...] = ()
    publish: Literal["atomic", "per-table"] = "atomic"
    samples: int = Field(5, ge=0, le=100)
    """The number of failing rows that the report shows for each check."""

    def check_groups(self) -> Iterator[CheckGroup]:
        """Yield all groups of checks, in the order of the file."""
        for name, step in self.steps.items():
            if step.checks:
                yield CheckGroup(f"steps.{name}", ("steps", name, "checks"), step.checks, step=name)
        for number, target in enumerate(self.targets):
            if target.checks:
                yield CheckGroup(target.table, ("targets", number, "checks"), target.checks, target=number)
        if self.checks:
            yield CheckGroup("pipeline", ("checks",), self.checks)

    def queries(self) -> Iterator[tuple[tuple[str | int, ...], str]]:
        """Yield the path and the text of each query: steps first, then checks."""
        yield from ((("steps", name, "sql"), step.sql) for name, step in self.steps.items())
        for group in self.check_groups():
            for number, check in enumerate(group.checks):
                if check.sql is not None:
                    yield (*group.path, number, "sql"), check.sql
