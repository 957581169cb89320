"""Stream tables for PostgreSQL, maintained incrementally on Apache Spark."""

from pgtrickle.bootstrap import Trickle, connect
from pgtrickle.errors import TrickleError
from pgtrickle.model.report import RefreshReport, VerifyReport
from pgtrickle.model.stream_table import Action, RefreshMode, Status, StreamTable
from pgtrickle.service.validate import Validation

__version__ = "0.1.0"

__all__ = [
    "Action",
    "RefreshMode",
    "RefreshReport",
    "Status",
    "StreamTable",
    "Trickle",
    "TrickleError",
    "Validation",
    "VerifyReport",
    "connect",
]
