"""What docs/compatibility.md says is here has these arguments and columns; the rest is missing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.catalog.databases import Database
from tools.compatibility.facts import (
    ARGUMENTS,
    FUNCTIONS,
    RELATIONS,
    SETTINGS,
    Fit,
    Function,
    Relation,
    Valued,
    split_names,
)
from tools.compatibility.page import only_here

# Filled in by the caller's session; nobody writes them.
_HIDDEN = {"schemas", "author"}
# With another argument, a function of pg_trickle is a procedure here: it asks the daemon.
_SECOND_ROUTINES = {("explain_st", True)}
_READ_ROUTINES = """
    SELECT p.proname, p.prokind = 'p',
           ARRAY(SELECT concat_ws(' = ', a.name,
                                  pg_get_function_arg_default(p.oid, a.n::integer))
                   FROM unnest(p.proargnames, coalesce(
                            p.proargmodes::text[], array_fill('i'::text, ARRAY[p.pronargs])))
                        WITH ORDINALITY AS a (name, mode, n)
                  WHERE a.mode = 'i' ORDER BY a.n),
           ARRAY(SELECT a.name FROM unnest(p.proargnames, p.proargmodes::text[])
                          WITH ORDINALITY AS a (name, mode, n)
                  WHERE a.mode IN ('t', 'o') ORDER BY a.n)
      FROM pg_catalog.pg_proc AS p
     WHERE p.pronamespace = 'pgtrickle'::regnamespace
"""
_READ_COLUMNS = """
    SELECT c.relname, array_agg(a.attname::text ORDER BY a.attnum)
      FROM pg_catalog.pg_class AS c
      JOIN pg_catalog.pg_attribute AS a ON a.attrelid = c.oid
     WHERE c.relnamespace = 'pgtrickle'::regnamespace AND c.relkind IN ('r', 'v', 'p')
       AND a.attnum > 0 AND NOT a.attisdropped
     GROUP BY c.relname
"""
_VERBS = {
    "create": (
        "create_stream_table",
        "create_stream_table_if_not_exists",
        "create_or_replace_stream_table",
    ),
    "alter": ("alter_stream_table",),
}


@dataclass(frozen=True, slots=True)
class Routine:
    """One routine of the catalog."""

    is_procedure: bool
    arguments: list[str]
    columns: list[str]


@pytest.fixture
def routines(catalog: Database) -> dict[str, Routine]:
    """Read the functions and procedures, without the arguments that nobody writes."""
    found = [
        one for one in catalog.execute(_READ_ROUTINES).fetchall() if one[:2] not in _SECOND_ROUTINES
    ]
    assert len({name for name, *_ in found}) == len(found), "a name stands for several routines"
    return {
        name: Routine(
            procedure,
            [_plain(one) for one in given if one.partition(" = ")[0] not in _HIDDEN],
            columns,
        )
        for name, procedure, given, columns in found
    }


def _plain(argument: str) -> str:
    return re.sub(r"::[a-z \[\]]+$", "", argument)


def test_functions_are_here_or_missing_as_listed(routines: dict[str, Routine]) -> None:
    found = {one.name: list(_wrong_about(one, routines)) for one in FUNCTIONS}

    assert {name: wrong for name, wrong in found.items() if wrong} == {}


def _wrong_about(one: Function, routines: dict[str, Routine]) -> Iterator[str]:
    if (one.name in routines) != one.fit.is_here:
        yield f"is {'' if one.name in routines else 'not '}here"
    if one.instead and one.instead not in routines:
        yield f"there is no {one.instead}"
    if not (one.fit.is_here and one.name in routines):
        return
    ours = routines[one.name]
    if one.here.removeprefix("CALL ").partition("(")[0] != one.name:
        yield "has another name here"
    if ours.is_procedure != one.is_procedure:
        yield f"is {'' if ours.is_procedure else 'not '}a procedure"
    if one.arguments is not None and ours.arguments != one.arguments:
        yield f"takes {ours.arguments}"
    if one.columns and ours.columns != split_names(one.columns):
        yield f"returns {ours.columns}"


@pytest.mark.parametrize(("verb", "name"), [(v, name) for v in _VERBS for name in _VERBS[v]])
def test_arguments_of_create_and_alter(verb: str, name: str, routines: dict[str, Routine]) -> None:
    defaults = dict(one.partition(" = ")[::2] for one in routines[name].arguments)
    listed = {one.name: one for one in ARGUMENTS if one.fit.is_here and _takes(one, verb)}
    listed |= {one.instead: one for one in ARGUMENTS if one.instead and _takes(one, verb)}
    kinds = ["arguments of create", *(["arguments of alter alone"] if verb == "alter" else [])]
    new = {one for kind in kinds for one in re.findall(r"\w+", only_here()[kind])}

    assert set(defaults) == set(listed) | new
    assert [one.name for one in ARGUMENTS if one.name in defaults and not one.fit.is_here] == []
    if verb == "create":
        assert {ours: defaults[ours] for ours in listed} == {
            ours: one.here for ours, one in listed.items()
        }


def _takes(one: Valued, verb: str) -> bool:
    return not one.verbs or verb in split_names(one.verbs)


def test_tables_and_views_have_the_columns_that_are_listed(catalog: Database) -> None:
    columns: dict[str, list[str]] = dict(catalog.execute(_READ_COLUMNS).fetchall())
    found = {one.name: list(_wrong_columns(one, columns)) for one in RELATIONS}

    assert {name: wrong for name, wrong in found.items() if wrong} == {}


def _wrong_columns(one: Relation, columns: dict[str, list[str]]) -> Iterator[str]:
    if (one.name in columns) != one.fit.is_here:
        yield f"is {'' if one.name in columns else 'not '}here"
    ours = columns.get(one.name if one.fit.is_here else one.instead, [])
    if one.instead and not ours:
        yield f"there is no {one.instead}"
    said = {*split_names(one.same), *one.other.values()}
    missing = {*split_names(one.without), *one.other}
    yield from (f"lacks {name}" for name in sorted(said - set(ours)))
    yield from (f"has {name}" for name in sorted(missing & set(ours)))
    if one.columns and ours != split_names(one.columns):
        yield f"has {ours}"


def test_settings_of_the_database_have_these_defaults(catalog: Database) -> None:
    query = "SELECT name, default_value FROM pgtrickle.show_settings()"
    stored: dict[str, str] = dict(catalog.execute(query).fetchall())
    listed = {one.name if one.fit.is_here else one.instead: one for one in SETTINGS if one.here}

    ours = {name: one.here for name, one in listed.items() if name in stored}
    assert len(ours) > 25
    assert ours == {name: stored[name] for name in ours}
    missing = [one.name for one in SETTINGS if one.fit not in {Fit.SAME, Fit.DIFFERS}]
    assert [name for name in missing if name in stored] == []
