"""Fill the state of a stage that is empty: at a first load, and when everything is built anew.

There is nothing to merge with, no row that was shown before, and no index has to be kept up row by
row: what ``merge`` and ``recompute`` do in five passes is one, and building the indexes over it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from psycopg import Connection

from pgtrickle.delta.cut import AggregateStage, RecomputeStage, StatefulStage
from pgtrickle.delta.reads import stage_changes
from pgtrickle.model.text.comparable import comparable
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.model.text.trusted import trusted
from pgtrickle.storage.merge import AggregateMerge, check_counts
from pgtrickle.storage.recompute import RecomputeMerge, keep_input
from pgtrickle.storage.state_tables import groups_table, tables_of, values_table

# From about this many rows, building an index anew is quicker than keeping it up.
_MANY_ROWS = 5_000


def state_is_empty(connection: Connection, stream_table_id: int, stage: StatefulStage) -> bool:
    """Tell whether no state table of a stage has a row."""
    found = [f"EXISTS (SELECT FROM {one.sql})" for one in tables_of(stream_table_id, stage)]
    [(full,)] = connection.execute(trusted(f"SELECT {' OR '.join(found)}")).fetchall()
    return not full


def empty_state(connection: Connection, stream_table_id: int, stage: StatefulStage) -> None:
    """Delete all rows of the state of a stage; whoever reads them goes on."""
    for one in tables_of(stream_table_id, stage):
        connection.execute(trusted(f"DELETE FROM {one.sql}"))


def fill_state(
    connection: Connection,
    stream_table_id: int,
    stage: StatefulStage,
    staged: str,
    *,
    grouped: bool,
) -> int:
    """Write the state of a stage from all its rows; return the number of rows that it shows.

    ``grouped``: PostgreSQL has grouped the staged rows.
    """
    changes = stage_changes(stage.name)
    if isinstance(stage, RecomputeStage):
        recompute = RecomputeMerge(stream_table_id, stage, staged, staged, "", changes)
        return _fill_recompute(connection, recompute)
    # As if all groups, and no others, had been touched.
    groups = groups_table(stream_table_id, stage.name).sql
    merge = AggregateMerge(stream_table_id, stage, staged, groups, changes)
    return _fill_aggregate(connection, stream_table_id, stage, merge, staged, grouped=grouped)


def copy_state(connection: Connection, stage: str, rows: str) -> None:
    """Put the rows that a stage shows where an engine finds its changes otherwise."""
    changes = stage_changes(stage)
    connection.execute(trusted(f"DROP TABLE IF EXISTS pg_temp.{changes}"))
    connection.execute(trusted(f"CREATE TEMPORARY TABLE {changes} ON COMMIT DROP AS\n{rows}"))


def _fill_aggregate(
    connection: Connection,
    stream_table_id: int,
    stage: AggregateStage,
    merge: AggregateMerge,
    staged: str,
    *,
    grouped: bool,
) -> int:
    layout = stage.layout
    single = grouped and not layout.values and bool(layout.keys)
    single = single and all(comparable(key.name, key.type) == key.name for key in layout.keys)
    if not single:
        connection.execute(trusted(f"ANALYZE {staged}"))
    for values in layout.values:
        table = values_table(stream_table_id, stage.name, values.name)
        with indexed_afterwards(connection, table, staged):
            connection.execute(trusted(merge.merge_values(values)))
        connection.execute(trusted(f"ANALYZE {table.sql}"))
    with indexed_afterwards(connection, merge.groups, staged):
        rows = connection.execute(trusted(merge.fill_groups(grouped=single))).rowcount
    check_counts(connection, merge)
    connection.execute(trusted(f"ANALYZE {merge.groups.sql}"))
    return rows


def _fill_recompute(connection: Connection, merge: RecomputeMerge) -> int:
    connection.execute(trusted(f"ANALYZE {merge.net_table}"))
    with indexed_afterwards(connection, merge.input, merge.net_table):
        keep_input(connection, merge)
    connection.execute(trusted(f"ANALYZE {merge.input.sql}"))
    with indexed_afterwards(connection, merge.result, merge.net_table):
        rows = connection.execute(trusted(merge.fill_result())).rowcount
    connection.execute(trusted(f"ANALYZE {merge.result.sql}"))
    return rows


_INDEXES = """
    SELECT i.indexrelid::pg_catalog.regclass::pg_catalog.text,
           pg_catalog.pg_get_indexdef(i.indexrelid)
      FROM pg_catalog.pg_index AS i
     WHERE i.indrelid = pg_catalog.to_regclass(%(name)s)
"""


@contextmanager
def indexed_afterwards(connection: Connection, table: QualifiedName, rows: str) -> Iterator[None]:
    """Build the indexes of a table of ours after the block, if many rows go into it."""
    [(number,)] = connection.execute(
        trusted(f"SELECT count(*) FROM (SELECT FROM {rows} LIMIT {_MANY_ROWS}) AS enough")
    ).fetchall()
    if number < _MANY_ROWS:
        yield
        return
    found = connection.execute(_INDEXES, {"name": table.sql}).fetchall()
    for name, _ in found:
        connection.execute(trusted(f"DROP INDEX {name}"))
    yield
    for _, definition in found:
        connection.execute(trusted(definition))
