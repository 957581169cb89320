"""How many more dead letters a pipeline may have, of either direction."""

from __future__ import annotations

from enum import Enum

from psycopg import Connection
from psycopg.rows import TupleRow

from pgtrickle.model.text.trusted import trusted


class Letters(Enum):
    """The tables of dead letters."""

    OUTBOUND = "pgt_relay_dead_letters"
    INBOUND = "pgt_inbound_dead_letters"


_COUNT = """
    SELECT count(*) FROM (SELECT FROM pgtrickle.{table} AS d
                           WHERE d.pipeline = %(pipeline)s LIMIT %(most)s) AS held
"""


def count_room(connection: Connection[TupleRow], letters: Letters, pipeline: str, most: int) -> int:
    """Return how many dead letters a pipeline may have beside those that it has."""
    query = trusted(_COUNT.replace("{table}", letters.value))
    [[held]] = connection.execute(query, {"pipeline": pipeline, "most": most}).fetchall()
    return most - int(held)
