"""VALUES as a SELECT, which can have an order and a limit."""

from __future__ import annotations

from sqlglot import exp

_NAME = "*VALUES*"  # so PostgreSQL calls it


def select_values(values: exp.Values) -> exp.Select:
    """Return a SELECT from the same values; clauses behind them become its own.

    >>> from sqlglot import parse_one
    >>> print(select_values(parse_one("VALUES (1), (2) LIMIT 1")).sql())
    SELECT "*VALUES*".column1 FROM (VALUES (1), (2)) AS "*VALUES*"(column1) LIMIT 1
    """
    inner = values.copy()
    first = inner.expressions[0]
    row = first.expressions if isinstance(first, exp.Tuple) else [first]
    names = [f"column{number}" for number, _ in enumerate(row, 1)]
    name = exp.to_identifier(_NAME, quoted=True)
    select = exp.select(*(exp.column(one, table=name.copy()) for one in names))
    for clause in exp.QUERY_MODIFIERS:
        if modifier := inner.args.get(clause):
            inner.set(clause, None)
            select.set(clause, modifier)
    inner.set("alias", exp.TableAlias(this=name, columns=[exp.to_identifier(one) for one in names]))
    return select.from_(inner)
