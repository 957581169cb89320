"""The statements that apply rows in JSON to a table with typed columns.

``(row ->> column)::type`` is the value of a column, exactly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pgtrickle.model.text.names import QualifiedName, quote_identifier, quote_literal

_GIVEN = "pg_catalog.jsonb_array_elements(%s::pg_catalog.jsonb) AS d (row)"
_PLACE = "\0"  # of it, while a statement is composed: no name has one


@dataclass(frozen=True, slots=True)
class Rows:
    """A table, the types of the columns of the rows, and the columns of their unique key."""

    table: QualifiedName
    types: Mapping[str, str]
    key: tuple[str, ...] | None

    def insert(self) -> str:
        """Write the statement that inserts rows, bound as one JSON array."""
        names = ", ".join(map(quote_identifier, self.types))
        values = ", ".join(map(self._value, self.types))
        return _bound(f"INSERT INTO {self.table.sql} ({names}) SELECT {values} FROM {_PLACE}")

    def update(self, *, nulls: bool) -> str:
        """Write the statement that changes the rows with the keys of rows."""
        changes = ", ".join(f"{quote_identifier(one)} = {self._value(one)}" for one in self.types)
        return _bound(
            f"UPDATE {self.table.sql} AS t SET {changes} FROM {_PLACE} WHERE {self._same(nulls)}"
        )

    def delete(self, nulls: bool) -> str:  # noqa: FBT001 - as update
        """Write the statement that deletes rows: by key, or each once."""
        if self.key is not None:
            return _bound(
                f"DELETE FROM {self.table.sql} AS t USING {_PLACE} WHERE {self._same(nulls)}"
            )
        given = ", ".join(f"{self._value(one)}::pg_catalog.text" for one in self.types)
        held = ", ".join(f"t.{quote_identifier(one)}::pg_catalog.text" for one in self.types)
        return _bound(f"""
            DELETE FROM {self.table.sql} WHERE ctid = ANY (ARRAY(
                SELECT n.ctid
                  FROM (SELECT t.ctid, g.copies,
                               pg_catalog.row_number() OVER (PARTITION BY g.given) AS number
                          FROM {self.table.sql} AS t
                          JOIN (SELECT pg_catalog.jsonb_build_array({given}) AS given,
                                       pg_catalog.count(*) AS copies
                                  FROM {_PLACE} GROUP BY 1) AS g
                            ON pg_catalog.jsonb_build_array({held}) = g.given) AS n
                 WHERE n.number <= n.copies))
        """)

    def _value(self, name: str) -> str:
        return f"(d.row ->> {quote_literal(name)})::{self.types[name]}"

    def _same(self, nulls: bool) -> str:  # noqa: FBT001 - as update
        # An index answers =, and not the other.
        sign = "IS NOT DISTINCT FROM" if nulls else "="
        pairs = [f"t.{quote_identifier(one)} {sign} {self._value(one)}" for one in self.key or ()]
        return " AND ".join(pairs) or "true"


def _bound(statement: str) -> str:
    """Put the bound rows in their place; a name may have a percent sign."""
    return statement.replace("%", "%%").replace(_PLACE, _GIVEN)
