"""Whose catalog it is: nothing in our schemas is read before it is known that nobody set a trap.

One role owns the schemas and everything in them, nobody else can add to them, and nothing in them
calls what a stranger can change.  Only ``pg_catalog`` is read to find that out.
"""

from __future__ import annotations

from psycopg import Connection
from psycopg.rows import TupleRow

from pgtrickle.catalog.access.foreign_objects import Foreign, find_foreign
from pgtrickle.catalog.access.standing import Standing, find_standing
from pgtrickle.errors import ForeignCatalogError
from pgtrickle.model.text.names import quote_identifier

_FACTS = {
    "owner": "{object} belongs to {role}, not to {owner}, who owns the catalog",
    "create": "{role} may create things in the schema {object}, which {owner} alone should",
    "trigger": "{role} may put triggers or foreign keys on {object}",
    "kind": "{object} stands where a table of the catalog should be",
    "forced": "row security is forced on {object}",
    "thing": "{object} is not of the catalog; it runs what {role} wrote",
    "child": "{object} of {role} inherits from a table of the catalog, or passes on to it",
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
    check_strangers(connection, standing)
    return standing


def check_strangers(connection: Connection[TupleRow], standing: Standing) -> None:
    """Raise ST215 if others than its owner have put something into the catalog, or could."""
    found = find_foreign(connection)
    if found is not None:
        raise stranger_error(found, standing)


def stranger_error(found: Foreign, standing: Standing) -> ForeignCatalogError:
    """Return the error about something in the catalog that is not its owner's."""
    words = {
        "object": found.object,
        "role": "PUBLIC" if found.role is None else quote_identifier(found.role),
        "owner": quote_identifier(standing.owner or ""),
    }
    return ForeignCatalogError(
        _FACTS[found.trouble].format(**words),
        hint=_HINTS.get(found.trouble, _HINT).format(**words),
    )
