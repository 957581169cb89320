"""Golden cases: the plan, the reads and the SQL that each rule leads to, for review.

``pytest --update`` rewrites what follows a query, never the query.  Whether the SQL is right is
for the law to tell.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
import sqlglot
from sqlglot import exp

from pgtrickle.algebra.printer import show
from pgtrickle.delta.cut import RecomputeStage, cut
from pgtrickle.model.sql_type import Column
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.plan.stages import StagePlan, plan_differential
from pgtrickle.sql.bound import BoundQuery, Relation
from pgtrickle.sql.lower.query import lower
from pgtrickle.sql.translate import Dialect
from tests.delta.typer import FLOAT8, INT4, INT8, NUMERIC, TEXT
from tests.delta.world import World

_GOLDEN = Path(__file__).parent / "golden"
_TYPES = {"int": INT4, "bigint": INT8, "numeric": NUMERIC, "text": TEXT, "float": FLOAT8}
_CASE = re.compile(
    r"^-- case: (?P<title>.+)\n-- schema: (?P<schema>.+)\n(?P<query>(?:(?!-- ).+\n)+)"
    r"(?P<derived>(?:.*\n)*?)-- end$",
    re.MULTILINE,
)
_TABLE = re.compile(r"(\w+)\(([^)]*)\)")


@dataclass(frozen=True)
class Golden:
    """One case of a golden file."""

    path: Path
    title: str
    schema: str
    query: str
    derived: str


def _cases() -> list[Golden]:
    return [
        Golden(path, match["title"], match["schema"], match["query"], match["derived"])
        for path in sorted(_GOLDEN.glob("*.sql"))
        for match in _CASE.finditer(path.read_text())
    ]


@pytest.mark.parametrize("case", _cases(), ids=lambda case: f"{case.path.stem}: {case.title}")
def test_golden(case: Golden, world: World, request: pytest.FixtureRequest) -> None:
    derived = _derive(case, world)

    if request.config.getoption("--update"):
        head = f"-- case: {case.title}\n-- schema: {case.schema}\n{case.query}"
        text = case.path.read_text()
        case.path.write_text(text.replace(head + case.derived, head + derived))
    else:
        assert derived == case.derived


def _derive(case: Golden, world: World) -> str:
    relations = _relations(case.schema)
    tree = sqlglot.parse_one(case.query, dialect="postgres")
    for table in tree.find_all(exp.Table):
        if QualifiedName("public", table.name) in relations:
            table.set("db", exp.to_identifier("public"))
    assert isinstance(tree, exp.Query)
    columns = tuple(Column(name, TEXT) for name in tree.named_selects)
    bound = BoundQuery(tree.sql(dialect="postgres"), columns, relations, {}, "public")
    staged = cut(lower(bound, world.typer), world.typer)
    changed = [str(relation.relid) for relation in relations.values()]
    plan = plan_differential(
        staged, changed, Dialect.SPARK, lambda stage: f"SELECT * FROM st_1_{stage}"
    )
    return "".join(_section(stage) for stage in plan.stages)


def _section(stage: StagePlan) -> str:
    reads = "".join(
        f"--   {read.view}, bounded by {read.bounded_by}:\n--     {read.sql}\n"
        for read in stage.reads
    )
    kept = (
        f"-- query: {stage.stage.operator.sql}\n" if isinstance(stage.stage, RecomputeStage) else ""
    )
    return (
        f"-- plan of {stage.stage.name}:\n--   {show(stage.plan)}\n"
        f"-- reads:\n{reads}{kept}-- delta:\n{stage.sql}\n"
    )


def _relations(schema: str) -> dict[QualifiedName, Relation]:
    relations = {}
    for number, (name, listed) in enumerate(_TABLE.findall(schema), 1):
        pairs = [column.split() for column in listed.split(", ")]
        columns = tuple(Column(column, _TYPES[type_]) for column, type_ in pairs)
        qualified = QualifiedName("public", name)
        relations[qualified] = Relation(number, qualified, columns)
    return relations
