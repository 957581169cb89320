"""Find the stream tables that a query names, and write ``ref()`` in their place."""

from __future__ import annotations

import re
from collections.abc import Collection

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from pgtrickle.model.text.names import QualifiedName

_UNQUOTED = re.compile("['\n]")  # what ref('...') cannot hold


def write_refs(query: str, names: Collection[QualifiedName], schemas: Collection[str]) -> str:
    r"""Return the query with ``ref()`` for each of these names; ``schemas`` is its search path.

    A text that cannot be parsed stays as it is.

    >>> names = {QualifiedName("app", "big"), QualifiedName("app", "Odd")}
    >>> write_refs('SELECT * FROM big AS b JOIN app."Odd" o USING (id)', names, ["app"])
    'SELECT * FROM {{ ref(\'app.big\') }} AS b JOIN {{ ref(\'app."Odd"\') }} o USING (id)'
    >>> write_refs("WITH big AS (SELECT 1) SELECT * FROM big", names, ["app"])
    'WITH big AS (SELECT 1) SELECT * FROM big'
    """
    try:
        tree = sqlglot.parse_one(query, dialect="postgres")
    except (SqlglotError, RecursionError):
        return query
    hidden = {one.alias_or_name for one in tree.find_all(exp.CTE)}
    places = []
    for table in tree.find_all(exp.Table):
        found = _meant(table, names, schemas, hidden)
        if (
            found is not None
            and not _UNQUOTED.search(str(found))
            and (place := _place(table)) is not None
        ):
            places.append((*place, found))
    for start, end, name in sorted(places, reverse=True):
        query = f"{query[:start]}{{{{ ref('{name}') }}}}{query[end:]}"
    return query


def _meant(
    table: exp.Table,
    names: Collection[QualifiedName],
    schemas: Collection[str],
    hidden: Collection[str],
) -> QualifiedName | None:
    if not isinstance(table.this, exp.Identifier) or table.args.get("catalog"):
        return None
    name, schema = _name(table.this), table.args.get("db")
    if schema is not None:
        wanted = QualifiedName(_name(schema), name)
        return wanted if wanted in names else None
    if name in hidden:
        return None
    return next((one for one in (QualifiedName(s, name) for s in schemas) if one in names), None)


def _name(identifier: exp.Expression) -> str:
    text = str(identifier.this)
    return text if identifier.args.get("quoted") else text.lower()


def _place(table: exp.Table) -> tuple[int, int] | None:
    first = table.args.get("db") or table.this
    start, end = first.meta.get("start"), table.this.meta.get("end")
    return None if start is None or end is None else (start, end + 1)
