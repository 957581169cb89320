"""Composed SQL, marked as such when it is passed to PostgreSQL."""

from __future__ import annotations


def trusted(sql: str) -> bytes:
    """Vouch for a statement that is not one literal text, so that psycopg accepts it.

    The rule: every identifier in it is quoted (``QualifiedName.sql``, ``quote_identifier``), every
    value is bound (``%s``) or written by ``quote_literal``, and every other part is a literal
    of this package or SQL from the compiler.  A user's text is used only if the statement is
    that user's own query.  Nothing else turns a string into a statement: a test checks it.

    >>> trusted(f"ANALYZE {chr(34)}shop{chr(34)}")
    b'ANALYZE "shop"'
    """
    return sql.encode()
