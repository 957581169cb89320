"""``explain_stream_table``: how a stream table is maintained, before anything runs."""

from __future__ import annotations

import json
from dataclasses import dataclass

from psycopg import Connection

from pgtrickle.algebra.nodes import Node, Scan, SourceKind, Version
from pgtrickle.algebra.printer import describe, show, tree
from pgtrickle.algebra.schema import children_of, scans_of
from pgtrickle.catalog.stream_tables import get_stream_table
from pgtrickle.delta.cut import RowsStage
from pgtrickle.delta.key_sets import bounds_of
from pgtrickle.errors import SettingError
from pgtrickle.model.names import QualifiedName, quote_identifier
from pgtrickle.model.stream_table import StreamTable
from pgtrickle.refresh.stages import StagePlan, plan_differential, plan_full, sources_of
from pgtrickle.service.compile import Compiled, compile_stream_table
from pgtrickle.service.runtime import Runtime
from pgtrickle.service.state_rows import StateRows
from pgtrickle.sql.scalars import bare_column
from pgtrickle.storage.state_tables import tables_of

_INDEXED = """
    SELECT EXISTS (
        SELECT 1
          FROM pg_catalog.pg_index AS i
          JOIN pg_catalog.pg_attribute AS a
            ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
         WHERE i.indrelid = %(relid)s::oid AND a.attname = %(column)s
           AND i.indisvalid AND i.indpred IS NULL
    )
"""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Everything ``explain`` shows, as data."""

    stream_table: StreamTable
    compiled: Compiled
    stages: tuple[StagePlan, ...]
    missing_indexes: tuple[str, ...]


def explain_stream_table(runtime: Runtime, name: QualifiedName, output: str) -> str:
    """Explain the refresh in which every source has changed, as text, JSON or DOT."""
    writers = {"text": _as_text, "json": _as_json, "dot": _as_dot}
    if output not in writers:
        raise SettingError(
            f'the format "{output}" does not exist', hint="Choose text, json or dot."
        )
    with runtime.connection() as connection:
        return writers[output](_explain(runtime, connection, name))


def _explain(runtime: Runtime, connection: Connection, name: QualifiedName) -> Explanation:
    stream_table = get_stream_table(connection, name)
    compiled = compile_stream_table(connection, stream_table)
    state_rows = StateRows(stream_table.id, compiled)
    dialect = runtime.engine.dialect
    if compiled.refusal is None:
        changed = list(sources_of(compiled.staged))
        plan = plan_differential(compiled.staged, changed, dialect, state_rows)
    else:
        plan = plan_full(compiled.staged, dialect, state_rows)
    return Explanation(
        stream_table, compiled, plan.stages, _missing_indexes(connection, plan.stages)
    )


def _missing_indexes(connection: Connection, stages: tuple[StagePlan, ...]) -> tuple[str, ...]:
    """Return the CREATE INDEX statements without which a bounded read scans its table."""
    missing: dict[str, None] = {}
    for stage in stages:
        scans = {scan.alias: scan for scan in scans_of(stage.plan)}
        for alias, bounds in bounds_of(stage.plan).items():
            scan = scans[alias]
            if scan.source.kind is not SourceKind.TABLE or scan.source.relation is None:
                continue
            for bound in bounds:
                columns = [_own_column(scan, restriction.column) for restriction in bound]
                if bound and not any(
                    column and _is_indexed(connection, scan.source.relid, column)
                    for column in columns
                ):
                    wanted = columns[0]
                    if wanted is not None:
                        relation = scan.source.relation.sql
                        missing[f"CREATE INDEX ON {relation} ({quote_identifier(wanted)});"] = None
    return tuple(missing)


def _own_column(scan: Scan, name: str) -> str | None:
    for output in scan.outputs:
        if output.name == name:
            return bare_column(output.scalar)
    return None


def _is_indexed(connection: Connection, relid: int, column: str) -> bool:
    [(indexed,)] = connection.execute(_INDEXED, {"relid": relid, "column": column}).fetchall()
    return bool(indexed)


def _state_tables(explanation: Explanation, stage: StagePlan) -> list[str]:
    if isinstance(stage.stage, RowsStage):
        return []
    return [str(name) for name in tables_of(explanation.stream_table.id, stage.stage)]


def _as_text(explanation: Explanation) -> str:
    table, compiled = explanation.stream_table, explanation.compiled
    lines = [
        f"stream table {table.name}",
        f"mode: {table.refresh_mode.value}, in effect {table.effective_refresh_mode.value}",
    ]
    if compiled.refusal is not None:
        lines += [f"not differential: {compiled.refusal}", compiled.refusal.detail]
    if compiled.algebra is not None:
        lines += ["", "query:", _indented(tree(compiled.algebra.node))]
    for stage in explanation.stages:
        lines += ["", f"stage {stage.stage.name}:", f"  delta: {show(stage.plan)}"]
        state = _state_tables(explanation, stage)
        lines += [f"  state: {', '.join(state)}"] if state else []
        for read in stage.reads:
            lines += [
                f"  read {read.view} ({read.kind.value}) from {read.source}",
                f"    bounded by {read.bounded_by}",
                f"    {read.sql}",
            ]
        lines += ["  engine:", _indented(stage.sql, 4)]
    through = compiled.staged.rows.passes_through
    if through is not None:
        lines += ["", f"result: the changes of {through}, projected by PostgreSQL"]
    if explanation.missing_indexes:
        lines += ["", "missing indexes (each bounded read without one scans its table):"]
        lines += [f"  {statement}" for statement in explanation.missing_indexes]
    return "\n".join(lines)


def _as_json(explanation: Explanation) -> str:
    table, compiled = explanation.stream_table, explanation.compiled
    return json.dumps(
        {
            "stream_table": str(table.name),
            "refresh_mode": table.refresh_mode.value,
            "effective_refresh_mode": table.effective_refresh_mode.value,
            "refusal": str(compiled.refusal) if compiled.refusal else None,
            "query": _node_json(compiled.algebra.node) if compiled.algebra else None,
            "stages": [
                {
                    "name": stage.stage.name,
                    "delta": show(stage.plan),
                    "state": _state_tables(explanation, stage),
                    "reads": [
                        {
                            "relation": read.view,
                            "source": read.source,
                            "kind": read.kind.value,
                            "bounded_by": read.bounded_by,
                            "sql": read.sql,
                        }
                        for read in stage.reads
                    ],
                    "engine_sql": stage.sql,
                }
                for stage in explanation.stages
            ],
            "missing_indexes": list(explanation.missing_indexes),
        },
        indent=2,
    )


def _node_json(node: Node) -> dict[str, object]:
    return {
        "operator": type(node).__name__,
        "description": describe(node),
        "inputs": [_node_json(child) for child in children_of(node)],
    }


def _as_dot(explanation: Explanation) -> str:
    lines = [f"digraph {_dot_quote(str(explanation.stream_table.name))} {{", "  rankdir=BT;"]
    for stage in explanation.stages:
        lines.append(f"  subgraph {_dot_quote('cluster_' + stage.stage.name)} {{")
        lines.append(f"    label={_dot_quote(stage.stage.name)};")
        _dot_node(stage.plan, stage.stage.name, lines)
        lines.append("  }")
    lines.append("}")
    return "\n".join(lines)


def _dot_node(node: Node, name: str, lines: list[str]) -> None:
    label = describe(node)
    if isinstance(node, Scan) and node.version is Version.CHANGES:
        label = f"changes of {label}"
    lines.append(f"    {_dot_quote(name)} [shape=box, label={_dot_quote(label)}];")
    for number, child in enumerate(children_of(node)):
        below = f"{name}.{number}"
        _dot_node(child, below, lines)
        lines.append(f"    {_dot_quote(below)} -> {_dot_quote(name)};")


def _dot_quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _indented(text: str, by: int = 2) -> str:
    return "\n".join(" " * by + line for line in text.splitlines())
