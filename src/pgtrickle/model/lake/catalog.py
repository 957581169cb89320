"""The location of a lake's catalog, and the line with which DuckDB attaches it."""

from __future__ import annotations

from dataclasses import dataclass

from pgtrickle.model.text.shown import Shown


@dataclass(frozen=True, slots=True)
class RecordedCatalog:
    """A catalog that sinks or attached tables of this database name."""

    dsn: str  # without secrets; empty: in this database
    schema: str
    data_path: str | None
    sinks: int = 0
    sources: int = 0


@dataclass(frozen=True, slots=True)
class ShownCatalog:
    """The same for display, with the line to type in DuckDB."""

    catalog_schema: str
    data_path: str | None
    sinks: int
    sources: int
    attach: str


@dataclass(frozen=True, slots=True)
class MovedCatalog(Shown):
    """The result of moving a catalog to another schema."""

    from_schema: str
    to_schema: str
    tables: int  # 0: it was there already
    sinks: int
    sources: int
    attach: str


def attach_line(conninfo: str, schema: str) -> str:
    """Return the statement with which DuckDB attaches a lake.

    >>> attach_line("dbname=shop host=db", "ducklake")
    "ATTACH 'ducklake:postgres:dbname=shop host=db' AS lake (METADATA_SCHEMA 'ducklake');"
    """
    place = _text(f"ducklake:postgres:{conninfo}")
    return f"ATTACH {place} AS lake (METADATA_SCHEMA {_text(schema)});"


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
