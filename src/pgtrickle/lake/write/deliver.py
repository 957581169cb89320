"""Deliver a stream table to the lake: the difference if it is known, otherwise all rows.

Everything happens on the connection that writes the stream table, so that the caller's commit
publishes both at once.  If the catalog is in another database there are two connections, and the
caller commits both, one after the other.  Files are written first; only then is the catalog's head
taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from psycopg import Connection

from pgtrickle.errors import LakeCatalogError, LakeSinkError, LakeWriteError
from pgtrickle.lake.files.roots import PRIVATE, LakePath, LocalPath, Roots, is_usable, same_place
from pgtrickle.lake.files.stores import is_lost, try_out
from pgtrickle.lake.format.catalog import LakeCatalog, create_catalog, directory_name, find_catalog
from pgtrickle.lake.format.catalog_schema import where_else
from pgtrickle.lake.format.columns import LakeColumn
from pgtrickle.lake.format.partition import Spec, parse_partition_by, partition_spec
from pgtrickle.lake.format.table_layout import all_fit, choose_columns, find_columns
from pgtrickle.lake.format.tables import (
    LakeTable,
    find_schema,
    find_table,
    find_tag,
    foreign_changes,
    has_files,
)
from pgtrickle.lake.format.views import put_view
from pgtrickle.lake.write.commit import Commit, begin_commit
from pgtrickle.lake.write.commit_turns import AUTHOR
from pgtrickle.lake.write.delete_rows import delete_gone, flush_deletes, gone_is_live
from pgtrickle.lake.write.endpoints import Ends, show_gone
from pgtrickle.lake.write.row_map import (
    RowMap,
    clear_row_map,
    create_row_map,
    insert_runs,
    new_bytes,
    pair_updates,
)
from pgtrickle.lake.write.row_map_backup import forget_aside, set_aside_difference
from pgtrickle.lake.write.text_settings import fixed_settings
from pgtrickle.lake.write.write_rows import Written, write_all, write_new
from pgtrickle.model.lake.sink import LakeSink
from pgtrickle.model.sql_type import Column
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.model.text.trusted import trusted

WriteAll = Callable[[Connection, QualifiedName, Sequence[LakeColumn], Written, Spec], None]
WriteNew = Callable[[Connection, QualifiedName, Sequence[LakeColumn], RowMap, Written, Spec], None]

_MADE_FOR = "pgtrickle_stream_table"
_MADE_IN = "pgtrickle_database"  # tag of tables whose catalog is in another database


@dataclass(frozen=True, slots=True)
class Provenance:
    """The origin of a snapshot, as recorded in it."""

    message: str
    extra_info: str  # JSON


@dataclass(frozen=True, slots=True)
class Delivered:
    """The result of a delivery; ``sink`` is the new state of the sink.

    Files of the lake from ``first_file_id`` on belong to it, and so do those at ``paths``.
    """

    sink: LakeSink
    rows: int
    deleted: int
    size: int
    loaded: bool
    first_file_id: int
    paths: tuple[str, ...]


class DeliveryTooLargeError(Exception):
    """The rows to write exceed the caller's limit."""

    def __init__(self, *, all_rows: bool) -> None:
        super().__init__()
        self.all_rows = all_rows  # or only the new ones


def pair_and_write_new(
    connection: Connection,
    table: QualifiedName,
    columns: Sequence[LakeColumn],
    rows: RowMap,
    into: Written,
    spec: Spec,
) -> None:
    """Write the rows that the lake lacks, all in this transaction."""
    pair_updates(connection, rows)
    write_new(connection, table, columns, rows, into, spec)


@dataclass(frozen=True, slots=True)
class Loading:
    """How rows of a stream table are written: all of them, or the new ones.

    More than ``largest`` bytes of them raise DeliveryTooLargeError.
    """

    write: WriteAll = write_all
    write_new: WriteNew = pair_and_write_new
    largest: int | None = None
    lasting: bool = False  # whether others should see that it is in progress
    file_mode: int = PRIVATE


_IN_PLACE = Loading()


def find_sink_catalog(
    connection: Connection, sink: LakeSink, file_mode: int = PRIVATE
) -> LakeCatalog | None:
    """Return the catalog of a sink, whose files are in the recorded directory.

    A sink without such a record trusts the catalog's path, once.
    """
    catalog = find_catalog(connection, sink.catalog_schema, recorded=sink.data_path)
    if catalog is None:
        return None
    paths = dict.fromkeys((catalog.data_path, *sink.roots))
    return replace(catalog, roots=Roots(tuple(paths), file_mode))


def open_catalog(connection: Connection, sink: LakeSink, file_mode: int = PRIVATE) -> LakeCatalog:
    """Return the catalog of a sink; it is created if the sink names a path for its files."""
    if sink.sink_path is not None:
        check_path(sink.sink_path)
    catalog = find_sink_catalog(connection, sink, file_mode)
    if catalog is None:
        # A catalog that existed is not created again: it was moved, or its database is being
        # restored.
        if sink.sink_path is None or sink.data_path is not None:
            others = where_else(connection, "set ducklake_catalog_schema to it")
            raise LakeCatalogError(
                f'the schema "{sink.catalog_schema}" holds no DuckLake catalog',
                hint="Restore the catalog, or turn the sink off and on again to create one."
                if sink.data_path is not None
                else "Name a path for its files with ducklake_sink_path to create one."
                f" {others}".rstrip(),
            )
        roots = Roots((sink.sink_path,), file_mode)
        catalog = create_catalog(connection, sink.catalog_schema, sink.sink_path, roots)
    check_path(catalog.data_path)
    return catalog


def check_free(ends: Ends, catalog: LakeCatalog, sink: LakeSink, table: QualifiedName) -> None:
    """Raise ST703 if the lake has a table of that name that belongs to another owner."""
    stored = find_table(ends.lake, catalog, sink.lake_table)
    if stored is None:
        return
    owner = find_tag(ends.lake, catalog, stored.id, _MADE_IN)
    if owner != (_database(ends.local) if ends.apart else None):
        raise LakeSinkError(
            f'the lake table "{sink.lake_table}" was made for a stream table of another database',
            hint="Choose another name with ducklake_table. If it is no longer written, drop it"
            " in DuckDB.",
        )
    if stored.id == sink.table_id:
        return
    if find_tag(ends.lake, catalog, stored.id, _MADE_FOR) != str(table):
        raise LakeSinkError(
            f'the lake has a table "{sink.lake_table}" already',
            hint="Choose another name with ducklake_table, or drop it in DuckDB.",
        )


def check_path(path: str) -> None:
    """Raise ST703 for an unusable path."""
    if not is_usable(path):
        raise LakeSinkError(
            f'the path "{path}" cannot hold files of the lake',
            hint="Give the absolute path of a local directory, or s3://bucket/prefix.",
        )


def check_writable(ends: Ends, catalog: LakeCatalog, sink: LakeSink) -> None:
    """Write a file to the directory of a sink, and remove it; raises if that fails."""
    stored = find_table(ends.lake, catalog, sink.lake_table)
    directory = catalog.place(_directory(ends.lake, catalog, sink, stored))
    _check_there(ends.lake, catalog, stored, directory)
    try_out(directory)


def _check_there(
    connection: Connection, catalog: LakeCatalog, stored: LakeTable | None, directory: LakePath
) -> None:
    """Raise ST702 if a directory with files of the lake is missing.

    It is not created again: it may have been moved or not mounted, and may come back.
    """
    if not is_lost(directory):
        return
    lost = directory if stored is not None and has_files(connection, catalog, stored.id) else None
    if isinstance(directory, LocalPath) and same_place(directory.root, catalog.data_path):
        root = LocalPath(directory.root, "")
        lost = root if is_lost(root) and has_files(connection, catalog) else lost
    if lost is not None:
        raise LakeWriteError(
            f'the directory "{lost}" with files of the lake is missing',
            hint="Mount it, or restore it. If its files are lost, drop the lake table in DuckDB,"
            " so that all rows are written again.",
        )


def deliver(
    ends: Ends,
    sink: LakeSink,
    table: QualifiedName,
    columns: Sequence[Column],
    provenance: Provenance,
    loading: Loading = _IN_PLACE,
) -> Delivered | None:
    """Bring the lake up to date with the stream table; None if it already is.

    The caller undoes everything in the database if this fails; files are removed here.
    """
    with fixed_settings(ends.local):
        return _deliver(ends, sink, table, columns, provenance, loading)


def _deliver(
    ends: Ends,
    sink: LakeSink,
    table: QualifiedName,
    columns: Sequence[Column],
    provenance: Provenance,
    loading: Loading,
) -> Delivered | None:
    rows = RowMap(sink.stream_table_id)
    catalog = open_catalog(ends.lake, sink, loading.file_mode)
    sink = replace(sink, data_path=catalog.data_path)
    stored = find_table(ends.lake, catalog, sink.lake_table)
    known = _find_known_columns(ends.local, sink, table, columns, stored, rows)
    written = Written(catalog.place(_directory(ends.lake, catalog, sink, stored)))
    _check_there(ends.lake, catalog, stored, written.directory)
    task = _Task(ends, catalog, sink, table, rows, provenance, loading)
    try:
        if known is not None and stored is not None:
            if nothing_new(ends.local, rows):
                return None
            delivered = _deliver_difference(task, stored, known, written)
            if delivered is not None:
                return delivered
            written.remove()
            written = Written(written.directory)
            stored = find_table(ends.lake, catalog, sink.lake_table)  # others may have dropped it
        return _load(task, stored, columns, written)
    except BaseException:
        written.remove()
        raise


def _find_known_columns(
    connection: Connection,
    sink: LakeSink,
    table: QualifiedName,
    columns: Sequence[Column],
    stored: LakeTable | None,
    rows: RowMap,
) -> tuple[LakeColumn, ...] | None:
    """Return the columns of the lake table if a difference can be delivered to it."""
    if sink.needs_load or stored is None or stored.id != sink.table_id:
        return None
    if _home(connection, table) != sink.home:
        return None
    found = find_columns(stored, columns)
    if found is not None and _spec(sink, found) != stored.partition:
        return None
    new = f"(SELECT t.* FROM {rows.new} AS n JOIN {table.sql} AS t ON t.ctid = n.tid) AS new"
    return found if found is not None and all_fit(connection, found, new) else None


def nothing_new(connection: Connection, rows: RowMap) -> bool:
    """Tell whether the lake has every row, as far as the row map knows."""
    [(nothing,)] = connection.execute(
        trusted(
            f"SELECT NOT EXISTS (SELECT FROM {rows.new}) AND NOT EXISTS (SELECT FROM {rows.gone})"
        )
    ).fetchall()
    return bool(nothing)


@dataclass(frozen=True, slots=True)
class _Task:
    """One delivery: of which table, to which lake, and how."""

    ends: Ends
    catalog: LakeCatalog
    sink: LakeSink
    table: QualifiedName
    rows: RowMap
    provenance: Provenance
    loading: Loading


def _deliver_difference(
    task: _Task, stored: LakeTable, columns: Sequence[LakeColumn], written: Written
) -> Delivered | None:
    """Deliver new and deleted rows; None if other clients have changed the lake table."""
    ends, catalog, sink, table = task.ends, task.catalog, task.sink, task.table
    rows, loading = task.rows, task.loading
    if loading.largest is not None and is_large(ends.local, rows, table, loading.largest):
        raise DeliveryTooLargeError(all_rows=False)
    loading.write_new(ends.local, table, columns, rows, written, stored.partition)
    commit = begin_commit(ends.lake, catalog)
    first_file_id = commit.next_file_id
    after = sink.snapshot_id or 0
    others = foreign_changes(ends.lake, catalog, stored.id, after=after, author=own_author(ends))
    gone = show_gone(ends, rows)
    if others or not gone_is_live(ends.lake, catalog, stored.id, gone):
        return None
    deleted = delete_gone(commit, stored, gone, written)
    _register(commit, stored.id, ends.local, rows, written, stored.partition_id)
    if ends.apart:
        set_aside_difference(ends.local, rows)
    ends.local.execute(trusted(f"DELETE FROM {rows.new}"))
    ends.local.execute(trusted(f"DELETE FROM {rows.gone}"))
    snapshot_id = _finish(commit, task.provenance)
    now = replace(sink, snapshot_id=snapshot_id)
    return _tell(now, written, first_file_id, deleted=deleted)


def own_author(ends: Ends) -> str:
    """Return the author whose snapshots need no check, since this database wrote them.

    None, if the catalog is in another database: the same author may write from a third one, or from
    this one before it was set back.
    """
    return "" if ends.apart else AUTHOR


def _load(
    task: _Task, stored: LakeTable | None, columns: Sequence[Column], written: Written
) -> Delivered:
    """Write all rows, replacing the contents of the lake table."""
    ends, catalog, sink, table = task.ends, task.catalog, task.sink, task.table
    rows, loading, local = task.rows, task.loading, ends.local
    if loading.largest is not None and table_bytes(local, table) > loading.largest:
        raise DeliveryTooLargeError(all_rows=True)
    check_free(ends, catalog, sink, table)
    create_row_map(local, rows)
    clear_row_map(local, rows)
    if ends.apart:
        forget_aside(local, rows)
    first = 1 if stored is None else stored.last_column_id + 1
    chosen = choose_columns(local, columns, table.sql, first)
    if stored is not None:
        same = find_columns(stored, columns)
        if same is not None and all_fit(local, same, table.sql):
            chosen = same
    spec = _spec(sink, chosen)
    loading.write(local, table, chosen, written, spec)
    commit = begin_commit(ends.lake, catalog)
    first_file_id = commit.next_file_id
    if find_table(ends.lake, catalog, sink.lake_table) != stored:
        raise LakeWriteError(
            f'the lake table "{sink.lake_table}" was created, altered or dropped meanwhile',
            hint="Deliver again.",
        )
    if stored is None:
        table_id = _create_table(commit, ends, sink, table, chosen)
    else:
        table_id = stored.id
        if [(c.id, c.type) for c in chosen] != [(c.id, c.type) for c in (same or ())]:
            commit.replace_columns(table_id, chosen)
        flush_deletes(commit, stored, written)
        commit.end_data_files(table_id)
        commit.end_inlined_rows(table_id)
    partition_id = None if stored is None else stored.partition_id
    if spec != (() if stored is None else stored.partition):
        partition_id = commit.partition_table(table_id, spec)
    _register(commit, table_id, local, rows, written, partition_id if spec else None)
    view_id = put_view(commit, sink, table, chosen)
    now = replace(
        sink,
        table_id=table_id,
        view_id=view_id,
        snapshot_id=_finish(commit, task.provenance),
        home=_home(local, table),
        needs_load=False,
    )
    return _tell(now, written, first_file_id, loaded=True)


def _create_table(
    commit: Commit,
    ends: Ends,
    sink: LakeSink,
    table: QualifiedName,
    columns: Sequence[LakeColumn],
) -> int:
    name = sink.lake_table
    found = find_schema(commit.connection, commit.catalog, name.schema)
    schema_id = commit.create_schema(name.schema) if found is None else found[0]
    path, relative = _table_path(commit.catalog, sink)
    table_id = commit.create_table(schema_id, name, columns, path, relative=relative)
    commit.tag(table_id, _MADE_FOR, str(table))
    if ends.apart:
        commit.tag(table_id, _MADE_IN, _database(ends.local))
    return table_id


def _table_path(catalog: LakeCatalog, sink: LakeSink) -> tuple[str, bool]:
    """Return the path of a new table, and whether it is below that of its schema."""
    own = directory_name(sink.lake_table.name)
    if sink.sink_path is None or same_place(sink.sink_path, catalog.data_path):
        return own, True
    schema = directory_name(sink.lake_table.schema)
    return f"{sink.sink_path.rstrip('/')}/{schema}{own}", False


def _directory(
    connection: Connection, catalog: LakeCatalog, sink: LakeSink, stored: LakeTable | None
) -> str:
    if stored is not None:
        return stored.directory
    path, relative = _table_path(catalog, sink)
    if not relative:
        return path
    found = find_schema(connection, catalog, sink.lake_table.schema)
    new = f"{catalog.data_path}{directory_name(sink.lake_table.schema)}"
    parent = new if found is None else found[1]
    return parent + path


def _spec(sink: LakeSink, columns: Sequence[LakeColumn]) -> Spec:
    if sink.partition_by is None:
        return ()
    return partition_spec(parse_partition_by(sink.partition_by), columns)


def _register(
    commit: Commit,
    table_id: int,
    local: Connection,
    rows: RowMap,
    written: Written,
    partition_id: int | None,
) -> None:
    files = [file for file, _ in written.files]
    placed = commit.add_data_files(table_id, files, partition_id)
    for (file_id, row_id), (_, runs) in zip(placed, written.files, strict=True):
        insert_runs(local, rows, file_id, row_id, runs)


def _finish(commit: Commit, provenance: Provenance) -> int:
    return commit.finish(
        author=AUTHOR, message=provenance.message, extra_info=provenance.extra_info
    )


def _tell(
    sink: LakeSink, written: Written, first_file_id: int, *, deleted: int = 0, loaded: bool = False
) -> Delivered:
    paths = tuple(str(path) for path in written.paths)
    return Delivered(sink, written.rows, deleted, written.size, loaded, first_file_id, paths)


def is_large(connection: Connection, rows: RowMap, table: QualifiedName, largest: int) -> bool:
    """Tell whether the new rows of a table take more than so many bytes."""
    # The size of the whole table usually decides: new rows are a part of it.
    return table_bytes(connection, table) > largest and new_bytes(connection, rows, table) > largest


def table_bytes(connection: Connection, table: QualifiedName) -> int:
    """Return the size of a table's rows."""
    [(size,)] = connection.execute(
        "SELECT pg_catalog.pg_relation_size(%s::pg_catalog.regclass)", [table.sql]
    ).fetchall()
    return int(size)


_HOME = """
    SELECT pg_catalog.format('%%s/%%s/%%s', y.system_identifier, d.oid,
                             pg_catalog.pg_relation_filenode(%(table)s::pg_catalog.regclass))
      FROM pg_catalog.pg_control_system() AS y, pg_catalog.pg_database AS d
     WHERE d.datname = pg_catalog.current_database()
"""


def _home(connection: Connection, table: QualifiedName) -> str:
    """Return an id of the table's storage: while it is the same, so are the places of rows.

    A restored dump may give a file the same number by chance, but not in the same database.
    """
    [(home,)] = connection.execute(_HOME, {"table": table.sql}).fetchall()
    return str(home)


_DATABASE = """
    SELECT pg_catalog.format('%s/%s', y.system_identifier, d.oid)
      FROM pg_catalog.pg_control_system() AS y, pg_catalog.pg_database AS d
     WHERE d.datname = pg_catalog.current_database()
"""


def _database(connection: Connection) -> str:
    """Return an id that distinguishes a database from all others, including restored copies."""
    [(database,)] = connection.execute(_DATABASE).fetchall()
    return str(database)
