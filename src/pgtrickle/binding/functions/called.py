"""The functions of a query: which are volatile, which tell the time, which no rule covers."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from psycopg import Connection

from pgtrickle.binding.functions.by_settings import follows_from_settings
from pgtrickle.errors import VolatileFunctionError
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.sql.lower.groups.grouping import knows_aggregate
from pgtrickle.sql.refusal import Refusal, underline

_FUNCTION_IN_TREE = re.compile(r":(?:funcid|opfuncid|aggfnoid|winfnoid) (\d+)")
_OPERATOR_IN_TREE = re.compile(r":opno (\d+)")
_VALUE_FUNCTION_IN_TREE = re.compile(r"\{SQLVALUEFUNCTION :op (\d+)")
# CURRENT_DATE, CURRENT_TIMESTAMP, LOCALTIME and LOCALTIMESTAMP as PostgreSQL numbers them; the
# others up to the last are forms with a precision, and those beyond it name roles and schemas.
_FOLLOWED, _LAST_OF_TIME = frozenset({0, 3, 5, 7}), 8
_TIME_FUNCTIONS = frozenset({"now", "transaction_timestamp", "statement_timestamp"})
# 'now'::text::timestamptz is read when it is evaluated, as a date, a time or a timestamp.
_TEXT_AS_TIME_IN_TREE = re.compile(
    r"\{COERCEVIAIO :arg \{CONST [^{}]*:constvalue \d+ \[ ([-\d ]+) \]\}"
    r" :resulttype (?:1082|1083|1114|1184|1266) "
)
_TIME_WORDS = ("now", "today", "tomorrow", "yesterday")
# The types whose values are shown as names of the catalog: regproc, regclass and so on.  Not those
# of types and of text search, whose names are a part of the query's meaning.
_CATALOG_TYPE_IN_TREE = re.compile(r":\w*type (?:24|2202|2203|2204|2205|4089|4096|4191) ")

_OTHERWISE = (
    "Its answer changes without a change of a source. Keep the value in a table, or use"
    " refresh_mode = 'FULL' or 'AUTO', which compute the query at every refresh."
)

# With the functions that an aggregate consists of, unless PostgreSQL brings the aggregate.
_FUNCTIONS = """
    WITH called AS (
        SELECT p.oid, p.proname, p.pronamespace FROM pg_catalog.pg_proc AS p
         WHERE p.oid = ANY(%(oids)s::oid[])
            OR p.oid IN (SELECT o.oprcode FROM pg_catalog.pg_operator AS o
                          WHERE o.oid = ANY(%(operators)s::oid[]))
    ), found AS (
        SELECT called.oid, '' AS aggregate FROM called
         UNION
        SELECT part.oid, called.proname
          FROM called
          JOIN pg_catalog.pg_aggregate AS a ON a.aggfnoid = called.oid,
               pg_catalog.unnest(ARRAY[a.aggtransfn, a.aggfinalfn, a.aggcombinefn, a.aggserialfn,
                                       a.aggdeserialfn, a.aggmtransfn, a.aggminvtransfn,
                                       a.aggmfinalfn]::oid[]) AS part (oid)
         WHERE called.pronamespace <> 'pg_catalog'::pg_catalog.regnamespace
    )
    SELECT p.oid, p.proname, n.nspname, p.provolatile::text, p.proretset, p.prokind::text,
           p.pronargs, found.aggregate,
           pg_catalog.pg_get_function_identity_arguments(p.oid)
      FROM found
      JOIN pg_catalog.pg_proc AS p ON p.oid = found.oid
      JOIN pg_catalog.pg_namespace AS n ON n.oid = p.pronamespace
     ORDER BY p.proname, p.oid, found.aggregate
"""


class Function(NamedTuple):
    """A function, as PostgreSQL's catalog has it."""

    oid: int
    name: str
    schema: str
    volatility: str
    returns_set: bool
    kind: str
    arity: int
    aggregate: str  # the aggregate that it is a part of; empty: the query calls it itself
    arguments: str  # their types

    @property
    def own(self) -> bool:
        """Whether it is not built in."""
        return self.schema != "pg_catalog"

    @property
    def tells_time(self) -> bool:
        """Whether it is built in and follows from the present moment."""
        return not self.own and (
            self.name in _TIME_FUNCTIONS or (self.name == "age" and self.arity == 1)
        )

    @property
    def tells_of_session(self) -> bool:
        """Whether it is built in and follows from the session, the server or the catalogs."""
        stable = not self.own and self.volatility == "s" and not self.tells_time
        return stable and not follows_from_settings(self.name, self.arguments)

    @property
    def place(self) -> str:
        """The word of the query that leads to it."""
        return self.aggregate or self.name


@dataclass(frozen=True, slots=True)
class Functions:
    """The functions that a query calls."""

    rows: tuple[Function, ...]
    own: tuple[int, ...]  # user-defined ones, by oid
    called: tuple[int, ...]  # all but those behind operators, by oid

    @classmethod
    def read(cls, connection: Connection, trees: Iterable[str]) -> Functions:
        """Read the functions that parse trees name."""
        text = "".join(trees)
        named = {
            "oids": list(map(int, set(_FUNCTION_IN_TREE.findall(text)))),
            "operators": list(map(int, set(_OPERATOR_IN_TREE.findall(text)))),
        }
        rows = tuple(map(Function._make, connection.execute(_FUNCTIONS, named)))
        own = sorted({one.oid for one in rows if one.own})
        return cls(rows, tuple(own), tuple(named["oids"]))

    def volatile(self, user_sql: str) -> Iterator[VolatileFunctionError]:
        """Yield an error for each function that gives other rows for the same data."""
        found = [one for one in self.rows if one.volatility == "v"]
        for one in {(one.schema, one.name, one.aggregate): one for one in found}.values():
            of = f', a part of the aggregate "{one.aggregate}",' if one.aggregate else ""
            yield VolatileFunctionError(
                f'the function "{one.schema}.{one.name}"{of} is volatile',
                detail=underline(user_sql, one.place),
                hint="Its changes cannot be followed; use refresh_mode = 'FULL', compute such"
                " values in the source, or declare the function STABLE or IMMUTABLE if it is.",
            )

    def set_returning(self) -> frozenset[str]:
        """Return the names of those that return sets."""
        return frozenset(one.name for one in self.rows if one.returns_set)

    def aggregates(self) -> frozenset[QualifiedName]:
        """Return the names of the aggregates that are not built in."""
        return frozenset(
            QualifiedName(one.schema, one.name) for one in self.rows if one.kind == "a" and one.own
        )

    def time_dependent(self, trees: Collection[str]) -> bool:
        """Tell whether the answer of the query changes without a change of a table."""
        return (
            self.reads_time(trees)
            or any(one.tells_of_session for one in self.rows)
            or self.shows_names(trees)
        )

    def reads_time(self, trees: Collection[str]) -> bool:
        """Tell whether the answer of the query follows from the present moment or session."""
        return (
            any("{SQLVALUEFUNCTION" in tree for tree in trees)
            or any(one.tells_time for one in self.rows)
            or bool(self.time_unfollowed(trees))
        )

    def time_unfollowed(self, trees: Iterable[str]) -> str:
        """Describe the first form of the current time, or of the session, that no rule follows."""
        text = "".join(trees)
        kinds = {int(kind) for kind in _VALUE_FUNCTION_IN_TREE.findall(text)}
        if any(kind > _LAST_OF_TIME for kind in kinds):
            return "or of the session"
        if kinds - _FOLLOWED:
            return "with a time zone or a precision, as in CURRENT_TIME or CURRENT_TIMESTAMP(0)"
        if any(one.tells_time and one.name == "age" for one in self.rows):
            return "in age() of one argument"
        if any(map(_is_time_word, _TEXT_AS_TIME_IN_TREE.findall(text))):
            return "in a text that is read as a time, as in 'now'::text::timestamptz"
        return ""

    def shows_names(self, trees: Iterable[str]) -> bool:
        """Tell whether a value that stands for a name of the catalog may be shown as text."""
        text = "".join(trees)
        shown = "{COERCEVIAIO" in text or any(
            not one.own and one.volatility == "s" and not one.tells_of_session for one in self.rows
        )
        return shown and _CATALOG_TYPE_IN_TREE.search(text) is not None

    def refusals(self, trees: Iterable[str]) -> Iterator[Refusal]:
        """Name the functions that no rule covers."""
        if self.shows_names(trees):
            yield Refusal("regclass and its like as text, which follow renames", hint=_OTHERWISE)
        ordinary = {
            (one.schema, one.name) for one in self.rows if one.kind == "f" and not one.aggregate
        }
        for one in self.rows:
            if one.tells_of_session:
                yield Refusal(
                    f'the function "{one.name}", which tells of the session, the server or the'
                    " catalogs",
                    one.place,
                    hint=_OTHERWISE,
                )
            if one.kind == "a" and not one.own and not knows_aggregate(one.name):
                yield Refusal(f'the aggregate function "{one.name}"', one.name)
            if one.kind == "a" and one.own and (one.schema, one.name) in ordinary:
                yield Refusal(
                    f'the aggregate function "{one.name}" beside a function of the same name',
                    one.name,
                    hint="Give one of them another name, or call them in two stream tables.",
                )


def _is_time_word(numbers: str) -> bool:
    """Tell whether the bytes of a constant hold a word for a moment."""
    text = bytes(int(one) % 256 for one in numbers.split()).decode(errors="replace").lower()
    return any(word in text for word in _TIME_WORDS)
