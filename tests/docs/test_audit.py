"""The audit itself: what it lets pass has a reason, and silence is not taken for an answer."""

from __future__ import annotations

from typing import Any

from tools.audit import EXCUSED, LEFT_OUT, judge_code, judge_dependencies


def _finding(rule: str, file: str) -> dict[str, object]:
    return {"test_id": rule, "filename": file, "line_number": 7, "issue_text": "a weak spot",
            "issue_severity": "HIGH"}  # fmt: skip


def test_a_finding_without_an_excuse_fails():
    excused = [_finding(*place) for place in EXCUSED]

    assert judge_code({"errors": [], "results": excused}) == []
    [told] = judge_code({"errors": [], "results": [*excused, _finding("B602", "src/x.py")]})
    assert told.startswith("src/x.py:7: B602")


def test_an_excuse_that_is_not_needed_fails():
    first, *others = [_finding(*place) for place in EXCUSED]

    [told] = judge_code({"errors": [], "results": others})

    assert str(first["filename"]) in told


def test_every_exception_has_a_reason():
    assert all(len(reason) > 10 for reason in (*LEFT_OUT.values(), *EXCUSED.values()))


def test_a_known_weakness_fails_and_missing_data_is_said():
    weak = {"name": "x", "version": "1", "vulns": [{"id": "PYSEC-1", "fix_versions": ["2"]}]}
    unknown = {"name": "y", "skip_reason": "not found"}

    assert judge_dependencies({"dependencies": [weak]}) == [
        "constraints.txt: x 1 has PYSEC-1, gone in 2"
    ]
    silent: list[dict[str, Any] | None] = [None, {"dependencies": []}, {"dependencies": [unknown]}]
    for one in silent:
        [told] = judge_dependencies(one)
        assert told.startswith("note: ")
    assert len(judge_dependencies({"dependencies": [weak, unknown]})) == 2
