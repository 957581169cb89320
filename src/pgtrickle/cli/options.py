"""The options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from pgtrickle.model.cdc_mode import CdcMode
from pgtrickle.model.diamonds import DiamondConsistency, DiamondSchedulePolicy

Dsn = Annotated[
    str | None,
    typer.Option(
        "--dsn",
        envvar="PGTRICKLE_DSN",
        show_default=False,
        help="Connection string of the database. Without one: a private embedded server.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
CapturedBy = Annotated[
    CdcMode | None, typer.Option(case_sensitive=False, help="How its sources are captured.")
]
Consistency = Annotated[
    DiamondConsistency | None,
    typer.Option(case_sensitive=False, help="Whether paths that meet in it go together."),
]
SchedulePolicy = Annotated[
    DiamondSchedulePolicy | None,
    typer.Option(case_sensitive=False, help="When those are due: with the first or the last."),
]
SinkPath = Annotated[
    str | None,
    typer.Option(
        "--ducklake-sink-path", help="Directory of the lake's files; default: the catalog's own."
    ),
]
LakePartition = Annotated[
    str | None,
    typer.Option("--ducklake-partition-by", help="Partition keys, as in: region, year(placed_at)."),
]
LakeTable = Annotated[
    str | None,
    typer.Option("--ducklake-table", help="Table of the lake; default: main and the same name."),
]
Name = Annotated[str, typer.Argument(help="Stream table, as schema.name.", show_default=False)]
