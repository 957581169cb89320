"""What ``health_check()`` has found, and the clock of this machine beside the server's."""

from __future__ import annotations

from datetime import UTC, datetime

from psycopg import Connection

from pgtrickle.catalog.overview import list_checks
from pgtrickle.model.status_report import Severity
from pgtrickle.service.insight.checkup.check import Check

# ``doctor`` has checks of its own for these, or says why it is asked: no daemon need run.
_OWN = frozenset({"daemon", "suspended", "errors", "reinitialize", "slots", "sinks"})
_NAMES = {
    "stale_daemons": "stale daemons",
    "snapshots": "snapshots that keep changes",
    "indexes": "indexes of stream tables",
    "wraparound": "age of transaction ids",
    "clock": "clock of the server",
    "long_transactions": "long transactions",
}
_TOLERATED_SECONDS = 2.0


def check_findings(connection: Connection) -> list[Check]:
    """Return what the health checks have found, but for what ``doctor`` looks at itself."""
    return [
        Check(
            _NAMES.get(one.check_name, one.check_name),
            ok=one.severity is not Severity.CRITICAL,
            detail=one.detail,
            hint=f"Run: {one.command}" if one.command else "",
            evidence=one.evidence,
            command=one.command,
            warning=one.severity is Severity.WARNING,
        )
        for one in list_checks(connection)
        if one.severity is not Severity.OK and one.check_name not in _OWN
    ]


def check_clock(connection: Connection) -> Check:
    """Compare this machine's clock with the server's; the way there and back is no difference."""
    before = datetime.now(UTC)
    [(told,)] = connection.execute("SELECT pg_catalog.clock_timestamp()").fetchall()
    after = datetime.now(UTC)
    early, late = (before - told).total_seconds(), (told - after).total_seconds()
    skew = max(early, late, 0.0)
    fine = skew <= _TOLERATED_SECONDS
    ahead = "ahead of" if early > late else "behind"
    return Check(
        "clocks",
        ok=True,
        detail="agree" if fine else f"this machine is {skew:.1f} s {ahead} the server",
        hint="" if fine else "Let both follow the same time server; look with: timedatectl.",
        evidence=None if fine else {"skew_seconds": round(skew, 3)},
        command=None if fine else "timedatectl",
        warning=not fine,
    )
