"""Write the stream tables of a database as the files of a project."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pgtrickle.catalog.definitions import describe_database
from pgtrickle.catalog.stream_tables import list_stream_tables
from pgtrickle.errors import SettingError
from pgtrickle.model.definitions.dump import STREAM_TABLE, VIEW, Described
from pgtrickle.model.projects.findings import WrittenProject
from pgtrickle.model.text.names import QualifiedName, plain_identifier
from pgtrickle.options.changes import read_options
from pgtrickle.options.stream_table import OPTIONS, StreamTableOptions
from pgtrickle.service.lifecycle.definitions.files import write_text
from pgtrickle.service.lifecycle.definitions.yaml_text import write_yaml
from pgtrickle.service.projects.files.folder import PROJECT_FILE
from pgtrickle.service.projects.files.load import load_project
from pgtrickle.service.projects.files.refs import write_refs
from pgtrickle.service.projects.files.shape import KEPT
from pgtrickle.service.runtime import Runtime

_FOLDER = "stream_tables"
_PLAIN = re.compile(r"[a-z_][a-z0-9_]{0,99}", re.ASCII)


def import_project(
    runtime: Runtime, path: Path, project: str, names: Sequence[QualifiedName] = ()
) -> WrittenProject:
    """Write all stream tables, or those of these names, into a folder that is no project yet."""
    if (path / PROJECT_FILE).exists():
        raise SettingError(
            f"{path} is a project already",
            hint="Give a new folder, and take over from its files what you want.",
        )
    with runtime.connection() as connection:
        described, _, _ = describe_database(connection)
        circles = {one.name for one in list_stream_tables(connection) if one.circle is not None}
    items = {
        QualifiedName.parse(one["name"]): one
        for one in described["items"]
        if one["kind"] == STREAM_TABLE
    }
    for name in names:
        if name not in items:
            raise SettingError(f'there is no stream table "{name}"', hint="See: pgtrickle list.")
    chosen, notes = {}, []
    for name, item in items.items():
        if names and name not in names:
            continue
        if name in circles:
            notes.append(f"{name} is left out: it forms a circle, which a project cannot have")
        else:
            chosen[name] = item
    notes += [
        f"the view {QualifiedName.parse(one['name'])} reads stream tables: make it yourself"
        for one in described["items"]
        if one["kind"] == VIEW
    ]
    files = _write(path, project, chosen)
    load_project(path)  # what was written can be read
    return WrittenProject(str(path), files, tuple(notes))


def _write(path: Path, project: str, items: Mapping[QualifiedName, Described]) -> tuple[str, ...]:
    files: dict[str, str] = {}
    for name, item in items.items():
        file, said = _place(name, files)
        said |= _describe(item)
        earlier = [one for one in items if one != name]
        query = write_refs(item["query"], earlier, _schemas(item["search_path"]))
        _add_dependencies(said, query, name, item, items)
        front = f"---\n{write_yaml(said)}---\n" if said else ""
        files[file] = f"{front}{query.strip()}\n"
    folder = path / _FOLDER
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingError(
            f"{folder} cannot be made: {error.strerror}", hint="Choose another folder."
        ) from error
    taken = [one for one in files if (folder / one).exists()]
    if taken:
        raise SettingError(
            f"{folder / taken[0]} exists already", hint="Give a folder without files of SQL."
        )
    for file, text in files.items():
        write_text(folder / file, text)
    # Last: without it, the folder is no project.
    write_text(path / PROJECT_FILE, write_yaml({"project": project}))
    return (PROJECT_FILE, *(f"{_FOLDER}/{one}" for one in files))


def _place(name: QualifiedName, files: Mapping[str, str]) -> tuple[str, dict[str, Any]]:
    """Return a file of its own for a stream table, and its name if the file cannot have it."""
    plain = _PLAIN.fullmatch(name.name) is not None
    word = name.name if plain else re.sub(r"[^A-Za-z0-9]+", "_", name.name).strip("_")[:60]
    file, number = f"{word or 'unnamed'}.sql", 1
    known = {one.casefold() for one in files}
    said: dict[str, Any] = {} if plain else {"name": plain_identifier(name.name)}
    if name.schema != "public":
        said["schema"] = name.schema
    while file.casefold() in known:
        number += 1
        file = f"{word}_{number}.sql"
        said["name"] = plain_identifier(name.name)
    return file, said


def _describe(item: Described) -> dict[str, Any]:
    """Return what stands above the query: all that a new stream table does not have by itself."""
    options, usual = read_options(item), StreamTableOptions()
    said: dict[str, Any] = {
        name: item[name]
        for name in KEPT
        if item.get(name) is not None and options.value(name) != usual.value(name)
    }
    for name in KEPT:  # those of a sink belong together
        if OPTIONS[name].sink and said.get("sink") and item.get(name) is not None:
            said[name] = item[name]
    if not item["initialize"]:
        said["initialize"] = False
    if item.get("sla_s") is not None:
        said["sla"] = f"{item['sla_s']:g}s"
    said["search_path"] = item["search_path"]
    table = dict(item["table"])
    if "comment" in table:
        said["description"] = table.pop("comment")
    if "column_comments" in table:
        said["columns"] = {one["column"]: one["comment"] for one in table.pop("column_comments")}
    if table:
        said["table"] = table
    return said


def _add_dependencies(
    said: dict[str, Any],
    query: str,
    name: QualifiedName,
    item: Described,
    items: Mapping[QualifiedName, Described],
) -> None:
    """Name the stream tables that the query reads and does not name, as through a view."""
    sources = {QualifiedName.parse(one) for one in item["sources"]} & items.keys() - {name}
    unsaid = [str(one) for one in sorted(sources) if f"ref('{one}')" not in query]
    if unsaid:
        said["depends_on"] = unsaid


def _schemas(search_path: str) -> list[str]:
    found = re.findall(r'"((?:[^"]|"")*)"|([^\s,"]+)', search_path)
    return [quoted.replace('""', '"') or plain for quoted, plain in found]
