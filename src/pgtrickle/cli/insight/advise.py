"""``pgtrickle advise``: the schedule and the refresh mode that the history speaks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from pgtrickle.cli.connect import connected
from pgtrickle.cli.documents import values_document
from pgtrickle.cli.options import Dsn, Json
from pgtrickle.cli.output import errors_as_exit_codes, print_json, stdout
from pgtrickle.model.scheduling.recommendation import (
    ModeAdvice,
    ScheduleAdvice,
    schedule_to_take,
)

if TYPE_CHECKING:
    from pgtrickle.client.trickle import Trickle


def advise(
    ctx: typer.Context,
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Names of stream tables; none: all.", show_default=False),
    ] = None,
    apply: Annotated[
        bool, typer.Option("--apply", help="Give them the recommended schedules.")
    ] = False,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Show the schedule and the refresh mode that the history speaks for, and why."""
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        wanted = {str(trickle.get_stream_table(name).name) for name in names or ()}
        modes = {one.stream_table: one for one in trickle.insight.recommend_refresh_mode()}
        found = [
            one
            for one in trickle.insight.schedule_recommendations()
            if not wanted or one.stream_table in wanted
        ]
        taken = _apply(trickle, found) if apply else {}
        if as_json:
            documents = [
                values_document(one)
                | {
                    "refresh_mode": values_document(modes[one.stream_table]),
                    "applied": taken.get(one.stream_table),
                }
                for one in found
            ]
            print_json({"advice": documents})
            return
        if not found:
            stdout().print("no stream tables with a schedule")
        for one in found:
            _print(one, modes[one.stream_table], taken.get(one.stream_table))


def _apply(trickle: Trickle, found: list[ScheduleAdvice]) -> dict[str, str]:
    taken = {}
    for one in found:
        schedule = schedule_to_take(one)
        if schedule is not None:
            trickle.alter_stream_table(one.stream_table, schedule=schedule)
            taken[one.stream_table] = schedule
    return taken


def _print(one: ScheduleAdvice, mode: ModeAdvice, taken: str | None) -> None:
    lines = [f"{one.stream_table}: {_interval(one)}"]
    lines.append(f"  why: {one.reasoning}")
    if one.peak_window_cron is not None:
        lines.append(f"  most changes come at: {one.peak_window_cron}")
    if mode.recommended_mode != mode.current_mode:
        lines.append(
            f"  refresh mode {mode.current_mode}, {mode.recommended_mode} is recommended"
            f" (confidence {mode.confidence:.0%}): {mode.reason}"
        )
    if taken is not None:
        lines.append(f"  applied: schedule {taken}")
    stdout().print("\n".join(lines), markup=False)


def _interval(one: ScheduleAdvice) -> str:
    if one.recommended_interval_seconds is None:
        return f"schedule {one.schedule}, no recommendation yet"
    change = "" if one.delta_pct is None else f" ({one.delta_pct:+.0f} %)"
    return (
        f"schedule {one.schedule}, every {one.recommended_interval_seconds:g} s is"
        f" recommended{change}, confidence {one.confidence:.0%}"
    )
