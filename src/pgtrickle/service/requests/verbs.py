"""The verbs of requests: what SQL sessions may ask for, and what each does.

Adding one is a function here, a line in ``VERBS`` and an entry in
``catalog/asking_procedures.py``, which makes its procedure.  That raises the error itself, so that
psql shows one line of context.  tests/service/requests/ fails until each verb has a procedure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

from pgtrickle.catalog.requests import Request
from pgtrickle.errors import (
    LeaseHeldError,
    RequestRefusedError,
)
from pgtrickle.model.report import RefreshReport
from pgtrickle.model.stream_table import Action, RefreshMode, StreamTable
from pgtrickle.model.text.names import QualifiedName, quote_identifier
from pgtrickle.options.changes import Changes, read_options
from pgtrickle.options.option import OptionVerb
from pgtrickle.options.stream_table import SINK_OPTIONS, options_of
from pgtrickle.service.capturing.pause_and_repair import repair_stream_table
from pgtrickle.service.inboxes import asked as inboxes
from pgtrickle.service.insight.explain import explain_stream_table
from pgtrickle.service.lease_waits import when_free
from pgtrickle.service.lifecycle.alter import alter_stream_table
from pgtrickle.service.lifecycle.bulk import create_all
from pgtrickle.service.lifecycle.create import create_stream_table
from pgtrickle.service.lifecycle.create_or_replace import UNCHANGED, find_changes
from pgtrickle.service.lifecycle.drop import drop_stream_table
from pgtrickle.service.lifecycle.rename import rename_stream_table
from pgtrickle.service.lifecycle.resume import resume_stream_table
from pgtrickle.service.lifecycle.validate import validate_query
from pgtrickle.service.lifecycle.verify import verify_stream_table
from pgtrickle.service.refreshing.dispatch import refresh_when_free
from pgtrickle.service.requests import capture_verbs as capture
from pgtrickle.service.requests import explain_verbs as explanations
from pgtrickle.service.requests import hold_verbs as control
from pgtrickle.service.requests import lake_verbs as lake
from pgtrickle.service.requests import outbox_verbs as outboxes
from pgtrickle.service.requests import shadow_verbs as shadows
from pgtrickle.service.requests import snapshot_verbs as snapshots
from pgtrickle.service.requests.arguments import check_arguments, read_arguments
from pgtrickle.service.requests.ask_daemon import WAITING
from pgtrickle.service.requests.caller import (
    check_caller_exists,
    check_may_act_as_server,
    find_stream_table_of,
    get_own_stream_table,
    name_for_creation,
)
from pgtrickle.service.runtime import Runtime

Notice: TypeAlias = Callable[[str], None]
Arguments: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb of requests; its act returns a value that JSON can hold."""

    name: str
    act: Callable[[Ask, Arguments], Any]
    required: tuple[str, ...]
    optional: tuple[str, ...] = ()

    def check(self, given: object) -> Arguments:
        """Return the arguments, or raise ST605 if they cannot be understood."""
        return check_arguments(self.name, given, required=self.required, optional=self.optional)


@dataclass(frozen=True, slots=True)
class Ask:
    """One request as a verb sees it."""

    runtime: Runtime
    request: Request
    notice: Notice

    @property
    def search_path(self) -> str:
        """The caller's search path, as PostgreSQL reads it."""
        return ", ".join(map(quote_identifier, self.request.schemas)) or '""'


def execute(ask: Ask) -> Any:
    """Do what a request asks for, if its caller may."""
    check_caller_exists(ask)
    verb = VERBS.get(ask.request.verb)
    if verb is None:
        raise RequestRefusedError(
            f'there is no request "{ask.request.verb}"',
            hint=f"Ask for one of {', '.join(sorted(VERBS))}; or the daemon is an older version.",
        )
    return verb.act(ask, verb.check(read_arguments(verb.name, ask.request.arguments)))


def _create(ask: Ask, given: Arguments) -> Any:
    check_may_act_as_server(ask)
    name = name_for_creation(ask, given["name"])
    report = create_stream_table(
        ask.runtime, name, given["query"], read_options(given), search_path=ask.search_path
    )
    created = get_own_stream_table(ask, str(name))
    if created.downgrade_reason:
        ask.notice(f"{name} is recomputed in full: {created.downgrade_reason}")
    for note in created.pinned:
        ask.notice(f"{name}: {note}")
    return {"name": str(name), "status": "created", "pgt_id": created.id, **_rows(report)}


def _create_if_not_exists(ask: Ask, given: Arguments) -> Any:
    existing = find_stream_table_of(ask, given["name"])
    if existing is None:
        return _create(ask, given)
    ask.notice(f'the stream table "{existing.name}" already exists, skipping')
    return {"name": str(existing.name), "status": "exists", "pgt_id": existing.id}


def _create_or_replace(ask: Ask, given: Arguments) -> Any:
    existing = find_stream_table_of(ask, given["name"])
    if existing is None:
        return _create(ask, given)
    check_may_act_as_server(ask)
    get_own_stream_table(ask, str(existing.name))
    changes, query, status = find_changes(
        ask.runtime, existing, given["query"], given, ask.search_path
    )
    if status == UNCHANGED:
        ask.notice(f'the stream table "{existing.name}" already matches this definition')
        return {"name": str(existing.name), "status": status, "pgt_id": existing.id}
    return {**_change(ask, existing, changes, query), "status": status}


def _alter(ask: Ask, given: Arguments) -> Any:
    stream_table = get_own_stream_table(ask, given["name"])
    return _change(ask, stream_table, Changes.read(given), given.get("query"))


def _change(ask: Ask, stream_table: StreamTable, changes: Changes, query: str | None) -> Any:
    if query is not None or changes.given & SINK_OPTIONS:
        check_may_act_as_server(ask)  # whose rights a query has, and who writes files
    altered = alter_stream_table(
        ask.runtime, stream_table.name, changes, query=query, search_path=ask.search_path
    )
    if changes.options.shadow_build and altered.original_query == stream_table.original_query:
        ask.notice(f"{altered.name}: its new query is loaded beside the old one")
    if altered.original_query != stream_table.original_query:
        ask.notice(f"{altered.name}: its query was replaced, and its contents with it")
    if ("refresh_mode" in changes or query is not None) and altered.downgrade_reason:
        ask.notice(f"{altered.name} is recomputed in full: {altered.downgrade_reason}")
    return {"name": str(altered.name), "pgt_id": altered.id}


def _drop(ask: Ask, given: Arguments) -> Any:
    stream_table = get_own_stream_table(ask, given["name"])
    cascade = bool(given.get("cascade", False))
    dropped = drop_stream_table(ask.runtime, stream_table.name, cascade=cascade)
    for other in dropped[:-1]:
        ask.notice(f"drop cascades to {other}")
    return {"dropped": dropped}


def _rename(ask: Ask, given: Arguments) -> Any:
    stream_table = get_own_stream_table(ask, given["name"])
    renamed = rename_stream_table(ask.runtime, stream_table.name, given["new_name"])
    for one in renamed.followed:
        ask.notice(f"{one} reads {renamed.name} by its new name")
    return {
        "name": renamed.name,
        "former_name": renamed.former_name,
        "followed": list(renamed.followed),
        "pgt_id": stream_table.id,
    }


def _refresh(ask: Ask, given: Arguments) -> Any:
    stream_table = get_own_stream_table(ask, given["name"])
    report = refresh_when_free(
        ask.runtime,
        stream_table.name,
        full=bool(given.get("full", False)),
        waiting=_tell_waiting(ask, stream_table),
        seconds=given.get("wait_seconds"),
    )
    recomputed = report.action in {Action.FULL, Action.REINITIALIZE}
    wanted = given.get("full", False) or stream_table.refresh_mode is RefreshMode.FULL
    if report.action in {Action.NO_DATA, Action.SKIPPED} or (recomputed and not wanted):
        ask.notice(f"{report.stream_table}: {report.action.value}: {report.reason}")
    return {"name": report.stream_table, **_rows(report)}


def _rows(report: RefreshReport | None) -> dict[str, Any]:
    if report is None:
        return {}
    return {
        "refresh_id": report.refresh_id,
        "action": report.action.value,
        "reason": report.reason,
        "rows_inserted": report.rows_inserted,
        "rows_deleted": report.rows_deleted,
        "duration_ms": round(report.duration_ms, 3),
    }


def _resume(ask: Ask, given: Arguments) -> Any:
    stream_table = get_own_stream_table(ask, given["name"])
    resumed = resume_stream_table(ask.runtime, stream_table.name)
    return {"name": str(resumed.name), "pgt_id": resumed.id}


def _repair(ask: Ask, given: Arguments) -> Any:
    stream_table = get_own_stream_table(ask, given["name"])
    mended = repair_stream_table(ask.runtime, stream_table.name)
    return "\n".join(f"{one.source}: {one.what}" for one in mended)


def _verify(ask: Ask, given: Arguments) -> Any:
    stream_table = get_own_stream_table(ask, given["name"])
    report = when_free(
        lambda: verify_stream_table(ask.runtime, stream_table.name),
        waiting=_tell_waiting(ask, stream_table),
        seconds=given.get("wait_seconds"),
    )
    return {
        "name": report.stream_table,
        "ok": report.ok,
        "rows": report.rows,
        "missing": report.missing,
        "extra": report.extra,
        "missing_sample": report.missing_sample,
        "extra_sample": report.extra_sample,
    }


def _tell_waiting(ask: Ask, stream_table: StreamTable) -> Callable[[LeaseHeldError], None]:
    return lambda error: ask.notice(f"{stream_table.name}{WAITING}{error}")


def _explain(ask: Ask, given: Arguments) -> Any:
    stream_table = get_own_stream_table(ask, given["name"])
    analyze = bool(given.get("with_analyze", False))
    return when_free(
        lambda: explain_stream_table(
            ask.runtime, stream_table.name, given.get("format", "text"), with_analyze=analyze
        ),
        waiting=_tell_waiting(ask, stream_table),
        seconds=given.get("wait_seconds"),
    )


def _validate(ask: Ask, given: Arguments) -> Any:
    check_may_act_as_server(ask)
    validation = validate_query(ask.runtime, given["query"], ask.search_path)
    mode = validation.refresh_mode
    return {
        "differential": validation.differential,
        "usable": validation.usable,
        "refresh_mode": None if mode is None else mode.value,
        "reasons": [
            {"code": one.code, "message": str(one), "hint": one.hint} for one in validation.reasons
        ],
        "columns": [
            {"name": column.name, "type": column.type.display} for column in validation.columns
        ],
        "sources": [str(source.name) for source in validation.sources],
    }


def _bulk_create(ask: Ask, given: Arguments) -> Any:
    """Create all or, if one fails, none: what was made before it is dropped again."""

    def create(definition: object) -> Any:
        return _create(ask, _CREATE.check(definition))

    def drop(made: Arguments) -> None:
        drop_stream_table(ask.runtime, QualifiedName.parse(made["name"]), cascade=False)

    return {"created": create_all(given["definitions"], create, drop)}


def _bulk_alter(ask: Ask, given: Arguments) -> Any:
    names = [str(get_own_stream_table(ask, str(name)).name) for name in given["names"]]
    changes = [_ALTER.check(given["params"] | {"name": name}) for name in names]
    for change in changes:
        _alter(ask, change)
    return len(changes)


def _bulk_drop(ask: Ask, given: Arguments) -> Any:
    wanted = [get_own_stream_table(ask, str(name)).name for name in given["names"]]
    for name in wanted:
        drop_stream_table(ask.runtime, name, cascade=False)
    return len(wanted)


_DEFINITION = tuple(one.name for one in options_of(OptionVerb.CREATE))
_CHANGES = ("query", *(one.name for one in options_of(OptionVerb.ALTER)))
_ONE = ("name",)
_FROM = ("name", "source")
_GROUP = ("group_name", "names")
_NEW = ("name", "query")
_CREATE = Verb("create_stream_table", _create, _NEW, _DEFINITION)
_ALTER = Verb("alter_stream_table", _alter, _ONE, _CHANGES)

VERBS: Mapping[str, Verb] = MappingProxyType(
    {
        verb.name: verb
        for verb in (
            _CREATE,
            Verb("create_stream_table_if_not_exists", _create_if_not_exists, _NEW, _DEFINITION),
            Verb("create_or_replace_stream_table", _create_or_replace, _NEW, _DEFINITION),
            _ALTER,
            Verb("drop_stream_table", _drop, _ONE, ("cascade",)),
            Verb("rename_stream_table", _rename, ("name", "new_name")),
            Verb("refresh_stream_table", _refresh, _ONE, ("full", "wait_seconds")),
            Verb("resume_stream_table", _resume, _ONE),
            Verb("repair_stream_table", _repair, _ONE),
            Verb("verify_stream_table", _verify, _ONE, ("wait_seconds",)),
            Verb(
                "explain_stream_table",
                _explain,
                _ONE,
                ("format", "with_analyze", "wait_seconds"),
            ),
            Verb("validate_query", _validate, ("query",)),
            Verb("bulk_create", _bulk_create, ("definitions",)),
            Verb("bulk_alter_stream_tables", _bulk_alter, ("names", "params")),
            Verb("bulk_drop_stream_tables", _bulk_drop, ("names",)),
            Verb(
                "snapshot_stream_table", snapshots.take, _ONE, ("target", "to_lake", "wait_seconds")
            ),
            Verb("restore_from_snapshot", snapshots.restore, _FROM, ("wait_seconds",)),
            Verb("drop_snapshot", snapshots.drop, ("table",)),
            Verb(
                "enable_outbox",
                outboxes.enable_outbox,
                _ONE,
                ("retention_hours", "inline_threshold_rows", "wait_seconds"),
            ),
            Verb("disable_outbox", outboxes.disable_outbox, _ONE, ("if_exists", "wait_seconds")),
            Verb(
                "create_inbox",
                inboxes.create,
                _ONE,
                (
                    "schema",
                    "max_retries",
                    "with_dead_letter",
                    "with_stats",
                    "schedule_seconds",
                    "retention_hours",
                ),
            ),
            Verb("drop_inbox", inboxes.drop, _ONE, ("if_exists",)),
            Verb(
                "enable_inbox_ordering",
                inboxes.enable_ordering,
                _ONE,
                ("aggregate_column", "sequence_column", "skip_dead_letters"),
            ),
            Verb("disable_inbox_ordering", inboxes.disable_ordering, _ONE),
            Verb(
                "enable_inbox_priority",
                inboxes.enable_priority,
                _ONE,
                ("priority_column", "urgent_from", "schedule_seconds"),
            ),
            Verb("disable_inbox_priority", inboxes.disable_priority, _ONE),
            Verb("promote_shadow", shadows.promote, _ONE),
            Verb("cancel_shadow", shadows.cancel, _ONE),
            Verb("compare_shadow", shadows.compare, _ONE, ("max_rows",)),
            Verb("show_as_of", lake.show_past, ("name", "as_of"), ("columns", "max_rows")),
            Verb("pause_scheduler", control.pause, ("names",)),
            Verb("resume_scheduler", control.resume, ("names",)),
            Verb("create_refresh_group", control.create_group, _GROUP, ("isolation",)),
            Verb("drop_refresh_group", control.drop_group, ("group_name",)),
            Verb("pause_cdc", capture.pause, (), ("names",)),
            Verb("resume_cdc", capture.resume, (), ("names",)),
            Verb("rebuild_cdc_triggers", capture.rebuild, ()),
            Verb("reset_fuse", control.reset, _ONE, ("action",)),
            Verb("set_stream_table_sla", control.set_sla, _ONE, ("sla_s",)),
            Verb("diamond_groups", explanations.diamond_groups, ()),
            Verb("explain_delta", explanations.delta, _ONE),
            Verb("explain_query_rewrite", explanations.query_rewrite, ("query",)),
            Verb("diagnose_errors", explanations.explain_errors, _ONE),
            Verb("setup_self_monitoring", explanations.set_up_monitoring, (), ("schedule",)),
            Verb("teardown_self_monitoring", explanations.tear_down_monitoring, ()),
            Verb("cache_stats", explanations.cache_stats, ()),
            Verb("clear_caches", explanations.clear_caches, ()),
            Verb(
                "attach_ducklake_table",
                lake.attach,
                ("name", "lake_table"),
                ("columns", "catalog_schema", "compaction_policy"),
            ),
            Verb("detach_ducklake_table", lake.detach, _ONE),
            Verb("move_ducklake_catalog", lake.move, (), ("to_schema", "from_schema")),
        )
    }
)
