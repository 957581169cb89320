"""Decide whether a query can be IMMEDIATE, and gather what its functions are made from."""

from __future__ import annotations

from psycopg import Connection

from pgtrickle.capture.sources import Source, get_source
from pgtrickle.errors import (
    SettingError,
    UnsupportedQueryError,
    UnsupportedSourceError,
)
from pgtrickle.immediate.blueprint import Blueprint
from pgtrickle.model.capture.cdc_mode import CdcMode
from pgtrickle.model.stream_table import RefreshMode, StreamTable
from pgtrickle.service.check_time import time_refusal
from pgtrickle.service.compile import Compiled
from pgtrickle.service.outboxes.unique_key import find_unique_key
from pgtrickle.sql.refusal import Refusal, unsupported

# On these depends what the text of an expression means, or how a value is shown.
_SETTINGS = (
    "TimeZone",
    "DateStyle",
    "IntervalStyle",
    "extra_float_digits",
    "bytea_output",
    "array_nulls",
    "transform_null_equals",
    "xmlbinary",
    "xmloption",
    "default_text_search_config",
    "lc_monetary",
    "lc_numeric",
    "lc_time",
)
_GET_SETTINGS = """
    SELECT one.name, pg_catalog.current_setting(one.name)
      FROM pg_catalog.unnest(%(names)s::pg_catalog.text[]) AS one (name)
"""
_HINT = "Use refresh_mode = 'DIFFERENTIAL'."


def check_immediate(
    connection: Connection,
    compiled: Compiled,
    *,
    cdc_mode: CdcMode | None = None,
) -> None:
    """Refuse a stream table that its writers cannot maintain, and say which mode can."""
    if compiled.refusal is not None:
        raise compiled.refusal
    if compiled.follows_time:
        raise no_time(compiled)
    for function in compiled.binding.watchers.values():
        raise unsupported(_reads_tables(function), compiled.binding.query.sql)
    for one in compiled.binding.query.relations.values():
        if one.polled:
            raise UnsupportedSourceError(
                f'"{one.name}" has no triggers, so its changes cannot be followed at once',
                hint="Use refresh_mode = 'AUTO' or 'DIFFERENTIAL'.",
            )
    if cdc_mode is CdcMode.WAL:
        raise no_log()
    list_sources(connection, compiled)


def no_time(compiled: Compiled) -> UnsupportedQueryError:
    """Return the refusal of the current time: time passes while nobody writes."""
    refusal = time_refusal("under refresh_mode = 'IMMEDIATE'")
    refusal.hint = f"Rows would have to leave as time passes, when nobody writes. {_HINT}"
    return unsupported(refusal, compiled.binding.query.sql)


def _reads_tables(function: str) -> Refusal:
    """Return the refusal of a function whose tables would have to be followed too."""
    return Refusal(
        f"the function \"{function}\" under refresh_mode = 'IMMEDIATE', because it reads tables",
        function,
        hint=f"A change of those changes any row. {_HINT}",
    )


def no_log() -> SettingError:
    """Return the refusal of the log."""
    return SettingError(
        "refresh_mode IMMEDIATE follows changes by triggers, not by the log",
        hint=f"Leave cdc_mode out. {_HINT}",
    )


def list_sources(connection: Connection, compiled: Compiled) -> dict[int, Source]:
    """Describe the sources, or raise why statement triggers would miss their changes."""
    found = {}
    for relid, columns in compiled.captured_columns().items():
        source = get_source(connection, relid, columns)
        if source.by_row:
            raise UnsupportedSourceError(
                f'"{source.name}" is also written through a parent table or by logical'
                " replication, which fires no statement trigger",
                hint=f"Read the parent table instead, or use another mode. {_HINT}",
            )
        found[relid] = source
    return found


def make_blueprint(
    connection: Connection, stream_table: StreamTable, compiled: Compiled, max_rows: int
) -> Blueprint:
    """Gather what the functions of a stream table are made from."""
    settings: dict[str, str] = dict(
        connection.execute(_GET_SETTINGS, {"names": list(_SETTINGS)}).fetchall()
    )
    return Blueprint(
        stream_table.id,
        stream_table.relid,
        stream_table.name,
        compiled.columns,
        compiled.staged,
        compiled.known,
        list_sources(connection, compiled),
        compiled.captured_columns(),
        settings,
        max_rows,
        bool(compiled.binding.functions or compiled.binding.types),
        stream_table.has_outbox,
        find_unique_key(connection, compiled) if stream_table.has_outbox else None,
    )


def is_immediate(stream_table: StreamTable) -> bool:
    """Tell whether writers maintain a stream table."""
    return stream_table.refresh_mode is RefreshMode.IMMEDIATE
