"""``pgtrickle init`` and ``pgtrickle migrate``: make or upgrade the catalog in a database."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from pgtrickle.cli.connect import connected
from pgtrickle.cli.documents import values_document
from pgtrickle.cli.options import Dsn, Json
from pgtrickle.cli.output import errors_as_exit_codes, print_json, print_text, stdout

if TYPE_CHECKING:
    from pgtrickle.model.upgrades.plan import MigrationPlan, MigrationStep

_NAMED = 5


def init(ctx: typer.Context, dsn: Dsn = None, as_json: Json = False) -> None:
    """Create or upgrade the catalog in the database; safe to repeat."""
    with (
        errors_as_exit_codes(ctx, as_json=as_json),
        connected(ctx, dsn, new_server=True) as trickle,
    ):
        _tell(trickle.init(), as_json=as_json)


def migrate(
    ctx: typer.Context,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Rehearse it, roll it back, and print what it locks and for how long.",
        ),
    ] = False,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Upgrade the catalog in the database to this version; safe to repeat.

    Refreshes in flight start again, and daemons of the older version end: start the new one.
    """
    with errors_as_exit_codes(ctx, as_json=as_json), connected(ctx, dsn) as trickle:
        if not dry_run:
            _tell(trickle.migrate(), as_json=as_json)
            return
        plan = trickle.migrate(dry_run=True)
        if as_json:
            print_json(values_document(plan))
        else:
            print_text("\n".join(_lines(plan)))


def _tell(applied: list[str], *, as_json: bool) -> None:
    if as_json:
        print_json({"applied": applied})
    elif applied:
        stdout().print(f"catalog ready: applied {_sum_up(applied)}", markup=False)
    else:
        stdout().print("catalog ready")


def _sum_up(applied: list[str]) -> str:
    """Name a few migrations, and count many: those of a new catalog tell nobody anything.

    >>> _sum_up(["0031 tags", "10_sources", "20_capture"])
    '0031 tags and 2 files of functions'
    """
    stored = [one for one in applied if " " in one]
    told = [f"{len(stored)} migrations" if len(stored) > _NAMED else ", ".join(stored)]
    if functions := len(applied) - len(stored):
        told.append(f"{functions} file{'s' if functions > 1 else ''} of functions")
    return " and ".join(filter(None, told))


def _lines(plan: MigrationPlan) -> Iterator[str]:
    """Describe what a migration would do."""
    from pgtrickle.catalog.upgrades.blockers import describe_blocker  # noqa: PLC0415 - not for --help

    if not plan.steps:
        yield f"catalog ready: version {plan.catalog_version}, nothing to apply"
        return
    yield f"the catalog has version {plan.catalog_version}, this package {plan.package_version}"
    for step in plan.steps:
        yield from _step_lines(step)
    if plan.rehearsed:
        yield f"rehearsed in {plan.took_ms:.0f} ms, while it held:"
        for lock in plan.locks:
            kilobytes = lock.size_bytes / 1024
            yield f"  {lock.mode} on {lock.relation} ({kilobytes:.0f} kB), from: {lock.step}"
        if not plan.locks:
            yield "  no lock that holds up readers or writers"
        yield f"waited {plan.waited_ms:.0f} ms for others before that"
    else:
        seconds = plan.waited_ms / 1000
        yield f"not rehearsed: others use what it locks, and were waited for {seconds:.0f} s"
    for blocker in plan.blockers:
        yield f"would wait now: {describe_blocker(blocker)}"
    if plan.daemon is not None:
        yield f"the daemon {plan.daemon} would step down; then start this version"
    for name in plan.refreshes:
        yield f"the refresh of {name} would be cancelled and start again"
    yield "nothing was changed"


def _step_lines(step: MigrationStep) -> Iterator[str]:
    took = "" if step.took_ms is None else f": {step.took_ms:.0f} ms"
    yield f"{step.name}{took}"
    yield f"  why:   {step.why}"
    yield f"  reads: {step.reads}"
    yield f"  locks: {step.locks}"
