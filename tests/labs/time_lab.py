"""A lab whose refreshes happen at simulated times, and queries that follow the time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pgtrickle.model.report import RefreshReport
from tests.labs.lab import Lab, Row

NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)


@dataclass(slots=True)
class TimeLab:
    """A lab whose refreshes happen at simulated times."""

    lab: Lab
    now: datetime = NOON

    def at(self, now: datetime | timedelta) -> None:
        """Let time pass, or set it."""
        self.now = now if isinstance(now, datetime) else self.now + now

    def create(
        self, name: str, query: str, mode: str = "DIFFERENTIAL", cdc_mode: str | None = None
    ) -> None:
        self.lab.trickle.create_stream_table(name, query, refresh_mode=mode, cdc_mode=cdc_mode)
        self.lab.queries[name] = query
        self.check(name)

    def refresh(self, name: str, action: str = "") -> RefreshReport:
        """Refresh and check; without an action, whatever an incremental refresh may be."""
        report = self.lab.trickle.refresh_stream_table(name)
        wanted = {action} if action else {"DIFFERENTIAL", "NO_DATA"}
        assert report.action.value in wanted, report.reason
        self.check(name)
        return report

    def check(self, name: str) -> None:
        """Compare with PostgreSQL's answer at the simulated time, and let verify do it too."""
        assert self.differences(name) == []

    def verify(self, name: str) -> None:
        verified = self.lab.trickle.verify_stream_table(name)
        assert verified.ok, verified
        self.check(name)

    def differences(self, name: str) -> list[Row]:
        query = self.held(self.lab.queries[name])
        return self.lab.rows(
            f"SELECT 'missing', d.* FROM (({query}) EXCEPT ALL TABLE {name}) AS d UNION ALL"
            f" SELECT 'extra', d.* FROM (TABLE {name} EXCEPT ALL ({query})) AS d"
        )

    def held(self, query: str) -> str:
        """Write the simulated time into a query."""
        return at_time(query, self.now)


def at_time(query: str, now: datetime) -> str:
    """Write a time into a query in the place of the current one."""
    literal = f"timestamptz '{now.isoformat()}'"

    def write(found: re.Match[str]) -> str:
        return f"({literal}){_WORDS[found[0].lower()]}"

    return _TIME.sub(write, query)


_WORDS = {
    "current_timestamp": "",
    "transaction_timestamp()": "",
    "statement_timestamp()": "",
    "localtimestamp": "::timestamp",
    "localtime": "::time",
    "current_date": "::date",
    "now()": "",
}
_TIME = re.compile("|".join(map(re.escape, _WORDS)), re.IGNORECASE)


@contextmanager
def simulated(lab: Lab, start: datetime = NOON) -> Iterator[TimeLab]:
    """Fill two tables, and let refreshes happen at simulated times."""
    runtime = lab.trickle._runtime
    made = TimeLab(lab, start)
    runtime.clock = lambda _: made.now
    lab.run(
        "CREATE TABLE t (id int, at timestamptz, at_local timestamp, day date, kind text)",
        "CREATE TABLE u (id int, name text)",
        "CREATE VIEW recent AS SELECT id, at FROM t WHERE at > now() - interval '7 days'",
        "CREATE INDEX ON t (at)",
        "INSERT INTO u SELECT n, 'name ' || n FROM generate_series(1, 40) AS n",
        "INSERT INTO t SELECT n, at, at AT TIME ZONE 'UTC', at::date, 'k' || n % 3"
        " FROM generate_series(1, 40) AS n, LATERAL (SELECT"
        f" timestamptz '{NOON.isoformat()}' + (n - 20) * interval '9 hours' AS at) AS a",
        "INSERT INTO t VALUES (41, NULL, NULL, NULL, NULL), (42, 'infinity', 'infinity',"
        " 'infinity', 'k1'), (43, '-infinity', '-infinity', '-infinity', 'k2'),"
        f" (44, '{NOON.isoformat()}', '2026-03-10 12:00', '2026-03-10', 'k1')",
    )
    try:
        yield made
    finally:
        runtime.clock = lambda now: now


QUERIES = {
    "lower bound": "SELECT id, at FROM t WHERE at > now() - interval '7 days'",
    "lower bound, equal": "SELECT id FROM t WHERE at >= now() - interval '2 days'",
    "upper bound": "SELECT id FROM t WHERE at <= now()",
    "upper bound, less": "SELECT id FROM t WHERE now() > at",
    "between": "SELECT id FROM t WHERE at BETWEEN now() - interval '2 days' AND now()",
    "negated": "SELECT id FROM t WHERE NOT (at > now() - interval '1 day')",
    "negated between": "SELECT id FROM t WHERE at NOT BETWEEN now() - interval '1 day' AND now()",
    "current_date": "SELECT id FROM t WHERE day >= current_date - 3",
    "equal date": "SELECT id FROM t WHERE day = current_date",
    "unequal date": "SELECT id FROM t WHERE day <> current_date",
    "of a day": "SELECT id FROM t WHERE at >= date_trunc('day', now())",
    "of a day of a zone": "SELECT id FROM t WHERE at >= date_trunc('day', now(), 'Asia/Tokyo')",
    "cast": "SELECT id FROM t WHERE at::date = current_date",
    "in a zone": "SELECT id FROM t WHERE at_local > now() AT TIME ZONE 'Europe/Berlin'",
    "localtimestamp": "SELECT id FROM t WHERE at_local > localtimestamp - interval '3 days'",
    "localtime": "SELECT id FROM t WHERE at_local::time < localtime",
    "transaction": "SELECT id FROM t WHERE at > transaction_timestamp()",
    "statement": "SELECT id FROM t WHERE at > statement_timestamp()",
    "several": "SELECT id FROM t WHERE at > now() - interval '3 days' AND day <= current_date"
    " AND kind = 'k1'",
    "either": "SELECT id FROM t WHERE at > now() + interval '1 day' OR day < current_date - 2"
    " OR kind = 'k0'",
    "expression": "SELECT id FROM t WHERE at + interval '1 day' * id > now()",
    "unbounded": "SELECT id FROM t WHERE now() - at > interval '2 days'",
    "unbounded of months": "SELECT id FROM t WHERE age(now(), at) > interval '1 month'",
    "in": "SELECT id FROM t WHERE day IN (current_date, current_date - 1)",
    "case": "SELECT id FROM t WHERE CASE WHEN kind = 'k1' THEN at > now()"
    " ELSE at < now() - interval '1 day' END",
    "without a column": "SELECT id FROM t WHERE now() > '2026-03-11'",
    "grouped": "SELECT kind, count(*) AS n, max(at) AS newest FROM t"
    " WHERE at > now() - interval '4 days' GROUP BY kind",
    "filtered": "SELECT kind, count(*) FILTER (WHERE at > now() - interval '1 day') AS today,"
    " count(*) AS n, sum(CASE WHEN at > now() THEN id ELSE 0 END) AS later FROM t GROUP BY kind",
    "total": "SELECT count(*) AS n, sum(id) AS s FROM t WHERE at <= now()",
    "join": "SELECT t.id, u.name FROM t JOIN u ON u.id = t.id AND t.at > now()",
    "join of both": "SELECT a.id, b.id AS other FROM t a JOIN t b ON b.kind = a.kind"
    " WHERE a.at > now() AND b.at <= now() - interval '2 days'",
    "left join": "SELECT u.id, t.at FROM u LEFT JOIN t ON t.id = u.id AND t.at > now()",
    "exists": "SELECT u.id FROM u WHERE EXISTS (SELECT 1 FROM t WHERE t.id = u.id"
    " AND t.at > now() - interval '1 day')",
    "not in": "SELECT u.id FROM u WHERE u.id NOT IN (SELECT t.id FROM t WHERE t.at > now())",
    "scalar": "SELECT u.id, (SELECT count(*) FROM t WHERE t.at < now()"
    " AND t.id <= u.id) AS n FROM u",
    "with": "WITH late AS (SELECT * FROM t WHERE at < now()) SELECT a.id FROM late a"
    " JOIN late b ON a.id = b.id + 1",
    "union": "SELECT id FROM t WHERE at < now() UNION SELECT id FROM u",
    "except": "SELECT id FROM u EXCEPT SELECT id FROM t WHERE at < now()",
    "distinct": "SELECT DISTINCT kind FROM t WHERE at > now() + interval '5 days'",
    "window": "SELECT id, row_number() OVER (PARTITION BY kind ORDER BY id) AS n FROM t"
    " WHERE at > now()",
    "limit": "SELECT id, at FROM t WHERE at > now() ORDER BY at, id LIMIT 3",
}
