"""The verbs of requests: what SQL sessions may ask for, and what each does.

Adding one is a function here, a line in ``VERBS`` and a procedure in a migration;
tests/service/requests/test_verbs.py fails until each verb has its procedure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

from pgtrickle.catalog.graph import list_nodes
from pgtrickle.catalog.requests import Request
from pgtrickle.errors import (
    RequestRefusedError,
    SettingError,
    StatusForbidsError,
    TrickleError,
)
from pgtrickle.model.cdc_mode import parse_cdc_mode
from pgtrickle.model.delta_fraction import DEFAULT, Fraction, check_fraction
from pgtrickle.model.diamonds import Diamond
from pgtrickle.model.lengths import shorten
from pgtrickle.model.modes import parse_refresh_mode, parse_status
from pgtrickle.model.names import QualifiedName, quote_identifier
from pgtrickle.model.report import RefreshReport
from pgtrickle.model.stream_table import Action, RefreshMode, Status, StreamTable
from pgtrickle.model.tier import parse_tier
from pgtrickle.service.alter import alter_stream_table
from pgtrickle.service.control import repair_stream_table
from pgtrickle.service.create import create_stream_table
from pgtrickle.service.drop import drop_stream_table
from pgtrickle.service.explain import explain_stream_table
from pgtrickle.service.refresh_stream_table import refresh_when_free
from pgtrickle.service.replace_query import is_another_query
from pgtrickle.service.requests import control, explanations, lake
from pgtrickle.service.requests.arguments import check_arguments, read_arguments
from pgtrickle.service.requests.caller import (
    check_caller_exists,
    check_may_act_as_server,
    find_stream_table_of,
    get_own_stream_table,
    name_for_creation,
)
from pgtrickle.service.runtime import Runtime
from pgtrickle.service.validate import validate_query
from pgtrickle.service.verify import verify_stream_table

Notice: TypeAlias = Callable[[str], None]
Arguments: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Verb:
    """What may be asked for: the act returns what JSON can hold."""

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
    fraction, cdc_mode = _fraction(given.get("max_delta_fraction")), given.get("cdc_mode")
    report = create_stream_table(
        ask.runtime,
        name,
        given["query"],
        schedule=given.get("schedule", "calculated"),
        refresh_mode=parse_refresh_mode(given.get("refresh_mode", "AUTO")),
        initialize=given.get("initialize", True),
        max_delta_fraction=None if fraction is None else check_fraction(fraction),
        cdc_mode=None if cdc_mode is None else parse_cdc_mode(cdc_mode),
        diamond=_diamond(given),
        search_path=ask.search_path,
        **_sink(given),
    )
    created = get_own_stream_table(ask, str(name))
    if created.downgrade_reason:
        ask.notice(f"{name} is recomputed in full: {created.downgrade_reason}")
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
    changes = _differences(existing, given) | _diamond_differences(ask, existing, given)
    status = "altered"
    if is_another_query(ask.runtime, existing, given["query"], ask.search_path):
        changes, status = changes | {"query": given["query"]}, "replaced"
    if not changes:
        ask.notice(f'the stream table "{existing.name}" is like that already')
        return {"name": str(existing.name), "status": "unchanged", "pgt_id": existing.id}
    return {**_alter(ask, changes | {"name": str(existing.name)}), "status": status}


def _differences(existing: StreamTable, given: Arguments) -> dict[str, Any]:
    cdc_mode = None if existing.cdc_mode is None else existing.cdc_mode.value
    current = {
        "schedule": existing.schedule,
        "refresh_mode": existing.refresh_mode.value,
        "max_delta_fraction": existing.max_delta_fraction,
        "cdc_mode": cdc_mode,
    }
    wanted = {
        "schedule": given.get("schedule", "calculated"),
        "refresh_mode": parse_refresh_mode(given.get("refresh_mode", "AUTO")).value,
        "max_delta_fraction": given.get("max_delta_fraction"),
        "cdc_mode": _cdc_mode_word(given.get("cdc_mode")),
    }
    # What is not given is left as it is: there is no way back to the setting of cdc_mode.
    return {
        key: value for key, value in wanted.items() if value is not None and value != current[key]
    }


def _diamond_differences(ask: Ask, existing: StreamTable, given: Arguments) -> dict[str, Any]:
    wanted = _diamond(given)
    if not wanted:
        return {}
    with ask.runtime.connection() as connection:
        [node] = [one for one in list_nodes(connection) if one.id == existing.id]
    differences = {}
    if wanted.consistency not in {None, node.diamond_consistency}:
        differences["diamond_consistency"] = given["diamond_consistency"]
    if wanted.policy not in {None, node.diamond_schedule_policy}:
        differences["diamond_schedule_policy"] = given["diamond_schedule_policy"]
    return differences


def _diamond(given: Arguments) -> Diamond:
    return Diamond.parse(given.get("diamond_consistency"), given.get("diamond_schedule_policy"))


def _sink(given: Arguments) -> dict[str, str]:
    """Return what is said about a copy in the lake, whose files the server writes."""
    return {key: given[key] for key in _SINK_OPTIONS if key in given}


def _cdc_mode_word(text: str | None) -> str | None:
    return None if text is None else parse_cdc_mode(text).value


def _alter(ask: Ask, given: Arguments) -> Any:
    stream_table = get_own_stream_table(ask, given["name"])
    query = given.get("query")
    if query is not None or _sink(given):
        check_may_act_as_server(ask)
    mode, status, cdc_mode = (given.get(key) for key in ("refresh_mode", "status", "cdc_mode"))
    fuse = control.read_fuse(ask, stream_table, given)
    altered = alter_stream_table(
        ask.runtime,
        stream_table.name,
        schedule=given.get("schedule"),
        query=query,
        search_path=ask.search_path,
        refresh_mode=None if mode is None else parse_refresh_mode(mode),
        status=None if status is None else parse_status(status),
        max_delta_fraction=_fraction(given.get("max_delta_fraction")),
        cdc_mode=None if cdc_mode is None else parse_cdc_mode(cdc_mode),
        diamond=_diamond(given),
        tier=parse_tier(given["tier"]) if "tier" in given else None,
        **_sink(given),
    )
    if fuse is not None:
        control.put_in(ask, stream_table, fuse)
    if altered.original_query != stream_table.original_query:
        ask.notice(f"{altered.name}: its query was replaced, and its contents with it")
    if (mode or query) is not None and altered.downgrade_reason:
        ask.notice(f"{altered.name} is recomputed in full: {altered.downgrade_reason}")
    return {"name": str(altered.name), "pgt_id": altered.id}


def _fraction(given: float | str | None) -> Fraction | None:
    """Read a fraction that SQL hands over as text, so that the word "default" fits."""
    if given is None or given == DEFAULT:
        return given
    try:
        return float(given)
    except (ValueError, OverflowError):
        raise SettingError(
            f'the max_delta_fraction "{shorten(given)}" is not a number',
            hint='Give a number from 0 to 1, or "default".',
        ) from None


def _drop(ask: Ask, given: Arguments) -> Any:
    stream_table = get_own_stream_table(ask, given["name"])
    cascade = bool(given.get("cascade", False))
    dropped = drop_stream_table(ask.runtime, stream_table.name, cascade=cascade)
    for other in dropped[:-1]:
        ask.notice(f'drop cascades to the stream table "{other}"')
    return {"dropped": dropped}


def _refresh(ask: Ask, given: Arguments) -> Any:
    stream_table = get_own_stream_table(ask, given["name"])
    report = refresh_when_free(
        ask.runtime,
        stream_table.name,
        full=bool(given.get("full", False)),
        waiting=lambda error: ask.notice(f"{stream_table.name}: waiting, because {error}"),
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


_TELL_RESUMED = """
    SELECT pgtrickle.notify('pg_trickle_alert', pg_catalog.json_build_object(
        'event', 'resumed', 'name', %s::pg_catalog.text)::pg_catalog.text)
"""


def _resume(ask: Ask, given: Arguments) -> Any:
    stream_table = get_own_stream_table(ask, given["name"])
    if stream_table.status not in {Status.SUSPENDED, Status.ERROR}:
        raise StatusForbidsError(
            f'the stream table "{stream_table.name}" is not suspended: it is'
            f" {stream_table.status.value}",
            hint="There is nothing to resume.",
        )
    _alter(ask, {"name": str(stream_table.name), "status": "ACTIVE"})
    with ask.runtime.connection() as connection:
        connection.execute(_TELL_RESUMED, [str(stream_table.name)])
    return {"name": str(stream_table.name), "pgt_id": stream_table.id}


def _repair(ask: Ask, given: Arguments) -> Any:
    stream_table = get_own_stream_table(ask, given["name"])
    mended = repair_stream_table(ask.runtime, stream_table.name)
    return "\n".join(f"{one.source}: {one.what}" for one in mended)


def _verify(ask: Ask, given: Arguments) -> Any:
    stream_table = get_own_stream_table(ask, given["name"])
    report = verify_stream_table(ask.runtime, stream_table.name)
    return {
        "name": report.stream_table,
        "ok": report.ok,
        "rows": report.rows,
        "missing": report.missing,
        "extra": report.extra,
    }


def _explain(ask: Ask, given: Arguments) -> Any:
    stream_table = get_own_stream_table(ask, given["name"])
    return explain_stream_table(ask.runtime, stream_table.name, given.get("format", "text"))


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
    made: list[dict[str, Any]] = []
    for index, definition in enumerate(given["definitions"]):
        try:
            made.append(_create(ask, _CREATE.check(definition)))
        except TrickleError as error:
            for one in reversed(made):
                name = QualifiedName.parse(one["name"])
                drop_stream_table(ask.runtime, name, cascade=False)
            error.detail = "\n".join(
                filter(None, (f"This is number {index}, counted from 0.", error.detail))
            )
            raise
    return made


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


_OPTIONS = (
    "schedule",
    "refresh_mode",
    "max_delta_fraction",
    "cdc_mode",
    "diamond_consistency",
    "diamond_schedule_policy",
)
_SINK_OPTIONS = ("sink", "ducklake_sink_path", "ducklake_table", "ducklake_partition_by")
_CHANGES = (*_SINK_OPTIONS, "query", "status", "tier", *control.FUSE_OPTIONS, *_OPTIONS)
_DEFINITION = ("initialize", *_OPTIONS)
_DEFINITION_WITH_SINK = (*_DEFINITION, *_SINK_OPTIONS)
_ONE = ("name",)
_GROUP = ("group_name", "names")
_CREATE = Verb("create_stream_table", _create, ("name", "query"), _DEFINITION_WITH_SINK)
_ALTER = Verb("alter_stream_table", _alter, _ONE, _CHANGES)

VERBS: Mapping[str, Verb] = MappingProxyType(
    {
        verb.name: verb
        for verb in (
            _CREATE,
            Verb(
                "create_stream_table_if_not_exists",
                _create_if_not_exists,
                ("name", "query"),
                _DEFINITION_WITH_SINK,
            ),
            Verb(
                "create_or_replace_stream_table",
                _create_or_replace,
                ("name", "query"),
                _DEFINITION,
            ),
            _ALTER,
            Verb("drop_stream_table", _drop, _ONE, ("cascade",)),
            Verb("refresh_stream_table", _refresh, _ONE, ("full",)),
            Verb("resume_stream_table", _resume, _ONE),
            Verb("repair_stream_table", _repair, _ONE),
            Verb("verify_stream_table", _verify, _ONE),
            Verb("explain_stream_table", _explain, _ONE, ("format",)),
            Verb("validate_query", _validate, ("query",)),
            Verb("bulk_create", _bulk_create, ("definitions",)),
            Verb("bulk_alter_stream_tables", _bulk_alter, ("names", "params")),
            Verb("bulk_drop_stream_tables", _bulk_drop, ("names",)),
            Verb("pause_scheduler", control.pause, ("names",)),
            Verb("resume_scheduler", control.resume, ("names",)),
            Verb("create_refresh_group", control.create_group, _GROUP, ("isolation",)),
            Verb("drop_refresh_group", control.drop_group, ("group_name",)),
            Verb("reset_fuse", control.reset, _ONE, ("action",)),
            Verb("diamond_groups", explanations.diamond_groups, ()),
            Verb("explain_delta", explanations.explain_delta, _ONE),
            Verb("explain_query_rewrite", explanations.explain_query_rewrite, ("query",)),
            Verb("diagnose_errors", explanations.explain_errors, _ONE),
            Verb(
                "attach_ducklake_table",
                lake.attach,
                ("name", "lake_table"),
                ("columns", "catalog_schema", "compaction_policy"),
            ),
            Verb("detach_ducklake_table", lake.detach, _ONE),
        )
    }
)
