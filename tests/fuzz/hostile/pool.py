"""Valid queries to start from, and the tables that they read."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cache

from tests.fuzz.cases import Table
from tests.fuzz.data import COLUMNS, NAMES
from tests.fuzz.draw import Draw
from tests.fuzz.grammar import Grammar
from tests.fuzz.kinds import TYPES
from tests.labs.lab import Lab
from tests.queries.select_grammar import GRAMMAR
from tests.workloads.corpus.workload import CORPUS, SCHEMA
from tools.constructs import read_examples

_COLUMNS = (("id", "int"), *COLUMNS)
_TABLES = tuple(Table(name, _COLUMNS, (), keyed=True) for name in NAMES)


@dataclass(frozen=True, slots=True)
class Valid:
    """A query that PostgreSQL accepts, and the search path of its tables."""

    sql: str
    path: str


def draw_valid(source: random.Random) -> Valid:
    """Draw a query of the grammar, the corpus, or the lists of constructs."""
    listed = _listed()
    kind = source.choices(("grammar", *listed), (35, *([65 / len(listed)] * len(listed))))[0]
    if kind == "grammar":
        return Valid(Grammar(Draw(source, _TABLES)).whole().sql, "fuzz, shop, corpus")
    path = "corpus, shop, fuzz" if kind == "corpus" else "shop, fuzz, corpus"
    return Valid(source.choice(listed[kind]), path)


@cache
def _listed() -> dict[str, tuple[str, ...]]:
    return {
        "constructs": tuple(one.query for one in read_examples().constructs),
        "corpus": tuple(CORPUS.queries.values()),
        "select": tuple(one.query for one in GRAMMAR),
    }


def create_tables(lab: Lab) -> None:
    """Create the tables of all these queries; most are empty."""
    lab.run("CREATE SCHEMA shop", "CREATE SCHEMA corpus", "CREATE SCHEMA fuzz")
    lab.run("SET search_path = shop", *read_examples().schema)
    lab.run("SET search_path = corpus", SCHEMA.read_text())
    columns = ", ".join(f"{name} {TYPES[kind].display}" for name, kind in COLUMNS)
    for table in _TABLES:
        lab.run(f"CREATE TABLE fuzz.{table.name} (id int PRIMARY KEY, {columns})")
    lab.run("RESET search_path")
