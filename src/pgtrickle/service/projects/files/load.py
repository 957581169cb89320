"""Read the files of a project, resolve the names in them, and put them in order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter
from pathlib import Path, PurePosixPath
from typing import Any

from pgtrickle.errors import ProjectFileError, TrickleError
from pgtrickle.model.projects.project import REPLACE, Project, ProjectTable
from pgtrickle.model.scheduling.service_level import parse_sla
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.options.changes import read_options
from pgtrickle.service.lifecycle.definitions.yaml_text import parse_yaml
from pgtrickle.service.projects.files.folder import PROJECT_FILE, Folder
from pgtrickle.service.projects.files.read_tests import read_tests
from pgtrickle.service.projects.files.shape import FRONT_MATTER, KEPT, PROJECT, check_shape
from pgtrickle.service.projects.files.template import Words, put_in, render
from pgtrickle.service.projects.files.variables import Variables

_FENCE = "---"
_FOLDER = "stream_tables"
_NO_PREFIX = "default"  # the target of a project without targets


@dataclass(frozen=True, slots=True)
class _Written:
    """One stream table as it is written, before names and values are in place."""

    file: str
    name: str
    said: Mapping[str, Any]
    query: str


@dataclass(slots=True)
class _Scope:
    """What the words of the files mean, for one target."""

    schema: str
    prefix: str
    schemas: Mapping[str, str]  # of sources, by their names in the files
    variables: Variables
    names: dict[QualifiedName, QualifiedName]  # of the stream tables: as written, in the database

    def name(self, written: _Written) -> QualifiedName:
        """Return the name of a stream table as its file says it, without the prefix."""
        return QualifiedName.parse(written.name, written.said.get("schema", self.schema))

    def in_database(self, name: QualifiedName) -> QualifiedName:
        return QualifiedName.parse(
            QualifiedName(f"{self.prefix}{name.schema}", name.name).sql  # not longer than allowed
        )

    def ref(self, text: str, file: str) -> QualifiedName:
        """Return what ``ref`` means: a stream table of the project."""
        wanted = QualifiedName.parse(text, self.schema)
        if wanted not in self.names:
            raise ProjectFileError(
                f'{file}: the project has no stream table "{wanted}"',
                hint="ref() names a stream table of the project; other tables are sources: write"
                " their names, or source('schema.name').",
            )
        return self.names[wanted]

    def source(self, text: str) -> QualifiedName:
        """Return what ``source`` means: a table whose schema the target may replace."""
        name = QualifiedName.parse(text)
        return QualifiedName(self.schemas.get(name.schema, name.schema), name.name)


def load_project(
    path: Path, target: str | None = None, given: Mapping[str, Any] | None = None
) -> Project:
    """Read a project for one of its targets; raise ST506 if anything in it is wrong.

    ``given`` are values of variables, which go before those of the files.
    """
    folder = Folder(path)
    said = _read_yaml(folder.read(PROJECT_FILE), PROJECT_FILE)
    check_shape(said, PROJECT, PROJECT_FILE)
    chosen, facts = _choose_target(said.get("targets", {}), target)
    variables = Variables.read(
        said.get("variables", {}), facts.get("variables", {}), given or {}, PROJECT_FILE
    )
    scope = _Scope(
        said.get("schema", "public"),
        facts.get("schema_prefix", ""),
        facts.get("sources", {}),
        variables,
        {},
    )
    defaults = said.get("defaults", {})
    written = []
    for one in _list_written(folder, said):
        full = put_in({**defaults, **one.said}, variables.get)
        check_shape(full, FRONT_MATTER, one.file)  # with the values of variables, now
        assert isinstance(full, dict)  # noqa: S101 - for the type checker
        if full.get("enabled", True):
            written.append(replace(one, said=full))
    for one in written:
        with in_file(one.file):
            name = scope.name(one)
            named = scope.in_database(name)
        if name in scope.names:
            raise ProjectFileError(
                f'{one.file}: the project has two stream tables "{name}"',
                hint="Say another name or schema in one of them.",
            )
        scope.names[name] = named
    tables = []
    for one in written:
        with in_file(one.file):
            tables.append(_read_table(one, scope))
    return Project(said["project"], str(path), chosen, tuple(_in_order(tables)))


@contextmanager
def in_file(file: str) -> Iterator[None]:
    """Let an error of a block say in which file its cause is."""
    try:
        yield
    except ProjectFileError:
        raise
    except TrickleError as error:
        message = f"{file}: {error}"
        raise ProjectFileError(message, detail=error.detail, hint=error.hint) from error


def rendered_for(table: ProjectTable, names: Mapping[QualifiedName, QualifiedName]) -> str:
    """Return the query of a stream table with other names for some that it reads."""
    query = table.query
    for name in table.refs:
        if name in names:
            query = query.replace(name.sql, names[name].sql)
    return query


def _choose_target(
    targets: Mapping[str, Mapping[str, Any]], wanted: str | None
) -> tuple[str, Mapping[str, Any]]:
    if not targets and wanted in {None, _NO_PREFIX}:
        return _NO_PREFIX, {}
    if wanted is not None:
        if wanted not in targets:
            known = ", ".join(targets) or _NO_PREFIX
            raise ProjectFileError(
                f'{PROJECT_FILE} has no target "{wanted}"', hint=f"Choose one of: {known}."
            )
        return wanted, targets[wanted]
    usual = [name for name, facts in targets.items() if facts.get("default")]
    if len(targets) == 1:
        usual = list(targets)
    if len(usual) != 1:
        raise ProjectFileError(
            f"{PROJECT_FILE} has several targets, and none was chosen",
            hint=f"Give --target with one of {', '.join(targets)}; or let one of them say"
            " default: true.",
        )
    return usual[0], targets[usual[0]]


def _list_written(folder: Folder, said: Mapping[str, Any]) -> Iterator[_Written]:
    for name, facts in said.get("stream_tables", {}).items():
        rest = {key: one for key, one in facts.items() if key != "query"}
        yield _Written(PROJECT_FILE, facts.get("name", name), rest, facts["query"])
    files = [file for below in said.get("paths", [_FOLDER]) for file in folder.list_queries(below)]
    for file in dict.fromkeys(files):
        facts, query = _split(folder.read(file), file)
        yield _Written(file, facts.get("name", PurePosixPath(file).stem), facts, query)


def _split(text: str, file: str) -> tuple[Mapping[str, Any], str]:
    """Return what stands between the two lines of dashes, and the query below."""
    if not text.startswith(_FENCE + "\n"):
        return {}, text
    head, fence, query = text.removeprefix(_FENCE).partition(f"\n{_FENCE}\n")
    if not fence:
        raise ProjectFileError(
            f"{file} begins with {_FENCE} and has no line that ends this part",
            hint=f"Write {_FENCE} on a line of its own above the query.",
        )
    facts = _read_yaml(head, file) or {}
    check_shape(facts, FRONT_MATTER, file)
    assert isinstance(facts, dict)  # noqa: S101 - for the type checker
    return facts, query


def _read_yaml(text: str, file: str) -> Any:
    try:
        return parse_yaml(text)
    except ValueError as error:
        raise ProjectFileError(
            f"{file} cannot be read as YAML",
            detail=str(error),
            hint="Put texts with special characters between quotes; references (*) are not read.",
        ) from error


def _read_table(one: _Written, scope: _Scope) -> ProjectTable:
    said, refs = one.said, list[QualifiedName]()

    def ref(text: str) -> str:
        refs.append(scope.ref(text, one.file))
        return refs[-1].sql

    words = Words(ref, lambda text: scope.source(text).sql, scope.variables.get)
    query = render(one.query, words, one.file).strip().removesuffix(";").rstrip()
    if not query:
        raise ProjectFileError(f"{one.file} has no query", hint="Write a SELECT into it.")
    for text in said.get("depends_on", ()):
        ref(text)
    options = {name: said[name] for name in KEPT if said.get(name) is not None}
    checked = read_options({**options, "initialize": said.get("initialize")})
    sla_s = None if "sla" not in said else parse_sla(said["sla"])
    return ProjectTable(
        name=scope.names[scope.name(one)],
        file=one.file,
        template=one.query,
        query=query,
        refs=tuple(dict.fromkeys(refs)),
        options=options,
        initialize=checked.initialize,
        search_path=said.get("search_path"),
        table=_describe(said),
        sla_s=sla_s,
        on_change=said.get("on_change", REPLACE),
        allow_breaking=said.get("allow_breaking", False),
        owner=said.get("owner"),
        tags=tuple(said.get("tags", ())),
        tests=read_tests(
            said.get("tests", ()),
            one.file,
            lambda text: _relation(text, scope),
            lambda text: render(text, words, one.file),
        ),
    )


def _relation(text: str, scope: _Scope) -> QualifiedName:
    """Return a stream table of the project or, if there is none of this name, a source."""
    wanted = QualifiedName.parse(text, scope.schema)
    return scope.names.get(wanted) or scope.source(text)


def _describe(said: Mapping[str, Any]) -> dict[str, Any]:
    table = dict(said.get("table", {}))
    if "description" in said:
        table["comment"] = said["description"]
    if "columns" in said:
        table["column_comments"] = [
            {"column": column, "comment": text} for column, text in said["columns"].items()
        ]
    return table


def _in_order(tables: list[ProjectTable]) -> list[ProjectTable]:
    """Put each after those that it reads; of those that could be next, the first by name."""
    by_name = {one.name: one for one in tables}
    sorter = TopologicalSorter({one.name: one.refs for one in tables})
    try:
        sorter.prepare()
    except CycleError as error:
        circle = " -> ".join(str(one) for one in error.args[1])
        raise ProjectFileError(
            f"stream tables of the project read one another in a circle: {circle}",
            hint="A project has no circles; create them with pgtrickle create.",
        ) from error
    ordered: list[ProjectTable] = []
    while sorter.is_active():
        ready = sorted(sorter.get_ready())
        ordered += [by_name[one] for one in ready]
        sorter.done(*ready)
    return ordered
