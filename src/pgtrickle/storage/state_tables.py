"""State tables: the memory of the stateful operators of a stream table between refreshes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from psycopg import Connection

from pgtrickle.delta.cut import AggregateStage, RecomputeStage, StagedQuery, StatefulStage
from pgtrickle.delta.layout import COUNT, Layout, ValueTable
from pgtrickle.model.sql_type import BIGINT, Column, SqlType
from pgtrickle.model.text.comparable import comparable
from pgtrickle.model.text.names import QualifiedName, quote_identifier
from pgtrickle.model.text.trusted import trusted
from pgtrickle.storage.definitions import column_definitions
from pgtrickle.storage.identity import row_hash

_SCHEMA = "pgtrickle_state"
_SORTABLE = frozenset(
    {"int2", "int4", "int8", "numeric", "float4", "float8", "bool", "date", "time", "timetz",
     "timestamp", "timestamptz", "interval", "uuid", "oid", "inet", "cidr", "macaddr"}
)  # fmt: skip

_LIST = """
    SELECT c.relname
      FROM pg_catalog.pg_class AS c
     WHERE c.relnamespace = 'pgtrickle_state'::pg_catalog.regnamespace
       AND c.relkind = 'r' AND c.relname ~ %(pattern)s
"""


def groups_table(stream_table_id: int, stage: str) -> QualifiedName:
    """Name the table that holds one row per group.

    >>> str(groups_table(7, "group_1"))
    'pgtrickle_state.st_7_group_1'
    """
    return QualifiedName(_SCHEMA, f"st_{stream_table_id}_{stage}")


def values_table(stream_table_id: int, stage: str, values: str) -> QualifiedName:
    """Name the table that holds one row for each distinct value of an argument in a group."""
    return QualifiedName(_SCHEMA, f"st_{stream_table_id}_{stage}_{values}")


def input_table(stream_table_id: int, stage: str) -> QualifiedName:
    """Name the counted table that holds the input of a recomputed operator.

    >>> str(input_table(7, "part_1"))
    'pgtrickle_state.st_7_part_1_input'
    """
    return QualifiedName(_SCHEMA, f"st_{stream_table_id}_{stage}_input")


def result_table(stream_table_id: int, stage: str) -> QualifiedName:
    """Name the counted table that holds the result of a recomputed operator."""
    return QualifiedName(_SCHEMA, f"st_{stream_table_id}_{stage}")


def tables_of(stream_table_id: int, stage: StatefulStage) -> list[QualifiedName]:
    """Return the state tables of a stage."""
    if isinstance(stage, RecomputeStage):
        return [
            result_table(stream_table_id, stage.name),
            input_table(stream_table_id, stage.name),
        ]
    values = [values_table(stream_table_id, stage.name, one.name) for one in stage.layout.values]
    return [groups_table(stream_table_id, stage.name), *values]


def state_columns(layout: Layout) -> tuple[Column, ...]:
    """Return the columns of a groups table."""
    return (
        *layout.keys,
        Column(COUNT, BIGINT),
        *(Column(one.name, one.type) for one in layout.accumulators),
        *(Column(result.name, result.type) for result in layout.looked_up),
    )


def create_state_tables(
    connection: Connection,
    stream_table_id: int,
    query: StagedQuery,
    looked_up: Mapping[str, Collection[str]],
) -> None:
    """Create the empty state tables of a stream table, with the indexes that find a row.

    ``looked_up`` names, by stage, the columns by which later stages look rows up.
    """
    for stage in query.stateful:
        _create_stage(connection, stream_table_id, stage)
        stored, *_ = tables_of(stream_table_id, stage)
        for column in _stored_columns(stage):
            if column.name in looked_up.get(stage.name, ()) and _is_sortable(column.type):
                _index(connection, stored, quote_identifier(column.name))


def _stored_columns(stage: StatefulStage) -> tuple[Column, ...]:
    """Return the columns of a stage's result that are stored unchanged."""
    if isinstance(stage, RecomputeStage):
        return stage.operator.outputs
    looked_up = (Column(one.name, one.type) for one in stage.layout.looked_up)
    return (*stage.layout.keys, *looked_up)


def _is_sortable(type_: SqlType) -> bool:
    """Tell whether a B-tree can index a type: its values must not be too long for a page."""
    return type_.base in _SORTABLE


def _create_stage(connection: Connection, stream_table_id: int, stage: StatefulStage) -> None:
    if isinstance(stage, RecomputeStage):
        _create_recompute(connection, stream_table_id, stage)
        return
    for table, columns in _forms(stream_table_id, stage):
        _create(connection, table, columns)
    groups = groups_table(stream_table_id, stage.name)
    if stage.layout.keys:
        _index(connection, groups, row_hash(stage.layout.keys))
    for values in stage.layout.values:
        _create_values(connection, stream_table_id, stage, values)


def _create_recompute(connection: Connection, stream_table_id: int, stage: RecomputeStage) -> None:
    keys = stage.operator.keys
    for table, stored in _forms(stream_table_id, stage):
        columns = stored[:-1]
        _create(connection, table, stored)
        count = quote_identifier(COUNT)
        connection.execute(trusted(f"ALTER TABLE {table.sql} ADD CHECK ({count} > 0)"))
        _index(connection, table, row_hash(columns))
        if keys and keys != columns:
            _index(connection, table, row_hash(keys))


def _create_values(
    connection: Connection, stream_table_id: int, stage: AggregateStage, values: ValueTable
) -> None:
    table = values_table(stream_table_id, stage.name, values.name)
    keys = stage.layout.keys
    group = [row_hash(keys)] if keys else []
    if sorted_by_value(values):
        # Finds one value of a group, and the least and the greatest of them.
        _index(connection, table, ", ".join([*group, quote_identifier(values.columns[0].name)]))
        return
    if group:
        _index(connection, table, ", ".join(group))
    _index(connection, table, row_hash((*keys, *values.columns)))


def sorted_by_value(values: ValueTable) -> bool:
    """Tell whether a value table is indexed by its single value, which is never NULL."""
    (first, *others) = values.columns
    return values.skips_nulls and not others and comparable("v", first.type) == "v"


def lacks_state_tables(connection: Connection, stream_table_id: int, query: StagedQuery) -> bool:
    """Tell whether a state table is missing: another role or user dropped it."""
    found = connection.execute(_LIST, {"pattern": f"^st_{stream_table_id}_"}).fetchall()
    present = {name for (name,) in found}
    return any(
        table.name not in present
        for stage in query.stateful
        for table in tables_of(stream_table_id, stage)
    )


_COLUMNS = """
    SELECT c.relname, array_agg(a.attname::text ORDER BY a.attnum)
      FROM pg_catalog.pg_class AS c
      JOIN pg_catalog.pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0
                                       AND NOT a.attisdropped
     WHERE c.relnamespace = 'pgtrickle_state'::pg_catalog.regnamespace
       AND c.relkind = 'r' AND c.relname ~ %(pattern)s
     GROUP BY c.relname
"""


def has_other_form(connection: Connection, stream_table_id: int, query: StagedQuery) -> bool:
    """Tell whether the state has other tables or columns than this version keeps for the query."""
    found = connection.execute(_COLUMNS, {"pattern": f"^st_{stream_table_id}_"}).fetchall()
    stored: dict[str, list[str]] = dict(found)
    return bool(stored) and any(
        stored.get(table.name) != [column.name for column in columns]
        for stage in query.stateful
        for table, columns in _forms(stream_table_id, stage)
    )


def _forms(
    stream_table_id: int, stage: StatefulStage
) -> Iterator[tuple[QualifiedName, tuple[Column, ...]]]:
    """Yield the state tables of a stage with their columns."""
    count = Column(COUNT, BIGINT)
    if isinstance(stage, RecomputeStage):
        yield input_table(stream_table_id, stage.name), (*stage.inputs, count)
        yield result_table(stream_table_id, stage.name), (*stage.operator.outputs, count)
        return
    yield groups_table(stream_table_id, stage.name), state_columns(stage.layout)
    for values in stage.layout.values:
        table = values_table(stream_table_id, stage.name, values.name)
        yield table, (*stage.layout.keys, *values.columns, count)


def drop_state_tables(connection: Connection, stream_table_id: int) -> None:
    """Drop every state table of a stream table."""
    names = connection.execute(_LIST, {"pattern": f"^st_{stream_table_id}_"}).fetchall()
    for (name,) in names:
        connection.execute(trusted(f"DROP TABLE {QualifiedName(_SCHEMA, name).sql}"))


def rename_state_tables(connection: Connection, former_id: int, stream_table_id: int) -> None:
    """Give the state tables of one stream table to another."""
    former = f"st_{former_id}_"
    for (name,) in connection.execute(_LIST, {"pattern": f"^{former}"}).fetchall():
        own = quote_identifier(f"st_{stream_table_id}_{name.removeprefix(former)}")
        table = QualifiedName(_SCHEMA, name).sql
        connection.execute(trusted(f"ALTER TABLE {table} RENAME TO {own}"))


def rows_query(stream_table_id: int, stage: StatefulStage) -> str:
    """Return the query that shows a stage's stored result."""
    if isinstance(stage, RecomputeStage):
        names = [quote_identifier(column.name) for column in stage.operator.outputs]
        return (
            f"SELECT {', '.join(names) or '1 AS __one'}"
            f" FROM {result_table(stream_table_id, stage.name).sql},"
            f" LATERAL pg_catalog.generate_series(1, {quote_identifier(COUNT)})"
        )
    columns = [quote_identifier(column.name) for column in stage.layout.keys]
    columns += [
        f"{result_sql(result.name, result.sql)} AS {quote_identifier(result.name)}"
        for result in stage.layout.shown
    ]
    listed = ", ".join(columns) or "1 AS __one"
    return f"SELECT {listed} FROM {groups_table(stream_table_id, stage.name).sql}"


def result_sql(name: str, sql: str) -> str:
    """Return the expression of a result: computed, or the stored column of a lookup."""
    return sql or quote_identifier(name)


def _create(connection: Connection, table: QualifiedName, columns: tuple[Column, ...]) -> None:
    listed = column_definitions(columns)
    connection.execute(trusted(f"CREATE TABLE {table.sql} ({listed})"))


def _index(connection: Connection, table: QualifiedName, expressions: str) -> None:
    connection.execute(trusted(f"CREATE INDEX ON {table.sql} ({expressions})"))
