"""Deliver a stream table to the lake: the difference where it is known, all rows where it is not.

Everything happens on the connection that writes the stream table, so that the caller's commit
shows both at once.  Where the catalog is in another database there are two, and the caller commits
both, one after the other.  Files are written first; only then is the catalog's head taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from psycopg import Connection

from pgtrickle.errors import LakeCatalogError, LakeSinkError, LakeWriteError
from pgtrickle.lake.aside import forget_aside, set_aside_difference
from pgtrickle.lake.catalog import LakeCatalog, create_catalog, directory_name, find_catalog
from pgtrickle.lake.columns import LakeColumn
from pgtrickle.lake.commit import Commit, begin_commit
from pgtrickle.lake.delete_rows import delete_gone, flush_deletes, gone_is_live
from pgtrickle.lake.ends import Ends, show_gone
from pgtrickle.lake.partition import Spec, parse_partition_by, partition_spec
from pgtrickle.lake.roots import PRIVATE, Roots, is_usable, same_place
from pgtrickle.lake.row_map import (
    RowMap,
    clear_row_map,
    create_row_map,
    insert_runs,
    new_bytes,
    pair_updates,
)
from pgtrickle.lake.session import fixed_settings
from pgtrickle.lake.shape import all_fit, choose_columns, find_columns
from pgtrickle.lake.tables import (
    LakeTable,
    find_schema,
    find_table,
    find_tag,
    foreign_changes,
)
from pgtrickle.lake.turns import AUTHOR
from pgtrickle.lake.views import put_view
from pgtrickle.lake.write_rows import Written, write_all, write_new
from pgtrickle.model.lake_sink import LakeSink
from pgtrickle.model.names import QualifiedName
from pgtrickle.model.sql_type import Column

WriteAll = Callable[[Connection, QualifiedName, Sequence[LakeColumn], Written, Spec], None]
WriteNew = Callable[[Connection, QualifiedName, Sequence[LakeColumn], RowMap, Written, Spec], None]

_MADE_FOR = "pgtrickle_stream_table"
_MADE_IN = "pgtrickle_database"  # of tables whose catalog is in another


@dataclass(frozen=True, slots=True)
class Provenance:
    """What a snapshot says of where it came from."""

    message: str
    extra_info: str  # JSON


@dataclass(frozen=True, slots=True)
class Delivered:
    """What a delivery wrote; ``sink`` is how far the sink is now.

    Files of the lake from ``first_file_id`` on are its own, and so are those at ``paths``.
    """

    sink: LakeSink
    rows: int
    deleted: int
    size: int
    loaded: bool
    first_file_id: int
    paths: tuple[str, ...]


class DeliveryTooLargeError(Exception):
    """What must be written is more than the caller wants to wait for here."""

    def __init__(self, *, all_rows: bool) -> None:
        super().__init__()
        self.all_rows = all_rows  # or what is new alone


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
    """How rows of a stream table are written: all of them, or those that are new.

    More than ``largest`` bytes of them raise DeliveryTooLargeError.
    """

    write: WriteAll = write_all
    write_new: WriteNew = pair_and_write_new
    largest: int | None = None
    lasting: bool = False  # whether others are to see that it goes on
    file_mode: int = PRIVATE


_IN_PLACE = Loading()


def find_sink_catalog(
    connection: Connection, sink: LakeSink, file_mode: int = PRIVATE
) -> LakeCatalog | None:
    """Return the catalog of a sink, whose files lie where this database has it on record.

    A sink without such a record takes the catalog at its word, once.
    """
    catalog = find_catalog(connection, sink.catalog_schema, recorded=sink.data_path)
    if catalog is None:
        return None
    paths = dict.fromkeys((catalog.data_path, *sink.roots))
    return replace(catalog, roots=Roots(tuple(paths), file_mode))


def open_catalog(connection: Connection, sink: LakeSink, file_mode: int = PRIVATE) -> LakeCatalog:
    """Return the catalog of a sink; it is made where the sink says where its files are to lie."""
    if sink.sink_path is not None:
        check_path(sink.sink_path)
    catalog = find_sink_catalog(connection, sink, file_mode)
    if catalog is None:
        if sink.sink_path is None:
            raise LakeCatalogError(
                f'the schema "{sink.catalog_schema}" holds no DuckLake catalog',
                hint="Say where its files are to lie, with ducklake_sink_path, to make one.",
            )
        roots = Roots((sink.sink_path,), file_mode)
        catalog = create_catalog(connection, sink.catalog_schema, sink.sink_path, roots)
    check_path(catalog.data_path)
    return catalog


def check_free(ends: Ends, catalog: LakeCatalog, sink: LakeSink, table: QualifiedName) -> None:
    """Raise ST703 if the lake has a table of that name that was not made for this stream table."""
    stored = find_table(ends.lake, catalog, sink.lake_table)
    if stored is None:
        return
    owner = find_tag(ends.lake, catalog, stored.id, _MADE_IN)
    if owner != (_database(ends.local) if ends.apart else None):
        raise LakeSinkError(
            f'the lake table "{sink.lake_table}" was made for a stream table of another database',
            hint="Choose another name with ducklake_table. If nobody writes to it any more, drop it"
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
    """Raise ST703 for a path where files cannot be written."""
    if not is_usable(path):
        raise LakeSinkError(
            f'the path "{path}" cannot hold files of the lake',
            hint="Give the absolute path of a local directory, or s3://bucket/prefix.",
        )


def deliver(
    ends: Ends,
    sink: LakeSink,
    table: QualifiedName,
    columns: Sequence[Column],
    provenance: Provenance,
    loading: Loading = _IN_PLACE,
) -> Delivered | None:
    """Bring the lake up to the stream table; None if it is there already.

    The caller undoes everything in the database if this fails; files are taken away here.
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
    try:
        if known is not None and stored is not None:
            if nothing_new(ends.local, rows):
                return None
            delivered = _deliver_difference(
                ends, catalog, sink, stored, known, table, rows, written, provenance, loading
            )
            if delivered is not None:
                return delivered
            written.remove()
            written = Written(written.directory)
            stored = find_table(ends.lake, catalog, sink.lake_table)  # others may have dropped it
        return _load(
            ends, catalog, sink, stored, table, columns, rows, written, provenance, loading
        )
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
        f"SELECT NOT EXISTS (SELECT FROM {rows.new})"
        f" AND NOT EXISTS (SELECT FROM {rows.gone})".encode()
    ).fetchall()
    return bool(nothing)


def _deliver_difference(
    ends: Ends,
    catalog: LakeCatalog,
    sink: LakeSink,
    stored: LakeTable,
    columns: Sequence[LakeColumn],
    table: QualifiedName,
    rows: RowMap,
    written: Written,
    provenance: Provenance,
    loading: Loading,
) -> Delivered | None:
    """Deliver what is new and what is gone; None if others have changed the lake table."""
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
    ends.local.execute(f"DELETE FROM {rows.new}".encode())
    ends.local.execute(f"DELETE FROM {rows.gone}".encode())
    snapshot_id = _finish(commit, provenance)
    now = replace(sink, snapshot_id=snapshot_id)
    return _tell(now, written, first_file_id, deleted=deleted)


def own_author(ends: Ends) -> str:
    """Return whose snapshots need not be looked at, since this database wrote them.

    Nobody's, where the catalog is in another: the same author may write from a third one, or from
    this one before it was set back.
    """
    return "" if ends.apart else AUTHOR


def _load(
    ends: Ends,
    catalog: LakeCatalog,
    sink: LakeSink,
    stored: LakeTable | None,
    table: QualifiedName,
    columns: Sequence[Column],
    rows: RowMap,
    written: Written,
    provenance: Provenance,
    loading: Loading,
) -> Delivered:
    """Write all rows, in place of what the lake table holds now."""
    local = ends.local
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
        snapshot_id=_finish(commit, provenance),
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
    # Most tables answer for their rows: new ones are a part of them.
    return table_bytes(connection, table) > largest and new_bytes(connection, rows, table) > largest


def table_bytes(connection: Connection, table: QualifiedName) -> int:
    """Return how much room the rows of a table take."""
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
    """Return where the rows of a table are stored: while that is the same, so are their places.

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
    """Return what tells a database from all others, restored copies of it included."""
    [(database,)] = connection.execute(_DATABASE).fetchall()
    return str(database)
