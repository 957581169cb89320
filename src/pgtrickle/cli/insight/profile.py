"""``pgtrickle profile NAME``: measure the next refresh, beside the last ones that were measured."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from pgtrickle.cli.connect import connected
from pgtrickle.cli.documents import values_document
from pgtrickle.cli.options import Dsn, Json, Local, Name
from pgtrickle.cli.output import errors_as_exit_codes, plain_table, print_json, stdout
from pgtrickle.cli.progress import showing_progress
from pgtrickle.cli.waiting import Wait, when_free

if TYPE_CHECKING:  # the package takes longer to import than --help should
    from pgtrickle import Trickle
    from pgtrickle.model.insight.rehearsal import Profile


def profile(
    ctx: typer.Context,
    *,
    name: Name,
    only_list: Annotated[
        bool, typer.Option("--list", help="Only show the profiles that are kept.")
    ] = False,
    wait: Wait = True,
    local: Local = False,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Rehearse the next refresh, keep its figures, and compare the last profiles.

    The reads and stages of the refresh run and are rolled back. The setting profiles_kept says how
    many profiles of a stream table are kept; explain --analyze shows one in full.
    """
    here = local or only_list
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn, local=here) as trickle:
        if not only_list:
            _rehearse(trickle, name, wait=wait)
        found = trickle.insight.list_profiles(name)
        if as_json:
            print_json({"profiles": [values_document(one) for one in found]})
            return
        _show(found)


def _rehearse(trickle: Trickle, name: str, *, wait: bool) -> None:
    def act() -> str:
        return trickle.explain_stream_table(name, "json", with_analyze=True)

    with showing_progress(trickle, f"Rehearsing {name}"):
        rehearsed = json.loads(when_free(trickle, name, act, wait=wait))
    if not rehearsed["ran"]:
        stdout().print(f"not rehearsed: {rehearsed['reason']}", markup=False)


def _show(profiles: list[Profile]) -> None:
    if not profiles:
        stdout().print("no profiles")
        return
    table = plain_table(
        "taken", "action", "ms", "rows in", "rows out", "slowest stage", right=("ms",)
    )
    for one in profiles:
        stages = one.figures["stages"]
        slowest = max(stages, key=lambda stage: sum(stage["timings_ms"].values()), default=None)
        named = (
            ""
            if slowest is None
            else f"{slowest['name']} {sum(slowest['timings_ms'].values()):.1f} ms"
        )
        table.add_row(
            f"{one.taken_at:%Y-%m-%d %H:%M:%S}",
            one.action,
            f"{one.total_ms:.1f}",
            f"{sum(stage['rows_in'] for stage in stages):,}",
            f"{one.figures['rows_inserted']:,} + {one.figures['rows_deleted']:,}",
            named,
        )
    stdout().print(table)
