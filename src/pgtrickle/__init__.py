"""Stream tables for PostgreSQL, maintained incrementally on Apache Spark.

What the package offers is imported at its first use: Spark starts many Python processes, which
need a few modules of ``pgtrickle.spark`` and none of the rest.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pgtrickle.bootstrap import Trickle, connect
    from pgtrickle.errors import TrickleError
    from pgtrickle.lake.reader.source import register_ducklake
    from pgtrickle.model.report import Progress, RefreshReport, VerifyReport
    from pgtrickle.model.stream_table import Action, RefreshMode, Status, StreamTable
    from pgtrickle.service.validate import Validation

__version__ = "0.1.0"

__all__ = [
    "Action",
    "Progress",
    "RefreshMode",
    "RefreshReport",
    "Status",
    "StreamTable",
    "Trickle",
    "TrickleError",
    "Validation",
    "VerifyReport",
    "connect",
    "register_ducklake",
]

_HOMES = {
    "Action": "pgtrickle.model.stream_table",
    "Progress": "pgtrickle.model.report",
    "RefreshMode": "pgtrickle.model.stream_table",
    "RefreshReport": "pgtrickle.model.report",
    "Status": "pgtrickle.model.stream_table",
    "StreamTable": "pgtrickle.model.stream_table",
    "Trickle": "pgtrickle.bootstrap",
    "TrickleError": "pgtrickle.errors",
    "Validation": "pgtrickle.service.validate",
    "VerifyReport": "pgtrickle.model.report",
    "connect": "pgtrickle.bootstrap",
    "register_ducklake": "pgtrickle.lake.reader.source",
}


def __getattr__(name: str) -> object:
    """Import what is asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return found
