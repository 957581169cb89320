"""The two values of a CYCLE clause, spelled so that PostgreSQL reads what it prints.

It prints ``SET looped TO 'Y'::text DEFAULT 'N'::text``, where its grammar wants constants, and
a cast is none.  ``text 'Y'`` means the same.
"""

from __future__ import annotations

from pgtrickle.sql.text.lexer import placed_tokens

_ENDS = {"TO": "DEFAULT", "DEFAULT": "USING"}


def spell_cycle_marks(sql: str) -> str:
    """Return a printed query whose CYCLE clauses can be read again.

    >>> spell_cycle_marks("... CYCLE a SET b TO 'Y'::text DEFAULT 'N'::text USING c SELECT 'd'::x")
    "... CYCLE a SET b TO text 'Y' DEFAULT text 'N' USING c SELECT 'd'::x"
    >>> spell_cycle_marks("CYCLE a SET b TO NULL::text DEFAULT 1 USING c")
    'CYCLE a SET b TO NULL DEFAULT 1 USING c'
    """
    if "CYCLE" not in sql:
        return sql
    places = list(placed_tokens(sql))
    words = [sql[start:end] for _, start, end in places]
    parts, written, cycle = [], 0, False
    for at, word in enumerate(words):
        cycle = word == "CYCLE" or (cycle and word != "USING")
        end = _ENDS.get(word)
        if not cycle or end is None or end not in words[at:]:
            continue
        stop = words.index(end, at)
        if words[at + 2 : at + 4] != [":", ":"]:
            continue
        type_ = sql[places[at + 4][1] : places[stop - 1][2]]
        value = words[at + 1]
        parts += [sql[written : places[at + 1][1]], _constant(type_, value)]
        written = places[stop - 1][2]
    return "".join([*parts, sql[written:]])


def _constant(type_: str, value: str) -> str:
    return value if value.upper() == "NULL" else f"{type_} {value}"
