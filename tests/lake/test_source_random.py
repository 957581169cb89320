"""Random changes in the lake and in PostgreSQL: a stream table that joins both is always right.

After each refresh the rows that PostgreSQL holds are DuckDB's, under the same row ids, and the
stream tables are PostgreSQL's own answers.  ``PGTRICKLE_LAKE_REFRESHES`` says how many refreshes
there are, ``PGTRICKLE_LAKE_SEED`` which; without either, they are those of one seed, whose last
ones update rows after DuckDB has merged their files.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator

from tests.lake.shore import Shore
from tests.seeds import seed_of

_REFRESHES = int(os.environ.get("PGTRICKLE_LAKE_REFRESHES", "56"))
_SEED = seed_of("PGTRICKLE_LAKE_SEED", 738968791)

_QUERIES = {
    "joined": "SELECT t.k, t.s, e.id, e.v, e.n FROM events AS e JOIN t ON t.id = e.t_id",
    "sums": "SELECT t.k, count(*) AS c, sum(e.v) AS v, max(e.n) AS n"
    " FROM t LEFT JOIN events AS e ON t.id = e.t_id GROUP BY t.k",
}


def _in_lake(draw: random.Random) -> Iterator[str]:
    for _ in range(draw.choice([0, 1, 1, 2, 3, 5])):
        low = draw.randrange(400)
        where = draw.choice(
            [
                f"id = {low}",
                f"id BETWEEN {low} AND {low + draw.randrange(60)}",
                f"t_id = {low % 90}",
            ]
        )
        some = f"SELECT {draw.randrange(400)} + i, {draw.randrange(90)} + i % 7, i * 0.5, 'n' || i"
        kind = draw.choices(
            ["few", "many", "update", "delete", "merge", "flush", "join", "rewrite", "expire"],
            [6, 3, 6, 5, 2, 2, 1, 1, 0.7],
        )[0]
        match kind:
            case "few":
                yield f"INSERT INTO events {some} FROM range({draw.randrange(1, 6)}) AS r (i)"
            case "many":
                yield f"INSERT INTO events {some} FROM range({draw.randrange(20, 90)}) AS r (i)"
            case "update":
                yield f"UPDATE events SET v = v + {draw.randrange(3)}, n = 'u' WHERE {where}"
            case "delete":
                yield f"DELETE FROM events WHERE {where}"
            case "merge":
                yield (
                    f"MERGE INTO events AS e USING (SELECT DISTINCT {low} + i AS id FROM range(9)"
                    " AS r (i)) AS s ON e.id = s.id WHEN MATCHED THEN UPDATE SET n = 'merged'"
                    " WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.id % 90, 1, NULL)"
                )
            case "flush":
                yield "CALL ducklake_flush_inlined_data('lake')"
            case "join":
                yield "CALL ducklake_merge_adjacent_files('lake')"
            case "rewrite":
                yield "CALL ducklake_rewrite_data_files('lake', 'events', delete_threshold => 0.1)"
            case _:
                yield "CALL ducklake_expire_snapshots('lake', older_than => now())"


def _in_postgres(draw: random.Random) -> Iterator[str]:
    for _ in range(draw.choice([0, 0, 1, 2])):
        low = draw.randrange(100)
        yield draw.choice(
            [
                f"UPDATE t SET k = {draw.randrange(6)} WHERE id BETWEEN {low} AND {low + 9}",
                f"DELETE FROM t WHERE id = {low}",
                f"INSERT INTO t VALUES ({low}, 1, 2, 'back') ON CONFLICT DO NOTHING",
            ]
        )


def test_after_each_refresh_everything_is_as_duckdb_and_postgresql_say(shore: Shore) -> None:
    draw = random.Random(_SEED)
    shore.client.execute("CREATE TABLE events (id INT, t_id INT, v DECIMAL(9,2), n VARCHAR)")
    shore.trickle.lake.attach_ducklake_table("events", "events")
    for name, query in _QUERIES.items():
        shore.trickle.create_stream_table(name, query, refresh_mode="DIFFERENTIAL")
    for number in range(_REFRESHES):
        told = f"PGTRICKLE_LAKE_SEED={_SEED}, refresh {number}"
        for statement in _in_lake(draw):
            shore.client.execute(statement)
        shore.run(*_in_postgres(draw))
        for name, query in _QUERIES.items():
            shore.trickle.refresh_stream_table(name)
            assert Counter(shore.tell(f"TABLE {name}")) == Counter(shore.tell(query)), told
        held = shore.tell("TABLE pgtrickle_state.landed_1")
        there = shore.ask("SELECT rowid, id, t_id, v, n FROM events")
        assert Counter(held) == Counter(there), told
