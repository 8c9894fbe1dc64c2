"""The parsed statements that the catalog executes itself. Tables and namespaces are resolved identifiers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pennon.identifiers import Identifier
    from pennon.spark.query.references import TimeTravel


class Statement:
    """A statement that the catalog executes itself."""


# SHOW and DESCRIBE


@dataclass(frozen=True)
class ShowNamespaces(Statement):
    """SHOW NAMESPACES [IN namespace] [LIKE 'pattern']."""

    parent: Identifier = ()
    pattern: str | None = None


@dataclass(frozen=True)
class ShowTables(Statement):
    """SHOW TABLES [DROPPED] [IN namespace] [LIKE 'pattern']."""

    namespace: Identifier = ()
    pattern: str | None = None
    dropped: bool = False


@dataclass(frozen=True)
class ShowTableDetail(Statement):
    """SHOW COLUMNS, CREATE TABLE, TBLPROPERTIES, INDEXES, TAGS or BRANCHES of a table; `subject` is that keyword."""

    subject: str
    table: Identifier
    key: str | None = None


@dataclass(frozen=True)
class DescribeTable(Statement):
    """DESCRIBE [TABLE] [EXTENDED] table [column]."""

    table: Identifier
    extended: bool = False
    column: tuple[str, ...] | None = None
    travel: TimeTravel | None = None


@dataclass(frozen=True)
class DescribeHistory(Statement):
    """DESCRIBE HISTORY table [LIMIT n]."""

    table: Identifier
    limit: int | None = None


@dataclass(frozen=True)
class DescribeNamespace(Statement):
    """DESCRIBE NAMESPACE namespace."""

    namespace: Identifier


# Namespaces


@dataclass(frozen=True)
class CreateNamespace(Statement):
    """CREATE NAMESPACE [IF NOT EXISTS] namespace [COMMENT '...'] [WITH PROPERTIES (...)]."""

    namespace: Identifier
    if_not_exists: bool = False
    properties: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class AlterNamespace(Statement):
    """ALTER NAMESPACE namespace SET or UNSET PROPERTIES (...). The value None removes a property."""

    namespace: Identifier
    changes: dict[str, str | None]


@dataclass(frozen=True)
class DropNamespace(Statement):
    """DROP NAMESPACE [IF EXISTS] namespace [CASCADE]."""

    namespace: Identifier
    if_exists: bool = False
    cascade: bool = False


# Creating, dropping and restoring tables


@dataclass(frozen=True)
class ColumnDefinition:
    """A column of a new table. `type` is a type of Spark; a vector also has a `width`."""

    name: str
    type: str
    nullable: bool = True
    comment: str | None = None
    width: int | None = None


@dataclass(frozen=True)
class CreateTable(Statement):
    """CREATE [OR REPLACE] TABLE [IF NOT EXISTS] table [(columns)] [TBLPROPERTIES (...)] [AS query]."""

    table: Identifier
    columns: tuple[ColumnDefinition, ...] | None = None
    query: str | None = None
    if_not_exists: bool = False
    replace: bool = False
    must_exist: bool = False
    properties: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class DropTable(Statement):
    """DROP TABLE [IF EXISTS] table [PURGE]."""

    table: Identifier
    if_exists: bool = False
    purge: bool = False


@dataclass(frozen=True)
class UndropTable(Statement):
    """UNDROP TABLE table [WITH ID 'deletion id'] [AS name]."""

    table: Identifier
    deletion_id: str | None = None
    new_name: Identifier | None = None


@dataclass(frozen=True)
class UndropNamespace(Statement):
    """UNDROP NAMESPACE namespace [WITH ID 'deletion id']."""

    namespace: Identifier
    deletion_id: str | None = None


@dataclass(frozen=True)
class PurgeTable(Statement):
    """PURGE TABLE table [WITH ID 'deletion id'] [FORCE]."""

    table: Identifier
    deletion_id: str | None = None
    force: bool = False


@dataclass(frozen=True)
class PurgeTables(Statement):
    """PURGE TABLES [DROPPED BEFORE timestamp] [FORCE] [DRY RUN]."""

    before: str | None = None
    force: bool = False
    dry_run: bool = False


@dataclass(frozen=True)
class RestoreTable(Statement):
    """RESTORE TABLE table TO VERSION AS OF n, or TO TIMESTAMP AS OF time."""

    table: Identifier
    travel: TimeTravel


# Changing a table and its indexes


@dataclass(frozen=True)
class RenameTable(Statement):
    """ALTER TABLE table RENAME TO name."""

    table: Identifier
    new_name: Identifier


@dataclass(frozen=True)
class AddColumns(Statement):
    """ALTER TABLE table ADD COLUMNS (...)."""

    table: Identifier
    columns: tuple[ColumnDefinition, ...]


@dataclass(frozen=True)
class DropColumns(Statement):
    """ALTER TABLE table DROP COLUMNS [IF EXISTS] (...)."""

    table: Identifier
    columns: tuple[tuple[str, ...], ...]
    if_exists: bool = False


@dataclass(frozen=True)
class AlterColumn(Statement):
    """ALTER TABLE table RENAME COLUMN, or ALTER COLUMN ... TYPE, SET NOT NULL, DROP NOT NULL."""

    table: Identifier
    column: tuple[str, ...]
    new_name: str | None = None
    type: ColumnDefinition | None = None
    nullable: bool | None = None


@dataclass(frozen=True)
class SetProperties(Statement):
    """ALTER TABLE table SET or UNSET TBLPROPERTIES (...). The value None removes a property."""

    table: Identifier
    changes: dict[str, str | None]
    if_exists: bool = True


@dataclass(frozen=True)
class SetProtection(Statement):
    """ALTER TABLE or NAMESPACE name SET or UNSET PROTECTION."""

    identifier: Identifier
    protected: bool
    is_table: bool = True


@dataclass(frozen=True)
class CreateIndex(Statement):
    """CREATE INDEX [IF NOT EXISTS] [name] ON table [USING kind] (columns) [OPTIONS (...)]."""

    table: Identifier
    columns: tuple[str, ...]
    name: str | None = None
    kind: str | None = None
    if_not_exists: bool = False
    replace: bool = False
    options: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class DropIndex(Statement):
    """DROP INDEX [IF EXISTS] name ON table."""

    table: Identifier
    name: str
    if_exists: bool = False


@dataclass(frozen=True)
class Optimize(Statement):
    """OPTIMIZE table."""

    table: Identifier


@dataclass(frozen=True)
class Vacuum(Statement):
    """VACUUM table [RETAIN n HOURS] [DRY RUN]."""

    table: Identifier
    hours: float | None = None
    dry_run: bool = False


# Data


@dataclass(frozen=True)
class InsertInto(Statement):
    """INSERT INTO or OVERWRITE table [(columns)] [BY NAME] query."""

    table: Identifier
    query: str
    overwrite: bool = False
    columns: tuple[str, ...] | None = None
    by_name: bool = False
    evolve: bool = False


@dataclass(frozen=True)
class Assignment:
    """`column = expression`."""

    column: tuple[str, ...]
    expression: str


@dataclass(frozen=True)
class UpdateTable(Statement):
    """UPDATE table [alias] SET column = expression, ... [WHERE condition].

    `name_parts` is the name of the table as it is written.
    """

    table: Identifier
    name_parts: tuple[str, ...]
    alias: str | None
    assignments: tuple[Assignment, ...]
    where: str | None = None


@dataclass(frozen=True)
class DeleteFrom(Statement):
    """DELETE FROM table [alias] [WHERE condition], or TRUNCATE TABLE table.

    `name_parts` is the name of the table as it is written.
    """

    table: Identifier
    name_parts: tuple[str, ...]
    alias: str | None = None
    where: str | None = None


@dataclass(frozen=True)
class MergeClause:
    """WHEN [NOT] MATCHED [BY SOURCE] [AND condition] THEN action.

    `match` is matched, missing (NOT MATCHED) or extra (NOT MATCHED BY SOURCE). `action` is update, delete or insert.
    `assignments` is None for `*`.
    """

    match: str
    action: str
    condition: str | None = None
    assignments: tuple[Assignment, ...] | None = ()


@dataclass(frozen=True)
class MergeInto(Statement):
    """MERGE [WITH SCHEMA EVOLUTION] INTO table [alias] USING source [alias] ON condition WHEN ....

    `name_parts` is the name of the table as it is written. `source` is a query.
    """

    table: Identifier
    name_parts: tuple[str, ...]
    alias: str | None
    source: str
    source_name: str | None
    on: str
    clauses: tuple[MergeClause, ...]
    evolve: bool = False


# Temporary views


@dataclass(frozen=True)
class CreateTempView(Statement):
    """CREATE [OR REPLACE] [GLOBAL] TEMPORARY VIEW name [(columns)] AS query; CACHE TABLE name AS query."""

    name: str
    query: str
    replace: bool = False
    is_global: bool = False
    columns: tuple[str, ...] | None = None
    cache: bool = False
