"""Whose catalog it is: nothing in our schemas is read before it is known that nobody set a trap.

One role owns the schemas and everything in them, nobody else can add to them, and nothing in them
calls what a stranger can change.  Only ``pg_catalog`` is read to find that out.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import Connection
from psycopg.rows import TupleRow

from pgtrickle.catalog.foreign import find_foreign
from pgtrickle.catalog.standing import FIX_SEARCH_PATH, Standing, dsn_of_owner, find_standing
from pgtrickle.catalog.watch import drop_unsafe_watch
from pgtrickle.errors import ForeignCatalogError
from pgtrickle.model.names import quote_identifier

_FACTS = {
    "owner": "{object} belongs to {role}, not to {owner}, who owns the catalog",
    "create": "{role} may create things in the schema {object}, which {owner} alone should",
    "trigger": "{role} may put triggers or foreign keys on {object}",
    "kind": "{object} stands where a table of the catalog should be",
    "forced": "row security is forced on {object}",
    "thing": "{object} is not of the catalog; it runs what {role} wrote",
    "heir": "{object} of {role} inherits from a table of the catalog, or passes on to it",
    "uses": "{object}, which {role} can change",
}
_HINTS = {
    "owner": "Find out how it came there; then drop it, or give it to {owner} with ALTER ..."
    " OWNER TO {owner}.",
    "create": "REVOKE CREATE ON SCHEMA {object} FROM {role}; look at what is in it.",
    "trigger": "REVOKE TRIGGER, REFERENCES ON {object} FROM {role};",
    "kind": "Find out how it came there, and drop it; restore the table from a backup.",
    "forced": "ALTER TABLE {object} NO FORCE ROW LEVEL SECURITY;",
}
_HINT = "Find out how it came there, and drop it."


def check_trust(connection: Connection[TupleRow]) -> Standing:
    """Raise ST215 unless the current role can use the catalog, if there is one, without fear."""
    standing = find_standing(connection)
    if not standing.works_as_owner:
        raise standing.error()
    found = find_foreign(connection)
    if found is None:
        return standing
    words = {
        "object": found.object,
        "role": "PUBLIC" if found.role is None else quote_identifier(found.role),
        "owner": quote_identifier(standing.owner or ""),
    }
    raise ForeignCatalogError(
        _FACTS[found.trouble].format(**words),
        hint=_HINTS.get(found.trouble, _HINT).format(**words),
    )


@contextmanager
def trusted_session(
    dsn: str, connect_timeout: int
) -> Iterator[tuple[str, Standing, Connection[TupleRow]]]:
    """Connect, as the owner of the catalog if there is one; yield the DSN that did it.

    Our own search path is set, until the transaction ends.
    """
    with _connected(dsn, connect_timeout) as connection:
        standing = find_standing(connection)
        if standing.is_superuser:
            with connection.transaction():
                connection.execute(FIX_SEARCH_PATH)
                drop_unsafe_watch(connection)
        again = not standing.works_as_owner and standing.may_log_in_as_owner
        if not again:
            standing = check_trust(connection)
            connection.execute(FIX_SEARCH_PATH)
            yield dsn, standing, connection
    if again and standing.owner is not None:
        address = dsn_of_owner(dsn, standing.owner)
        try:
            owner = _connected(address, connect_timeout)
        except psycopg.OperationalError as error:
            raise standing.error() from error
        with owner:
            standing = check_trust(owner)
            owner.execute(FIX_SEARCH_PATH)
            yield address, standing, owner


def _connected(dsn: str, connect_timeout: int) -> Connection[TupleRow]:
    return psycopg.connect(dsn, connect_timeout=connect_timeout, prepare_threshold=None)
