"""What an inbound pipeline writes: messages, places and dead letters, in one transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from psycopg import Connection
from psycopg.rows import TupleRow
from psycopg.types.json import Jsonb

from pgtrickle.model.text.names import QualifiedName
from pgtrickle.model.text.trusted import trusted

# Of messages with one id, the first one counts, here as between transactions.  In the order of ids,
# so that two relays of one inbox do not wait for one another in a circle.
_INSERT = """
    INSERT INTO {table}
        (event_id, event_type, source, aggregate_id, sequence_num, priority, payload)
    SELECT m.event_id, m.event_type, m.source, m.aggregate_id, m.sequence_num, m.priority,
           m.payload::jsonb
      FROM (SELECT DISTINCT ON (t.event_id) t.*
              FROM unnest(%(event_id)s::text[], %(event_type)s::text[], %(source)s::text[],
                          %(aggregate_id)s::text[], %(sequence_num)s::int8[], %(priority)s::int4[],
                          %(payload)s::text[]) WITH ORDINALITY
                   AS t (event_id, event_type, source, aggregate_id, sequence_num, priority,
                         payload, place)
             ORDER BY t.event_id, t.place) AS m
     ORDER BY m.event_id
        ON CONFLICT (event_id) DO NOTHING
"""
_COLUMNS = (
    "event_id",
    "event_type",
    "source",
    "aggregate_id",
    "sequence_num",
    "priority",
    "payload",
)


def insert_messages(
    connection: Connection[TupleRow], table: QualifiedName, rows: Sequence[tuple[object, ...]]
) -> int:
    """Insert messages that the inbox does not have; return how many."""
    values = dict(zip(_COLUMNS, map(list, zip(*rows, strict=True)), strict=True))
    return connection.execute(trusted(_INSERT.replace("{table}", table.sql)), values).rowcount


_PLACE = """
    INSERT INTO pgtrickle.pgt_inbound_places AS o (pipeline, part, place)
    SELECT %(pipeline)s, t.part, t.place
      FROM unnest(%(parts)s::text[], %(places)s::text[]) AS t (part, place)
        ON CONFLICT (pipeline, part) DO UPDATE SET place = excluded.place
"""


def record_places(
    connection: Connection[TupleRow], pipeline: str, places: Mapping[str, str]
) -> None:
    """Record up to which message each part was received."""
    if places:
        values = {"pipeline": pipeline, "parts": list(places), "places": list(places.values())}
        connection.execute(_PLACE, values)


def list_places(connection: Connection[TupleRow], pipeline: str) -> dict[str, str]:
    """Return up to which message each part was received."""
    query = "SELECT part, place FROM pgtrickle.pgt_inbound_places WHERE pipeline = %s"
    return dict(connection.execute(query, [pipeline]).fetchall())


_COUNT = """
    SELECT count(*) FROM (SELECT FROM ONLY {table} WHERE processed_at IS NULL LIMIT %(most)s) AS m
"""


def is_full(connection: Connection[TupleRow], table: QualifiedName, most: int) -> bool:
    """Tell whether as many messages wait in an inbox as may."""
    query = trusted(_COUNT.replace("{table}", table.sql))
    [[count]] = connection.execute(query, {"most": most}).fetchall()
    return bool(count >= most)


_LETTER = """
    INSERT INTO pgtrickle.pgt_inbound_dead_letters
        (pipeline, message_id, key, value, headers, error_code, error)
    SELECT %(pipeline)s, %(message_id)s, %(key)s, %(value)s, %(headers)s, %(code)s, %(error)s
     WHERE NOT EXISTS (SELECT FROM pgtrickle.pgt_inbound_dead_letters AS d
                        WHERE d.pipeline = %(pipeline)s AND d.message_id = %(message_id)s
                          AND d.key IS NOT DISTINCT FROM %(key)s::bytea
                          AND d.value IS NOT DISTINCT FROM %(value)s::bytea)
"""


def add_letter(
    connection: Connection[TupleRow], values: dict[str, object], headers: Mapping[str, str]
) -> bool:
    """Set a message aside that cannot be read; return whether it was not there already."""
    return connection.execute(_LETTER, {**values, "headers": Jsonb(dict(headers))}).rowcount == 1


class Letter(NamedTuple):
    """A dead letter that is to be read again."""

    dead_letter_id: int
    message_id: str
    key: bytes | None
    value: bytes | None
    headers: dict[str, str]


_WANTED = """
    SELECT dead_letter_id, message_id, key, value, headers
      FROM pgtrickle.pgt_inbound_dead_letters
     WHERE pipeline = %s AND replay_at IS NOT NULL ORDER BY dead_letter_id LIMIT 100
"""


def list_wanted_letters(connection: Connection[TupleRow], pipeline: str) -> list[Letter]:
    """Return dead letters that somebody wants read again."""
    return [Letter(*row) for row in connection.execute(_WANTED, [pipeline])]


def remove_letter(connection: Connection[TupleRow], letter: Letter) -> None:
    """Forget a dead letter that was read after all."""
    connection.execute(
        "DELETE FROM pgtrickle.pgt_inbound_dead_letters WHERE dead_letter_id = %s",
        [letter.dead_letter_id],
    )


def keep_letter(connection: Connection[TupleRow], letter: Letter, error: str) -> None:
    """Note that a dead letter cannot be read yet."""
    connection.execute(
        "UPDATE pgtrickle.pgt_inbound_dead_letters SET replay_at = NULL, error = %s"
        " WHERE dead_letter_id = %s",
        [error, letter.dead_letter_id],
    )
