"""The position of each row of a stream table in the lake.

A row is identified by its place in the PostgreSQL table (its ``ctid``): a refresh only inserts and
deletes, so a row keeps its place as long as it lives, and only their places distinguish equal rows.
Places are kept as runs, one row for as many rows as follow one another in both the table and the
file: about one per page after a load.  A place that was freed and used again has a run that was
delivered later, which wins.  A rewrite of the table (VACUUM FULL, CLUSTER) moves every row, which
its file number shows; the lake is then loaded again.

In addition to the runs, the map holds what the lake lacks: new rows, and deleted rows of the lake.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from psycopg import Connection

from pgtrickle.model.text.names import QualifiedName
from pgtrickle.model.text.trusted import trusted

_SCHEMA = "pgtrickle_state"
_END = 2**31 - 1  # of any text
_MEASURED = 200  # rows sampled for the length of a row
_SAMPLED = 100_000  # rows sampled to find the cuts


@dataclass(frozen=True, slots=True)
class RowMap:
    """The tables that hold the map of one stream table."""

    stream_table_id: int

    @property
    def runs(self) -> str:
        """The positions of delivered rows."""
        return self._table("rows")

    @property
    def new(self) -> str:
        """Rows that the lake lacks."""
        return self._table("new")

    @property
    def gone(self) -> str:
        """Rows of the lake that must be deleted there."""
        return self._table("gone")

    @property
    def runs_aside(self) -> str:
        """The former runs, while it is unknown whether files were merged."""
        return self._table("rows_aside")

    @property
    def new_aside(self) -> str:
        """Rows that the lake may still lack."""
        return self._table("new_aside")

    @property
    def gone_aside(self) -> str:
        """Rows that may not be deleted in the lake yet."""
        return self._table("gone_aside")

    def _table(self, what: str) -> str:
        return QualifiedName(_SCHEMA, f"lake_{self.stream_table_id}_{what}").sql


@dataclass(slots=True)
class Runs:
    """The runs of one file, found while its rows are written.

    A run is rows that follow one another in a page of the table and in a file of the lake.  As
    Arrow, since there may be as many as rows, and they come from another process after a load.
    """

    found: list[pa.RecordBatch] = field(default_factory=list)
    rows: int = 0

    def add(self, blocks: pa.Array, numbers: pa.Array, row_ids: pa.Array | None = None) -> None:
        """Add the places of the next rows of the file; without row ids they are counted up.

        >>> runs = Runs()
        >>> runs.add(pa.array([0, 0, 0, 1]), pa.array([1, 2, 4, 1]))
        >>> [tuple(run.values()) for run in runs.found[0].to_pylist()]
        [(0, 1, 2, 0, None), (0, 4, 1, 2, None), (1, 1, 1, 3, None)]
        """
        starts = _starts(blocks, numbers, row_ids)
        if not len(starts):
            return
        ends = pa.concat_arrays([starts.slice(1), pa.array([len(blocks)], pa.int64())])
        own = pa.nulls(len(starts), pa.int64()) if row_ids is None else row_ids.take(starts)
        runs = {
            "block": blocks.take(starts),
            "first": numbers.take(starts),
            "count": pc.subtract(ends, starts),
            "position": pc.add(starts, self.rows),
            "row_id": own,
        }
        self.found.append(pa.RecordBatch.from_pydict(runs))
        self.rows += len(blocks)


def _starts(blocks: pa.Array, numbers: pa.Array, row_ids: pa.Array | None) -> pa.Array:
    """Return the rows that do not follow the one before, including the first row.

    >>> _starts(pa.array([0, 0, 0, 1]), pa.array([1, 2, 4, 5]), None).to_pylist()
    [0, 2, 3]
    """
    rest = len(blocks) - 1
    first = pa.array([0][: len(blocks)], pa.int64())
    if rest < 1:
        return first
    follows = pc.equal(blocks.slice(1), blocks.slice(0, rest))
    for counted in (numbers, row_ids):
        if counted is not None:
            next_one = pc.equal(counted.slice(1), pc.add(counted.slice(0, rest), 1))
            follows = pc.and_(follows, next_one)
    breaks = pc.indices_nonzero(pc.invert(follows)).cast(pa.int64())
    return pa.concat_arrays([first, pc.add(breaks, 1)])


def create_row_map(connection: Connection, rows: RowMap) -> None:
    """Create the tables of a map, unless they exist."""
    connection.execute(
        trusted(
            f"CREATE TABLE IF NOT EXISTS {rows.runs} (block bigint NOT NULL,"
            " first integer NOT NULL, count integer NOT NULL, file_id bigint NOT NULL,"
            " position bigint NOT NULL, row_id bigint NOT NULL, delivered bigint NOT NULL,"
            f" PRIMARY KEY (block, first, delivered));"
            f"CREATE TABLE IF NOT EXISTS {rows.new} (tid tid NOT NULL, key bigint, row_id bigint);"
            f"CREATE TABLE IF NOT EXISTS {rows.gone} (file_id bigint NOT NULL,"
            " position bigint NOT NULL, row_id bigint NOT NULL, key bigint)"
        )
    )


def drop_row_map(connection: Connection, rows: RowMap) -> None:
    """Drop the tables of a map."""
    aside = f"{rows.runs_aside}, {rows.new_aside}, {rows.gone_aside}"
    connection.execute(
        trusted(f"DROP TABLE IF EXISTS {rows.runs}, {rows.new}, {rows.gone}, {aside}")
    )


def clear_row_map(connection: Connection, rows: RowMap) -> None:
    """Delete everything: the lake is about to be loaded again."""
    connection.execute(trusted(f"TRUNCATE {rows.runs}, {rows.new}, {rows.gone}"))


def place(tid: str) -> tuple[str, str]:
    """Return the page and the number in it of a place, as SQL."""
    point = f"(({tid})::text::point)"
    return f"({point}[0])::bigint", f"({point}[1])::integer"


def parse_places(texts: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return the pages and row numbers of places in PostgreSQL's text form.

    For many rows that takes a tenth of the time of PostgreSQL's own functions.

    >>> [numbers.to_pylist() for numbers in parse_places(pa.array(["(0,7)", "(12,1)"]))]
    [[0, 12], [7, 1]]
    """
    bare = pc.binary_replace_slice(pc.binary_replace_slice(texts, 0, 1, ""), -1, _END, "")
    flat = pc.split_pattern(bare, ",").flatten().cast(pa.int64())
    pairs = pa.FixedSizeListArray.from_arrays(flat, 2)
    return pc.list_element(pairs, 0), pc.list_element(pairs, 1)


def note_changes(connection: Connection, rows: RowMap, deleted: str, inserted: str) -> bool:
    """Record the changes of a refresh; False if a deleted row has no position in the lake.

    ``deleted`` and ``inserted`` are tables of places and keys.  A row that comes and goes before
    a delivery leaves no trace.
    """
    block, offset = place("d.tid")
    connection.execute(
        trusted(
            f"CREATE TEMPORARY TABLE lake__unseen ON COMMIT DROP AS"
            f" SELECT n.tid FROM {rows.new} AS n JOIN {deleted} AS d USING (tid)"
        )
    )
    connection.execute(
        trusted(f"DELETE FROM {rows.new} AS n USING lake__unseen AS u WHERE n.tid = u.tid")
    )
    [(missing,)] = connection.execute(
        trusted(
            f"WITH gone AS MATERIALIZED ("
            f"  SELECT d.tid, d.key, {block} AS block, {offset} AS number FROM {deleted} AS d"
            f"   WHERE NOT EXISTS (SELECT FROM lake__unseen AS u WHERE u.tid = d.tid)"
            f"), found AS ("
            f"  INSERT INTO {rows.gone} (file_id, position, row_id, key)"
            f"  SELECT r.file_id, r.position + g.number - r.first,"
            f"         r.row_id + g.number - r.first, g.key"
            f"    FROM gone AS g, LATERAL ("
            f"      SELECT * FROM {rows.runs} AS r WHERE r.block = g.block"
            f"         AND g.number >= r.first AND g.number < r.first + r.count"
            f"       ORDER BY r.delivered DESC LIMIT 1) AS r"
            f"  RETURNING 1"
            f") SELECT (SELECT count(*) FROM gone) - (SELECT count(*) FROM found)"
        )
    ).fetchall()
    connection.execute("DROP TABLE lake__unseen")
    connection.execute(
        trusted(f"INSERT INTO {rows.new} (tid, key) SELECT tid, key FROM {inserted}")
    )
    return not missing


def pair_updates(connection: Connection, rows: RowMap) -> None:
    """Give new rows the row ids of deleted rows with the same key.

    Pairs of a failed delivery are made again, including later changes.
    """
    connection.execute(
        trusted(
            f"WITH old AS ("
            f"  SELECT row_id, key, row_number() OVER (PARTITION BY key ORDER BY row_id) AS n"
            f"    FROM {rows.gone} WHERE key IS NOT NULL"
            f"), fresh AS ("
            f"  SELECT tid, key, row_number() OVER (PARTITION BY key ORDER BY tid) AS n"
            f"    FROM {rows.new} WHERE key IS NOT NULL"
            f") UPDATE {rows.new} AS target SET row_id = old.row_id"
            f"   FROM fresh LEFT JOIN old USING (key, n)"
            f"  WHERE target.tid = fresh.tid AND target.row_id IS DISTINCT FROM old.row_id"
        )
    )


def new_bytes(connection: Connection, rows: RowMap, table: QualifiedName) -> int:
    """Return the estimated size of the new rows: their number, times the average of a few."""
    [(size,)] = connection.execute(
        trusted(
            f"SELECT (SELECT count(*) FROM {rows.new}) * COALESCE(avg(pg_column_size(t.*)), 0)"
            f"  FROM (SELECT tid FROM {rows.new} LIMIT {_MEASURED}) AS n"
            f"  JOIN {table.sql} AS t ON t.ctid = n.tid"
        )
    ).fetchall()
    return int(size)


def cut_new(connection: Connection, rows: RowMap, parts: int) -> list[str]:
    """Return the places that cut the new rows into parts of about equal size."""
    shares = [number / parts for number in range(1, parts)]
    [(count,)] = connection.execute(trusted(f"SELECT count(*) FROM {rows.new}")).fetchall()
    found = connection.execute(
        trusted(
            "SELECT DISTINCT place FROM (SELECT unnest("
            "   percentile_disc(%(shares)s::float8[]) WITHIN GROUP (ORDER BY tid)) AS place"
            f"    FROM {rows.new} TABLESAMPLE BERNOULLI (%(sampled)s) REPEATABLE (0)) AS cut"
            " WHERE place IS NOT NULL ORDER BY place"
        ),
        {"shares": shares, "sampled": 100 * min(1.0, _SAMPLED / max(count, 1))},
    )
    return [str(place) for (place,) in found]


def insert_runs(
    connection: Connection, rows: RowMap, file_id: int, row_id_start: int, runs: Runs
) -> None:
    """Record the positions of the rows of a file, once the file has an id.

    The id also orders deliveries; it stays when the rows move to another file.
    """
    statement = (
        f"COPY {rows.runs} (block, first, count, position, row_id, file_id, delivered)"
        " FROM STDIN (FORMAT csv)"
    )
    with connection.cursor().copy(trusted(statement)) as copy:
        for batch in runs.found:
            copy.write(_as_csv(batch, file_id, row_id_start))


def _as_csv(runs: pa.RecordBatch, file_id: int, row_id_start: int) -> bytes:
    counted = pc.add(runs["position"], row_id_start)
    file = pa.repeat(pa.scalar(file_id, pa.int64()), runs.num_rows)
    columns = [*runs.columns[:-1], pc.coalesce(runs["row_id"], counted), file, file]
    named = pa.RecordBatch.from_arrays(columns, names=[f"c{n}" for n in range(len(columns))])
    text = pa.BufferOutputStream()
    pa.csv.write_csv(named, text, pa.csv.WriteOptions(include_header=False))
    return bytes(text.getvalue().to_pybytes())


@dataclass(frozen=True, slots=True)
class Segment:
    """Rows that follow one another in a file, and their position in another."""

    file_id: int
    first: int
    count: int
    position: int


_SEGMENTS = """
    ROWS FROM (pg_catalog.unnest(%(files)s::bigint[]), pg_catalog.unnest(%(firsts)s::bigint[]),
               pg_catalog.unnest(%(counts)s::bigint[]), pg_catalog.unnest(%(positions)s::bigint[]))
    AS s (file_id, first, count, position)
"""
# Rows without a new position are gone, and so are their runs.
_MOVE_RUNS = """
    WITH moved AS (
        DELETE FROM {runs} WHERE file_id = ANY(%(old)s) RETURNING *
    ), parts AS (
        SELECT m.*, s.position + greatest(m.position, s.first) - s.first AS new_position,
               (greatest(m.position, s.first) - m.position)::integer AS skipped,
               (least(m.position + m.count, s.first + s.count)
                - greatest(m.position, s.first))::integer AS kept
          FROM moved AS m
          JOIN {segments} ON s.file_id = m.file_id
           AND s.first < m.position + m.count AND m.position < s.first + s.count
    )
    INSERT INTO {runs} (block, first, count, file_id, position, row_id, delivered)
    SELECT block, first + skipped, kept, %(file)s, new_position, row_id + skipped, delivered
      FROM parts
"""
_MOVE_GONE = """
    UPDATE {gone} AS g SET file_id = %(file)s, position = s.position + g.position - s.first
      FROM {segments}
     WHERE s.file_id = g.file_id AND g.position >= s.first AND g.position < s.first + s.count
"""


def move_rows(
    connection: Connection,
    rows: RowMap,
    old: Sequence[int],
    segments: Sequence[Segment],
    file_id: int | None,
) -> None:
    """Update the runs of files that were merged into another, if any rows were left."""
    values = {
        "old": list(old),
        "file": file_id,
        "files": [one.file_id for one in segments],
        "firsts": [one.first for one in segments],
        "counts": [one.count for one in segments],
        "positions": [one.position for one in segments],
    }
    for statement in (_MOVE_RUNS, _MOVE_GONE):
        written = statement.format(runs=rows.runs, gone=rows.gone, segments=_SEGMENTS)
        connection.execute(trusted(written), values)


def forget_covered(connection: Connection, rows: RowMap) -> int:
    """Delete runs whose places were all used again; later runs cover them."""
    return connection.execute(
        trusted(
            f"DELETE FROM {rows.runs} AS r USING {rows.runs} AS n"
            " WHERE n.block = r.block AND n.delivered > r.delivered"
            " AND n.first <= r.first AND n.first + n.count >= r.first + r.count"
        )
    ).rowcount
