"""The body of a function that follows changes: the stages of a refresh, kept in variables.

The statements are those of a refresh by PostgreSQL (docs/adr/0041).  What lies between two of them
is kept in variables, as arrays of rows: temporary tables of a writer's session belong to the
writer, who could put triggers on them, and a transaction that has touched one cannot be prepared.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from pgtrickle.algebra.nodes import Scan, SourceKind
from pgtrickle.algebra.schema import scans_of
from pgtrickle.delta.cut import (
    AggregateStage,
    RecomputeStage,
    RowsStage,
    StatefulStage,
    passes_through,
)
from pgtrickle.delta.layout import WEIGHT
from pgtrickle.delta.reads import Read
from pgtrickle.immediate.blueprint import Blueprint, changed_rows, unnested, variable
from pgtrickle.immediate.locking import (
    SLOTS,
    LockMode,
    changes_rows_in_place,
    group_keys,
    keeps_rows_apart,
    shown_keys,
)
from pgtrickle.model.sql_type import BIGINT, BOOLEAN, Column
from pgtrickle.model.text.names import quote_literal
from pgtrickle.plan.stages import StagePlan, changes_reads, changing_scans, plan_stage
from pgtrickle.postgres_engine.changes import Changes, consolidated
from pgtrickle.postgres_engine.stage import distinct_values, write_stage
from pgtrickle.sql.emit import changes_view
from pgtrickle.sql.translate import Dialect
from pgtrickle.storage.apply import write_delete, write_insert, write_result, write_update
from pgtrickle.storage.definitions import column_definitions
from pgtrickle.storage.identity import row_hash
from pgtrickle.storage.merge import AggregateMerge
from pgtrickle.storage.recompute import RecomputeMerge

_WEIGHT = Column(WEIGHT, BIGINT)
# Up to this many rows a plan that was made for any number of them does no harm.
_FEW = 200


@dataclass(slots=True)
class Following:
    """Writes the statements that follow changes of some sources, and the types they need."""

    blueprint: Blueprint
    types: dict[str, str] = field(default_factory=dict)  # definitions by name
    _variables: dict[str, str] = field(default_factory=dict)
    _changes: dict[str, str] = field(default_factory=dict)  # relations of them, by stage
    _lines: list[str] = field(default_factory=list)

    def write(self, sources: Collection[int]) -> str:
        """Write the body of a block whose variables hold the changed rows of the sources."""
        self._variables, self._changes, self._lines = {}, {}, []
        moved = {str(relid) for relid in sources}
        counts = " + ".join(
            f"pg_catalog.cardinality({variable(f'source_{one}')})" for one in sorted(sources)
        )
        self._add(
            f"IF {counts} > {_FEW} THEN",
            "    PERFORM pg_catalog.set_config('plan_cache_mode', 'force_custom_plan', true),"
            " pg_catalog.set_config('enable_seqscan', 'on', true);",
            "END IF;",
        )
        for stage in self.blueprint.query.stages:
            if self._stage(stage, moved):
                moved.add(stage.name)
        declared = "\n".join(
            f"    {name} {type_} := '{{}}';" for name, type_ in self._variables.items()
        )
        body = "\n".join(f"    {line}" for line in self._lines)
        numbers = "".join(f"    __pgt_{one} bigint;\n" for one in ("expected", "number", "moved"))
        return f"DECLARE\n{numbers}{declared}\nBEGIN\n{body}\nEND;"

    def _add(self, *lines: str) -> None:
        self._lines += lines

    def _array(self, name: str, columns: Sequence[Column], query: str, **others: str) -> None:
        """Keep the rows of a query in a variable; the order of its columns is that of the type.

        ``others`` are further variables, with what aggregates find over the same rows.
        """
        type_ = self.blueprint.object(name)
        self.types[type_] = column_definitions(columns)
        self._variables[variable(name)] = f"{type_}[]"
        rows = f"FROM (\n{query}\n) AS one"
        if not others:
            self._add(f"{variable(name)} := ARRAY(SELECT ROW(one.*)::{type_} {rows});")
            return
        found = [f"COALESCE(pg_catalog.array_agg(ROW(one.*)::{type_}), '{{}}')", *others.values()]
        kept = [variable(name), *map(variable, others)]
        self._add(f"SELECT {', '.join(found)} INTO {', '.join(kept)} {rows};")

    def _stage(self, stage: StatefulStage | RowsStage, moved: Collection[str]) -> bool:
        """Write one stage; return whether it can have changes."""
        scans = changing_scans(stage, moved)
        if not scans:
            return False
        if isinstance(stage, RowsStage) and stage.passes_through is not None:
            condition = stage.body.predicate if isinstance(stage.body, Scan) else None
            source = f"{self._changes[stage.passes_through]} AS changes"
            self._apply(write_result(stage.outputs, source, condition, weight=WEIGHT))
            return False
        aliases = frozenset(scan.alias for scan in scans)
        blueprint = self.blueprint
        plan = plan_stage(stage, aliases, Dialect.POSTGRES, blueprint.state_rows, blueprint.known)
        if plan is None:
            return False
        if len(scans) == 1 and all(one.view == changes_view(scans[0]) for one in plan.reads):
            # Nothing is looked up by these changes: what is made of them adds them up.
            changes, counts = {changes_view(scans[0]): f"({self._raw(scans[0])})"}, ""
        else:
            changes = self._collect(stage, scans)
            counts = " + ".join(f"pg_catalog.cardinality({one})" for one in changes.values())
            changes = {view: f"pg_catalog.unnest({one})" for view, one in changes.items()}
            self._add(f"IF {counts} > 0 THEN")
        self._compute(plan, changes)
        if isinstance(stage, RowsStage):
            source = f"{unnested('result_staged')} AS staged"
            self._apply(write_result(stage.outputs, source, None, weight=WEIGHT))
        else:
            self._merge(stage)
        if counts:
            self._add("END IF;")
        return not passes_through(stage)

    def _collect(self, stage: StatefulStage | RowsStage, scans: Sequence[Scan]) -> dict[str, str]:
        """Keep the consolidated changes of each scan; return the variables by relation."""
        found = {}
        # Numbered among all scans: the type of a row is the same in every function.
        aliases = list(dict.fromkeys(scan.alias for scan in scans_of(stage.body)))
        for scan, read in zip(scans, changes_reads(stage, scans), strict=True):
            query = consolidated(read, self._raw(scan))
            name = f"{stage.name}_change_{aliases.index(scan.alias) + 1}"
            self._array(name, (*read.columns, _WEIGHT), query)
            found[changes_view(scan)] = variable(name)
        return found

    def _raw(self, scan: Scan) -> str:
        """Write the changes of a scan as they are known."""
        kept = scan.source.kind is SourceKind.STATE
        key = scan.source.key
        rows = self._changes[key] if kept else unnested(f"source_{key}")
        return changed_rows(scan, rows)

    def _compute(self, plan: StagePlan, changes: dict[str, str]) -> None:
        stage, others = plan.stage, dict[str, str]()
        if self.blueprint.locking.mode is LockMode.GROUP and not isinstance(stage, RowsStage):
            slot = f"({row_hash(group_keys(stage), 'one')} & {SLOTS - 1})::int4"
            others["slots"] = f"pg_catalog.array_agg(DISTINCT {slot})"
            self._variables[variable("slots")] = "pg_catalog.int4[]"
        tables = {
            one.view: Changes(
                one, f"{changes[one.view]} AS changes", 0, self._keys(one, plan, changes)
            )
            for one in plan.reads
            if one.view in changes
        }
        conditions = {one: "true" for each in plan.reads for one in each.ranges}
        query = write_stage(plan, tables, conditions, {})
        self._array(f"{stage.name}_staged", plan.columns, query, **others)

    def _keys(self, read: Read, plan: StagePlan, changes: dict[str, str]) -> dict[str, str]:
        """Keep the values by which changes bound reads: so the planner knows how many they are."""
        found = {}
        types = {column.name: column.type.display for column in read.columns}
        bounding = {
            one.column for each in plan.reads for one in each.key_arrays if one.view == read.view
        }
        for number, column in enumerate(sorted(bounding), 1):
            # Of this stage: in another one the same relation has other columns.
            name = variable(f"{plan.stage.name}_{read.view}_{number}")
            self._variables[name] = f"{types[column]}[]"
            self._add(f"{name} := {distinct_values(f'{changes[read.view]} AS changes', column)};")
            found[column] = name
        return found

    def _merge(self, stage: StatefulStage) -> None:
        self._add(f"IF pg_catalog.cardinality({variable(f'{stage.name}_staged')}) > 0 THEN")
        if self.blueprint.locking.mode is LockMode.GROUP:
            self._wait_for_groups(stage)
            self._check_again()
        if isinstance(stage, AggregateStage):
            self._merge_aggregate(stage)
        else:
            self._merge_recompute(stage)
        self._add("END IF;")

    def _wait_for_groups(self, stage: StatefulStage) -> None:
        """Wait for other writers of the groups.

        Where groups change in place, a group that is there is waited for by its row; only who
        creates or removes one has a turn (see ``one_group.py``).  The rows come first: who holds
        one may want a turn later.
        """
        if not isinstance(stage, AggregateStage) or not self._in_place:
            self._take_turns()
            return
        staged = f"{unnested(f'{stage.name}_staged')} AS staged"
        lock = AggregateMerge(self.blueprint.id, stage, staged, "", "").lock_groups()
        self._add(
            f"{lock};",
            "GET DIAGNOSTICS __pgt_number = ROW_COUNT;",
            f"IF __pgt_number < pg_catalog.cardinality({variable(f'{stage.name}_staged')}) THEN",
        )
        self._take_turns()
        self._add(f"{lock};", "END IF;")

    @property
    def _in_place(self) -> bool:
        blueprint = self.blueprint
        return not blueprint.has_outbox and changes_rows_in_place(blueprint.query)

    def _take_turns(self) -> None:
        """Wait for the groups; most often there is one, and its turn is taken without more ado."""
        number, slots = self.blueprint.id, variable("slots")
        self._add(
            f"IF pg_catalog.cardinality({slots}) > 1 THEN",
            f"    PERFORM pgtrickle.take_turns({number}, {slots});",
            "ELSE",
            "    UPDATE pgtrickle.pgt_immediate_turns AS t",
            "       SET xid = pg_catalog.pg_current_xact_id()",
            f"     WHERE t.pgt_id = {number} AND t.slot = {slots}[1]",
            "       AND t.xid IS DISTINCT FROM pg_catalog.pg_current_xact_id();",
            "END IF;",
        )

    def _check_again(self) -> None:
        """While a turn is waited for, others may change what the texts after it mean."""
        number = self.blueprint.id
        if self.blueprint.names_others:
            self._add(
                f"IF pgtrickle.find_misfit({number}) IS NOT NULL THEN",
                f"    PERFORM pgtrickle.defer_immediate({number},"
                f" pgtrickle.find_misfit({number}));",
                "    RETURN;",
                "END IF;",
            )

    def _merge_aggregate(self, stage: AggregateStage) -> None:
        name, number = stage.name, self.blueprint.id
        touched, changes = f"{name}_touched", f"{name}_changes"
        staged = f"{unnested(f'{name}_staged')} AS staged"
        merge = AggregateMerge(number, stage, staged, unnested(touched), unnested(changes))
        for values in stage.layout.values:
            self._add(f"{merge.merge_values(values)};")
        negative, endless = merge.impossible_counts()
        in_place = self._in_place
        moved = {"moved": merge.count_moved()} if in_place else {}
        self._array(
            touched,
            merge.touched_columns,
            merge.touched(grouped=in_place),
            expected=negative,
            number=endless,
            **moved,
        )
        self._add(
            "IF __pgt_expected > 0 THEN",
            f"    {_diverged(self.blueprint)}",
            "END IF;",
            "IF __pgt_number > 0 THEN",
            f"    RAISE EXCEPTION 'the stream table % adds up NaN or Infinity, which no later"
            f" change takes back', {quote_literal(str(self.blueprint.name))}",
            "        USING ERRCODE = 'ST405', HINT = 'Keep these values out with WHERE.';",
            "END IF;",
        )
        if in_place:
            self._change_in_place(merge, touched)
        self._add(f"{merge.merge_groups()};")
        if self._read_once(name):
            self._changes[name] = f"({merge.changes()})"
            return
        shown = (Column(one.name, one.type) for one in stage.layout.shown)
        self._array(changes, (*stage.layout.keys, *shown, _WEIGHT), merge.changes())
        self._changes[name] = unnested(changes)

    def _change_in_place(self, merge: AggregateMerge, touched: str) -> None:
        """Let groups that were there, and stay, show another row; that is all there is to do."""
        blueprint, rows = self.blueprint, self.blueprint.query.rows
        versions = merge.shown_row(old=True), merge.shown_row(old=False)
        fixed = shown_keys(blueprint.query)
        update = write_update(blueprint.name, rows.outputs, fixed, unnested(touched), versions)
        self._add(
            f"IF __pgt_moved = 0 AND pgtrickle.changes_in_place({blueprint.relid}) THEN",
            f"{merge.update_groups()};",
            f"{update};",
            "GET DIAGNOSTICS __pgt_number = ROW_COUNT;",
            f"IF __pgt_number <> pg_catalog.cardinality({variable(touched)}) THEN",
            f"    {missing_rows(blueprint)}",
            "END IF;",
            "RETURN;",
            "END IF;",
        )

    def _read_once(self, stage: str) -> bool:
        """Tell whether only the contents follow the changes of a stage."""
        query = self.blueprint.query
        readers = [
            one
            for one in query.stages
            if any(scan.source.key == stage for scan in scans_of(one.body))
        ]
        return readers == [query.rows] and query.rows.passes_through == stage

    def _merge_recompute(self, stage: RecomputeStage) -> None:
        name, number, operator = stage.name, self.blueprint.id, stage.operator
        net, touched, changes = (f"{name}_{one}" for one in ("net", "touched", "changes"))
        staged = f"{unnested(f'{name}_staged')} AS staged"
        merge = RecomputeMerge(
            number, stage, staged, unnested(net), unnested(touched), unnested(changes)
        )
        self._array(net, (*stage.inputs, _WEIGHT), merge.net())
        if operator.keys:
            marked = Column("__touched", BOOLEAN)
            self._array(touched, (*operator.keys, marked), merge.touched())
        self._add(f"{merge.merge_input()};")
        result = (*operator.outputs, _WEIGHT)
        if operator.growth:
            gone = f"EXISTS (SELECT FROM {unnested(net)} AS net WHERE {WEIGHT} < 0)"
            self._add(f"IF NOT {gone} THEN")
            self._array(changes, result, merge.growth())
            self._add("ELSE")
            self._array(changes, result, merge.changes())
            self._add("END IF;")
        else:
            self._array(changes, result, merge.changes())
        self._add(f"{merge.merge_result()};")
        self._changes[name] = unnested(changes)

    def _apply(self, rows: str) -> None:
        """Write the changes of the contents."""
        blueprint = self.blueprint
        name, columns = blueprint.name, blueprint.columns
        gone = f"COALESCE(sum(-{WEIGHT}) FILTER (WHERE {WEIGHT} < 0), 0)"
        self._array("result", (*columns, _WEIGHT), rows, expected=gone)
        self._add(
            f"IF pg_catalog.cardinality({variable('result')}) > 0 THEN",
            f"PERFORM pgtrickle.open_guard({blueprint.relid}::pg_catalog.oid);",
            "IF __pgt_expected > 0 THEN",
        )
        if blueprint.locking.mode is LockMode.EXCLUSIVE or keeps_rows_apart(blueprint.query):
            self._delete()
        else:
            self._delete_among_others()
        self._add("END IF;", f"{write_insert(name, columns, unnested('result'))};")
        if blueprint.has_outbox:
            self._add(f"PERFORM {blueprint.object('follow_outbox')}({variable('result')});")
        self._add("END IF;")

    def _delete(self) -> None:
        blueprint = self.blueprint
        found, delete = write_delete(blueprint.name, blueprint.columns, unnested("result"))
        self._add(
            f"{found}{delete};",
            "GET DIAGNOSTICS __pgt_number = ROW_COUNT;",
            "IF __pgt_number <> __pgt_expected THEN",
            f"    {missing_rows(blueprint)}",
            "END IF;",
        )

    def _delete_among_others(self) -> None:
        """Delete rows of which others may be deleting equal ones: lock them, and look again."""
        blueprint = self.blueprint
        table = blueprint.name.sql
        found, _ = write_delete(blueprint.name, blueprint.columns, unnested("result"))
        chosen = f"{found}SELECT __row FROM found WHERE __copy <= -found.{WEIGHT}"
        self._variables["__pgt_chosen"] = self._variables["__pgt_locked"] = "pg_catalog.tid[]"
        self._add(
            "LOOP",
            f"__pgt_chosen := ARRAY({chosen});",
            "IF pg_catalog.cardinality(__pgt_chosen) <> __pgt_expected THEN",
            f"    {missing_rows(blueprint)}",
            "END IF;",
            f"__pgt_locked := ARRAY(SELECT stored.ctid FROM {table} AS stored"
            " WHERE stored.ctid = ANY (__pgt_chosen) FOR UPDATE);",
            "EXIT WHEN pg_catalog.cardinality(__pgt_locked) = __pgt_expected;",
            "END LOOP;",
            f"DELETE FROM {table} AS stored WHERE stored.ctid = ANY (__pgt_locked);",
        )


def _diverged(blueprint: Blueprint) -> str:
    return _raise(blueprint, "the state of the stream table % does not contain what goes")


def missing_rows(blueprint: Blueprint) -> str:
    """Raise that rows of the contents are not there."""
    return _raise(blueprint, "the stream table % does not contain all rows that go")


def _raise(blueprint: Blueprint, message: str) -> str:
    name = quote_literal(str(blueprint.name))
    hint = quote_literal(f"Rebuild it with: pgtrickle refresh {blueprint.name}")
    return f"RAISE EXCEPTION '{message}', {name} USING ERRCODE = 'ST406', HINT = {hint};"
