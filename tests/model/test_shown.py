"""Reports and listings show themselves, and nothing in them steers a terminal or a page."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from pgtrickle import (
    Action,
    Hold,
    Listing,
    RefreshReport,
    SourceRead,
    Trickle,
    VerifyReport,
)
from pgtrickle.model.status_report import (
    Daemon,
    HealthCheck,
    RequestQueue,
    Severity,
    StatusReport,
)
from tools.surface_reference import SUBJECTS

NASTY = "<script>alert(1)</script>\x1b[2J\nerror: forged & \u202e'quoted\""
READ = SourceRead("public.t", "changes", "the window", 3, 128)
REPORT = RefreshReport("public.s", 7, Action.DIFFERENTIAL, "3 changes", 2, 1, 12.345, (READ,))


def test_report_prints_one_fact_a_line_and_its_lists_as_tables():
    assert str(REPORT) == (
        "stream table   public.s\n"
        "refresh id     7\n"
        "action         DIFFERENTIAL\n"
        "reason         3 changes\n"
        "rows inserted  2\n"
        "rows deleted   1\n"
        "duration ms    12.3\n"
        "reads:\n"
        "    source     kind      bounded by   rows   bytes\n"
        "    public.t   changes   the window   3      128"
    )


def test_listing_is_a_list_that_prints_as_a_table():
    listing = Listing([Hold("public.s", "gated"), Hold("public.other", "paused")])

    assert listing == [Hold("public.s", "gated"), Hold("public.other", "paused")]
    assert str(listing) == ("stream table   reason\npublic.s       gated\npublic.other   paused")
    assert str(Listing([])) == "nothing"


@pytest.mark.parametrize(
    "shown",
    [
        Listing([Hold(NASTY, NASTY)]),
        VerifyReport(NASTY, ok=False, rows=1, missing=1, extra=0, missing_sample=((NASTY,),)),
        RefreshReport(NASTY, 7, Action.FULL, NASTY, 0, 0, 1.0, (SourceRead(NASTY, "", "", 0, 0),)),
    ],
)
def test_nothing_steers_a_terminal_or_a_page(shown: Listing[Hold] | VerifyReport | RefreshReport):
    text, page = str(shown), shown._repr_html_()

    assert "\x1b" not in text + page
    assert "\u202e" not in text + page
    assert not any(line.startswith("error:") for line in text.splitlines())
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert "& " not in page.replace("&amp; ", "")


def test_status_shows_its_parts():
    now = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    report = StatusReport(
        severity=Severity.WARNING,
        checks=[HealthCheck("daemon", Severity.WARNING, "none runs")],
        daemons=[Daemon("host:1", leads=True, started_at=now, seen_at=now)],
        queue=RequestQueue(1, 0, None),
        stream_tables=3,
        running=[],
        behind=[],
        failing=[],
        suspended=[],
        sinks=[],
        holds=[],
    )

    assert "daemon       WARNING    none runs" in str(report)
    assert "host:1   yes     2026-01-02 03:04:05+00:00" in str(report)
    assert "<th>check name</th>" in report._repr_html_()


def test_every_verb_that_lists_returns_a_listing():
    plain = [
        name
        for kind in (Trickle, *SUBJECTS.values())
        for name, member in vars(kind).items()
        if not name.startswith("_")
        and str(getattr(member, "__annotations__", {}).get("return", "")).startswith("list[")
    ]

    # Of names and numbers.
    assert sorted(plain) == [
        "bulk_drop_stream_tables",
        "drop_stream_table",
        "init",
        "migrate",
        "pause_cdc",
        "resume_all",
        "resume_cdc",
        "set_buffer_durability",
        "setup_self_monitoring",
        "teardown_self_monitoring",
    ]
