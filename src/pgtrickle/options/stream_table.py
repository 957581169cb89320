"""Every option of a stream table: an entry here is what users can say, on every surface.

Python's signatures are compared with it by a test; the flags of the shell, the procedures of SQL,
``stream_table_spec``, ``export_definition``, the arguments of requests and the page
docs/reference/options.md are made from it.  ``service/lifecycle/record_options.py`` says what an
option means, ``catalog/option_routines.py`` where it is stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from pgtrickle.errors import SettingError
from pgtrickle.model.capture.cdc_mode import CdcMode, parse_cdc_mode
from pgtrickle.model.engine import EngineMode, parse_engine
from pgtrickle.model.scheduling.delta_fraction import DEFAULT, read_fraction
from pgtrickle.model.scheduling.diamonds import (
    DiamondConsistency,
    DiamondSchedulePolicy,
    parse_consistency,
    parse_schedule_policy,
)
from pgtrickle.model.scheduling.fuse import FuseMode, parse_fuse_mode
from pgtrickle.model.scheduling.schedule import CALCULATED, check_schedule
from pgtrickle.model.scheduling.tier import Tier, parse_tier
from pgtrickle.model.stream_table import RefreshMode, Status
from pgtrickle.model.text.lengths import shorten
from pgtrickle.model.text.modes import parse_refresh_mode, parse_status
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.options.option import Option, OptionVerb, list_options, option, words_of

DUCKLAKE = "ducklake"
NO_SINK = "none"
LAKE_SCHEMA = "main"  # the default of DuckLake itself
_ALTER = (OptionVerb.ALTER,)


def _text(given: object) -> str:
    if isinstance(given, str):
        return given
    raise SettingError(f'"{shorten(given)}" is not a text', hint="Put it between quotes.")


def _flag(given: object) -> bool:
    if isinstance(given, bool):
        return given
    raise SettingError(f'"{shorten(given)}" is neither true nor false', hint="Choose one of them.")


def _number(given: object) -> float:
    if isinstance(given, (int, float)) and not isinstance(given, bool):
        return float(given)
    raise SettingError(f'"{shorten(given)}" is not a number', hint="Give a number.")


def _rows(given: object) -> int:
    if isinstance(given, int) and not isinstance(given, bool):
        return given
    raise SettingError(f'"{shorten(given)}" is not a number of rows', hint="Give a whole number.")


def _lake_table(given: object) -> QualifiedName:
    return QualifiedName.parse(_text(given), LAKE_SCHEMA)


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """Where a stream table has a copy, and how."""

    kind: str | None = option(
        None,
        "Where a copy of it is kept in step with it: ducklake.",
        name="sink",
        read=_text,
        reset=NO_SINK,
        reset_doc="ends the copy",
    )
    ducklake_sink_path: str | None = option(
        None,
        "Directory of the lake's files; without one, that of the lake's catalog.",
        read=_text,
        sink=DUCKLAKE,
    )
    ducklake_table: QualifiedName | None = option(
        None,
        "Table of the lake; without one, main and the same name.",
        read=_lake_table,
        sink=DUCKLAKE,
    )
    ducklake_partition_by: str | None = option(
        None,
        "Partition keys in the lake, such as: region, year(placed_at).",
        read=_text,
        sink=DUCKLAKE,
    )


@dataclass(frozen=True, slots=True)
class StreamTableOptions:
    """How a stream table is maintained."""

    schedule: str = option(
        CALCULATED,
        "How often to refresh: 30s, 5m, 1h30m, a cron expression, or calculated.",
        read=check_schedule,
        stated=True,
    )
    refresh_mode: RefreshMode = option(
        RefreshMode.AUTO,
        "How to maintain it: by changes, in full, as each refresh decides, or by writers at once.",
        read=parse_refresh_mode,
        choices=words_of(RefreshMode),
        stated=True,
    )
    initialize: bool = option(
        default=True,
        doc="Whether to fill it now.",
        kind=bool,
        read=_flag,
        verbs=(OptionVerb.CREATE,),
        stated=True,
        kept=False,
    )
    status: Status | None = option(
        None,
        "Whether it is refreshed: SUSPENDED stops that, ACTIVE resumes it.",
        read=parse_status,
        choices=("ACTIVE", "SUSPENDED"),
        verbs=_ALTER,
        kept=False,
    )
    cdc_mode: CdcMode | None = option(
        None,
        "How its sources are captured; without one, the setting cdc_mode decides.",
        read=parse_cdc_mode,
        choices=words_of(CdcMode),
    )
    max_delta_fraction: float | None = option(
        None,
        "Share of changed rows, 0 to 1, above which AUTO recomputes in full.",
        float,
        read=read_fraction,
        low=0,
        high=1,
        reset=DEFAULT,
        reset_doc="the setting differential_max_change_ratio",
    )
    engine: EngineMode | None = option(
        None,
        "What computes its refreshes: spark, postgres, or the quicker one (auto); without one, the"
        " setting engine decides.",
        read=parse_engine,
        choices=words_of(EngineMode),
        reset=DEFAULT,
        reset_doc="the setting engine",
    )
    tier: Tier = option(
        Tier.HOT,
        "How much it matters: a factor on its schedule.",
        read=parse_tier,
        choices=words_of(Tier),
        verbs=_ALTER,
    )
    fuse: FuseMode = option(
        FuseMode.OFF,
        "Whether very many changes wait for a decision: off, on above a ceiling, or auto.",
        read=parse_fuse_mode,
        choices=words_of(FuseMode),
        verbs=_ALTER,
    )
    fuse_ceiling: int | None = option(
        None,
        "Changed rows above which its fuse blows; without one, fuse_default_ceiling decides.",
        int,
        read=_rows,
        low=1,
        verbs=_ALTER,
    )
    fuse_sensitivity: float | None = option(
        None,
        "How many times the usual number of changes, above 1, blows a fuse in auto; else 10.",
        float,
        read=_number,
        low=1,
        verbs=_ALTER,
    )
    diamond_consistency: DiamondConsistency = option(
        DiamondConsistency.ATOMIC,
        "Whether the paths that meet in it are refreshed together.",
        read=parse_consistency,
        choices=words_of(DiamondConsistency),
    )
    diamond_schedule_policy: DiamondSchedulePolicy = option(
        DiamondSchedulePolicy.FASTEST,
        "When those are due: with the first of them, or with the last.",
        read=parse_schedule_policy,
        choices=words_of(DiamondSchedulePolicy),
    )
    shadow_build: bool = option(
        default=False,
        doc="Whether the new query is loaded beside the old one, and follows it, before it takes"
        " its place.",
        kind=bool,
        read=_flag,
        verbs=_ALTER,
        kept=False,
    )
    hold: bool = option(
        default=False,
        doc="Whether the shadow waits for promote_shadow when it has caught up.",
        kind=bool,
        read=_flag,
        verbs=_ALTER,
        kept=False,
    )
    allow_breaking: bool = option(
        default=False,
        doc="Whether the new query may drop, retype and reorder columns that views read.",
        kind=bool,
        read=_flag,
        verbs=_ALTER,
        kept=False,
    )
    sink: SinkOptions = SinkOptions()

    def value(self, name: str) -> Any:
        """Return the value of an option by its name.

        >>> StreamTableOptions(schedule="5m").value("schedule")
        '5m'
        """
        holder = self.sink if name in _SINK_FIELDS else self
        return getattr(holder, _SINK_FIELDS.get(name, name))


_SINK_FIELDS = {one.name: field for field, one in list_options(SinkOptions)}
_OWN = {one.name: one for _, one in list_options(StreamTableOptions)}

OPTIONS: Mapping[str, Option] = MappingProxyType(
    _OWN | {one.name: one for _, one in list_options(SinkOptions)}
)
"""Every option by its name, in the order in which signatures list them."""

SINK_OPTIONS = frozenset(_SINK_FIELDS)


def options_of(verb: OptionVerb) -> list[Option]:
    """Return the options that a verb takes, in order."""
    return [one for one in OPTIONS.values() if verb in one.verbs]


def stated_words() -> dict[str, Any]:
    """Return what create says of options that are not given, in words."""
    return {one.name: one.word for one in options_of(OptionVerb.CREATE) if one.stated}


def make_options(values: Mapping[str, Any]) -> StreamTableOptions:
    """Put values by name together; what is missing has its default."""
    sink = {_SINK_FIELDS[name]: one for name, one in values.items() if name in _SINK_FIELDS}
    own = {name: one for name, one in values.items() if name in _OWN}
    return StreamTableOptions(**own, sink=SinkOptions(**sink))
