"""Look for weak spots: in our code with bandit, in what it depends on with pip-audit.

``python -m tools.audit`` fails on every finding in the code that is not excused below, and on every
excuse that is not needed any more.  Known weaknesses of dependencies fail it too, where the data
can be had; where it cannot, that is said and is no failure.  ``pip-audit`` alone would say then
that there are none.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[1]
_CODE = ("src", "tools")
_PINNED = "constraints.txt"
_SECONDS = 40

# Rules that say nothing here, and why.
LEFT_OUT = {
    "B404": "importing subprocess is no weakness; each call of it is looked at by B602 to B607",
    "B608": "writing SQL is the product: names are quoted, values bound (docs/security.md)",
}
# Findings that are none: the rule, the file and the reason.
EXCUSED = {
    (
        "B101",
        "src/pgtrickle/catalog/access/guest.py",
    ): "a hint for the type checker",
    ("B101", "src/pgtrickle/lake/reader/source.py"): "a hint for the type checker",
    (
        "B101",
        "src/pgtrickle/service/requests/asking.py",
    ): "a hint for the type checker",
    (
        "B101",
        "src/pgtrickle/service/sources/ducklake/attach.py",
    ): "its row was inserted above",
    (
        "B101",
        "src/pgtrickle/spark/executors/pg_source.py",
    ): "a hint for the type checker",
    ("B101", "src/pgtrickle/relay/sinks/postgres.py"): "a hint for the type checker",
    ("B101", "src/pgtrickle/service/outboxes/spark_source.py"): "a hint for the type checker",
    ("B101", "src/pgtrickle/service/projects/apply.py"): "a hint for the type checker",
    ("B101", "src/pgtrickle/service/projects/files/load.py"): "a hint for the type checker",
    ("B101", "src/pgtrickle/session.py"): "a hint for the type checker",
    (
        "B105",
        "src/pgtrickle/model/text/connection_string.py",
    ): "no password is held",
    ("B105", "src/pgtrickle/service/insight/explain.py"): "a pass of the compiler",
    ("B105", "src/pgtrickle/transit/carriers.py"): "a way in which values travel",
    ("B105", "src/pgtrickle/spark/sessions/authentication.py"): "the name of a setting of Spark",
    ("B108", "src/pgtrickle/embedded/home.py"): "who owns the directory is checked before its use",
    ("B108", "src/pgtrickle/embedded/postmaster.py"): "mkdtemp: new, and closed to others",
    ("B108", "src/pgtrickle/embedded/private_copy.py"): "its owner is checked before its use",
    (
        "B301",
        "src/pgtrickle/spark/executors/spread_work.py",
    ): "our own tasks wrote it",
    ("B311", "src/pgtrickle/daemon.py"): "a random pause is no secret",
    ("B311", "src/pgtrickle/demo/generator.py"): "made-up orders are no secret",
    ("B311", "src/pgtrickle/scheduler/loop.py"): "a random pause is no secret",
    ("B311", "src/pgtrickle/service/lease_waits.py"): "a random pause is no secret",
    (
        "B311",
        "src/pgtrickle/service/sinks/ducklake/failures.py",
    ): "a random pause is no secret",
    ("B311", "src/pgtrickle/service/lock_waits.py"): "a random pause is no secret",
    ("B403", "src/pgtrickle/spark/executors/spread_work.py"): "our own tasks wrote it: see B301",
    ("B603", "src/pgtrickle/embedded/account.py"): "no shell; programs of the installed server",
    ("B603", "src/pgtrickle/embedded/binaries.py"): "no shell; pg_config of this machine",
    ("B603", "src/pgtrickle/embedded/processes.py"): "no shell; asks ps for one process",
    ("B603", "src/pgtrickle/spark/sessions/java.py"): "no shell; asks Java for its version",
    (
        "B603",
        "src/pgtrickle/spark/sessions/jvm.py",
    ): "no shell; Spark's own command",
    ("B603", "src/pgtrickle/spark/sessions/record_classes.py"): "no shell; our own Python",
    ("B603", "tools/audit.py"): "no shell; our own Python",
    ("B603", "tools/check_deploy.py"): "no shell; pinned tools in a folder of our own",
    ("B603", "tools/check_image.py"): "no shell, and no argument from outside",
    ("B607", "tools/check_image.py"): "whichever buildah is installed",
    ("B603", "tools/check_install.py"): "no shell, and no argument from outside",
    ("B603", "tools/newcomer.py"): "no shell, and no argument from outside",
    ("B603", "tools/package_sizes.py"): "no shell, and no argument from outside",
    ("B314", "tools/record_long_run.py"): "the report that pytest has just written here",
    ("B405", "tools/record_long_run.py"): "the report that pytest has just written here",
    ("B603", "tools/record_long_run.py"): "no shell, and no argument from outside",
    ("B603", "tools/release_check.py"): "no shell, and no argument from outside",
    ("B202", "tools/version_matrix.py"): "filter=tar; an archive of Maven at a pinned version",
    ("B314", "tools/version_matrix.py"): "the report that pytest has just written here",
    ("B405", "tools/version_matrix.py"): "the report that pytest has just written here",
    ("B603", "tools/vendored.py"): "no shell; names and versions of the manifest",
    ("B603", "tools/version_matrix.py"): "no shell, and no argument from outside",
    ("B603", "tools/wheels.py"): "no shell; our own Python",
}
# Known weaknesses of dependencies that do not concern us: the id and the reason.
ACCEPTED: dict[str, str] = {}


def main() -> int:
    """Run both and say what they found; 1 if something is to be done."""
    findings = [*judge_code(_run_bandit()), *look_at_dependencies()]
    for finding in findings:
        print(finding)  # noqa: T201 - the purpose
    failed = [one for one in findings if not one.startswith("note: ")]
    print("audit: " + (f"{len(failed)} to look at" if failed else "nothing to look at"))  # noqa: T201
    return 1 if failed else 0


def look_at_dependencies() -> list[str]:
    """Return the known weaknesses of dependencies, or that nothing is known of them."""
    return judge_dependencies(_run_pip_audit())


def judge_code(report: Mapping[str, Any]) -> list[str]:
    """Return the findings of bandit that are not excused, and the excuses that excuse nothing."""
    met = set()
    told = [f"{one['filename']}: bandit could not read it" for one in report["errors"]]
    for one in report["results"]:
        place = (one["test_id"], one["filename"].removeprefix("./"))
        met.add(place)
        if place not in EXCUSED:
            told.append(
                f"{place[1]}:{one['line_number']}: {place[0]} {one['issue_text']}"
                f" ({one['issue_severity'].lower()})"
            )
    return told + [f"tools/audit.py: {rule} in {file} is excused and not there"
                   for rule, file in sorted(set(EXCUSED) - met)]  # fmt: skip


def judge_dependencies(report: Mapping[str, Any] | None) -> list[str]:
    """Return the known weaknesses of dependencies, or that nothing is known of them."""
    listed: Sequence[Mapping[str, Any]] = [] if report is None else report["dependencies"]
    looked_up = [one for one in listed if "skip_reason" not in one]
    if not looked_up:
        return ["note: no data on weaknesses of dependencies can be had here: NOT looked at"]
    told = [
        f"{_PINNED}: {one['name']} {one['version']} has {found['id']},"
        f" gone in {', '.join(found['fix_versions']) or 'no version'}"
        for one in looked_up
        for found in one["vulns"]
        if found["id"] not in ACCEPTED
    ]
    if len(looked_up) < len(listed):
        told.append(f"note: no data on {len(listed) - len(looked_up)} of {len(listed)} packages")
    return told


def _run_bandit() -> Mapping[str, Any]:
    left_out = ",".join(sorted(LEFT_OUT))
    done = _run("bandit", "-q", "-r", *_CODE, "-f", "json", "-s", left_out, seconds=600)
    report: Mapping[str, Any] = json.loads(done)
    return report


def _run_pip_audit() -> Mapping[str, Any] | None:
    """Ask what is known of the pinned versions; None if nobody answers."""
    options = ("--no-deps", "--disable-pip", "--timeout", "5", "--progress-spinner", "off")
    try:
        done = _run(
            "pip_audit", "-r", _PINNED, *options, "-s", "pypi", "-f", "json", seconds=_SECONDS
        )
        report: Mapping[str, Any] = json.loads(done)
    except (subprocess.TimeoutExpired, json.JSONDecodeError):
        return None
    return report


def _run(module: str, *arguments: str, seconds: int) -> str:
    # Both exit with 1 if they found something, which is judged here.
    done = subprocess.run(  # noqa: S603 - no shell; our own Python
        [sys.executable, "-m", module, *arguments],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
    )
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
