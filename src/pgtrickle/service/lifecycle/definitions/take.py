"""``dump_definitions``: write every definition of a database, all of one snapshot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from psycopg import Connection

from pgtrickle.catalog.definitions import describe_database, write_dump
from pgtrickle.catalog.stream_tables import list_stream_tables
from pgtrickle.errors import SettingError
from pgtrickle.model.definitions.dump import FORM, STREAM_TABLE, Described, WrittenDump
from pgtrickle.model.stream_table import RefreshMode
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.model.version import VERSION
from pgtrickle.options.stream_table import OPTIONS
from pgtrickle.service.lifecycle.definitions.files import (
    file_name,
    new_directory,
    write_dump_files,
    write_scripts,
)
from pgtrickle.service.lifecycle.definitions.rows import write_rows
from pgtrickle.service.lifecycle.definitions.yaml_text import write_yaml
from pgtrickle.service.lifecycle.rename import follow_renames
from pgtrickle.service.runtime import Runtime
from pgtrickle.session import BEGIN_SNAPSHOT

SQL, YAML = "sql", "yaml"
_LAST_OF_HEAD, _DEFINITION = 4, 5  # the places of parts in the script
_ORDER_OF_ALL = (
    *("settings", "access", "lake_tables", "items"),
    *("gates", "watermarks", "watermark_groups", "refresh_groups"),
)
_ORDER_OF_ONE = ("kind", "name", "query", "definition", "search_path", *OPTIONS, "initialize")


def dump_definitions(
    runtime: Runtime,
    output: Path | None,
    *,
    form: str | None = None,
    per_table: bool = False,
    with_data: bool = False,
) -> WrittenDump | str:
    """Write a dump to a file or a directory; without one, return its text."""
    form = YAML if form is None and with_data else _read_form(output, form)
    if with_data and (form == SQL or output is None):
        raise SettingError(
            "a script has no rows", hint="Choose --format yaml, and a directory as --output."
        )
    if per_table and output is None:
        raise SettingError("several files need a directory", hint="Give one as --output.")
    split = per_table or with_data
    with runtime.connection() as connection:
        names = list_stream_tables(connection)
        if not connection.only_looks:  # the texts are to have the names of today
            follow_renames(runtime, [one.id for one in names])
        try:
            connection.execute(BEGIN_SNAPSHOT)
            if output is not None and split:
                new_directory(output)
            if form == SQL:
                return _write_sql(connection, output, split=split)
            return _write_yaml(connection, output, split=split, with_data=with_data)
        finally:
            if not connection.closed:
                connection.rollback()


def _read_form(output: Path | None, form: str | None) -> str:
    if form is None:
        return YAML if output is not None and output.suffix in {".yaml", ".yml"} else SQL
    if form not in {SQL, YAML}:
        raise SettingError(f'there is no format "{form}"', hint="Choose sql or yaml.")
    return form


def _write_sql(connection: Connection, output: Path | None, *, split: bool) -> WrittenDump | str:
    found = write_dump(connection)
    head = "".join(script for place, _, script in found if place <= _LAST_OF_HEAD)
    definitions = [(name, script) for place, name, script in found if place == _DEFINITION]
    tail = "".join(script for place, _, script in found if place > _DEFINITION)
    parts = [(None, head), *definitions, (None, tail)]
    if output is None:
        return "".join(script for _, script in parts)
    write_scripts(output, parts, split=split)
    named = [one.name.sql for one in list_stream_tables(connection)]
    return WrittenDump(str(output), SQL, _plain(named))


def _write_yaml(
    connection: Connection, output: Path | None, *, split: bool, with_data: bool
) -> WrittenDump | str:
    described, database, version = describe_database(connection)
    head = {
        "pgtrickle_dump": FORM,
        "package": VERSION,
        "postgresql": version,
        "database": database,
    }
    described = {key: described[key] for key in _ORDER_OF_ALL}
    described["items"] = [_in_order(item) for item in described["items"]]
    if output is None:
        return write_yaml({**head, **described, "complete": True})
    rows = _add_rows(connection, output, described) if with_data else None
    write_dump_files(output, described, head, split=split)
    tables = [one["name"] for one in described["items"] if one["kind"] == STREAM_TABLE]
    return WrittenDump(str(output), YAML, _plain(tables), rows)


def _in_order(item: Described) -> dict[str, Any]:
    """Put what readers look for first; what is NULL has its default."""
    keys = [*_ORDER_OF_ONE, *sorted(item.keys() - set(_ORDER_OF_ONE))]
    return {key: item[key] for key in keys if item.get(key) is not None}


def _add_rows(connection: Connection, output: Path, described: Mapping[str, Any]) -> int:
    """Write the rows of each stream table that a restoration can give them to."""
    total = 0
    in_circles = {one["name"] for one in described["items"] if one["kind"] == "placeholder"}
    for number, item in enumerate(described["items"], 1):
        if item["kind"] != STREAM_TABLE or not item["initialize"] or item["name"] in in_circles:
            continue
        if item["refresh_mode"] == RefreshMode.IMMEDIATE.value:
            continue  # writers add to its rows, so they must be those of its sources
        path = output / file_name(number, item["name"], "rows")
        written = write_rows(connection, QualifiedName.parse(item["name"]), path)
        item["rows"] = {
            "file": path.name,
            "rows": written.rows,
            "sha256": written.sha256,
            "data_timestamp": written.data_timestamp.isoformat(),
        }
        total += written.rows
    return total


def _plain(names: Iterable[str]) -> tuple[str, ...]:
    """Write names as they are written elsewhere in Python."""
    return tuple(str(QualifiedName.parse(one)) for one in names)
