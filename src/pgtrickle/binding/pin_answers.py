"""Pin the answer of a bound query that SQL leaves open; PostgreSQL binds the refined text again.

``sql/refine.py`` says what is added.  Whether a type has an order is PostgreSQL's to say: an item
that it rejects becomes the text of the value.  A query that the parser does not write down again
exactly is left as it is.
"""

from __future__ import annotations

import re
from dataclasses import replace

from psycopg import Connection
from sqlglot.errors import SqlglotError

from pgtrickle.binding.bind import Binding, place_of_error, print_query
from pgtrickle.binding.unique_keys import list_keys_without_null
from pgtrickle.errors import TrickleError, UndefinedObjectError
from pgtrickle.model.text.search_path import OWN_PATH
from pgtrickle.sql.refine import Refined, UniqueKeys, refine
from pgtrickle.sql.text.limits import allow_depth
from pgtrickle.sql.text.parse_bound import parse_bound
from pgtrickle.sql.text.placeholders import fill

_NOW = r"(?<![\w$.])now\(\)"
_SHORT_FRAME = re.compile(r"\b(ROWS|RANGE|GROUPS) (UNBOUNDED|\d+) PRECEDING\b(?! AND)")


def pin_answers(connection: Connection, binding: Binding) -> Binding:
    """Return the binding of the refined query, or the same one if nothing is open."""
    allow_depth()
    try:
        tree = parse_bound(binding.query.sql, binding.query.aggregates)
        refined = refine(tree, _unique_keys(connection, binding))
        if not refined.changed:
            return binding
        written = tree.sql(dialect="postgres")
    except (SqlglotError, RecursionError):
        return binding
    pinned: str | None = None
    with connection.transaction(force_rollback=True):
        connection.execute("SELECT pg_catalog.set_config('search_path', %s, true)", [OWN_PATH])
        if _in_full(_print(connection, written)) == _in_full(binding.query.sql):
            pinned = _print_pinned(connection, refined)
    if pinned is None:
        return binding
    notes = tuple(dict.fromkeys(refined.notes))
    return replace(binding, query=replace(binding.query, sql=pinned), pinned=notes)


def _print(connection: Connection, sql: str) -> str:
    """Return a query as PostgreSQL prints it; empty if it is rejected."""
    try:
        return print_query(connection, sql)
    except TrickleError:
        return ""


def _in_full(sql: str) -> str:
    """Write frames with both ends, and the time, as the parser does; PostgreSQL leaves it open."""
    sql = fill(sql, _NOW, lambda _: "CURRENT_TIMESTAMP")
    return _SHORT_FRAME.sub(r"\1 BETWEEN \2 PRECEDING AND CURRENT ROW", sql)


def _print_pinned(connection: Connection, refined: Refined) -> str | None:
    """Do so with a refined query, whose pins may have to be by text."""
    for _ in range(len(refined.pins) + 1):
        try:
            return print_query(connection, refined.sql)
        except UndefinedObjectError as error:
            place = place_of_error(error, refined.sql)
            pin = None if place is None else refined.pin_at(place)
            if pin is None or not pin.by_text():
                return None
        except TrickleError:
            return None
    return None


def _unique_keys(connection: Connection, binding: Binding) -> UniqueKeys:
    relations = binding.query.relations.values()
    found = list_keys_without_null(connection, [one.relid for one in relations])
    return {one.name: found[one.relid] for one in relations if one.relid in found}
