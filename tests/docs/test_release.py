"""What a release needs, as far as it holds between releases, too."""

from __future__ import annotations

from pathlib import Path
from zipfile import ZipFile

import pytest

from pgtrickle.model.version import VERSION
from tests.catalog.versions import LATER
from tools import release_check
from tools.release_check import CHECKS, ROOT, find_gaps_in_changelog
from tools.vendored import VENDOR
from tools.version_matrix import page
from tools.wheels import build_wheel, list_missing_files, read_version

RELEASE = (ROOT / "RELEASE.md").read_text()


def test_wheel_holds_every_file_of_the_package(tmp_path: Path):
    wheel = build_wheel(ROOT, tmp_path)

    assert (read_version(wheel), list_missing_files(wheel, ROOT)) == (VERSION, [])
    with ZipFile(wheel) as archive:
        licences = {Path(name).name for name in archive.namelist() if "/licenses/" in name}
    assert licences == {"LICENSE", *(one.name for one in VENDOR.glob("*.LICENSE"))}

    more = tmp_path / "src" / "pgtrickle" / "catalog" / "migrations"
    more.mkdir(parents=True)
    (more / "9999_more.sql").write_text(LATER)
    left_out = "pgtrickle/catalog/migrations/9999_more.sql"
    assert list_missing_files(wheel, tmp_path) == [left_out]


def test_page_names_every_check_of_the_program():
    assert [name for name in CHECKS if name not in RELEASE] == []


def test_frozen_catalog_must_be_there_and_of_this_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(release_check, "ROOT", tmp_path)
    monkeypatch.setattr(release_check, "VERSION", "7.8.9")
    there = tmp_path / "tests" / "catalog" / "baseline-7.8.9.sql"
    there.parent.mkdir(parents=True)

    [missing] = release_check.check_frozen_catalog()
    there.write_text((ROOT / "tests" / "catalog" / "baseline.sql").read_text())
    [old] = release_check.check_frozen_catalog()

    assert "is not there: python -m tests.catalog.freeze" in missing
    assert "was made before 0002 engine of a stream table" in old


_SECTIONS = "## [7.2.0] - 2027-01-31\n\n- New.\n\n## [7.1.0] - 2026-12-01\n"


@pytest.mark.parametrize(
    ("text", "version", "gaps"),
    [
        (f"## [Unreleased]\n\n{_SECTIONS}", "7.2.0", []),
        (f"## [Unreleased]\n\n{_SECTIONS}", "7.1.0", ["the latest section is that of 7.2.0"]),
        (_SECTIONS, "7.2.0", ['no section "## [Unreleased]" for what comes next']),
        (
            f"## [Unreleased]\n\n- Newer.\n\n{_SECTIONS}",
            "7.3.0",
            [
                'no section "## [7.3.0] - YYYY-MM-DD"',
                "Unreleased is not empty: move it to that section",
            ],
        ),
    ],
)
def test_changelog_must_have_the_section(text: str, version: str, gaps: list[str]):
    assert list(find_gaps_in_changelog(text, version)) == gaps


def test_failed_checks_say_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    checks = {"one": lambda: iter([]), "another": lambda: iter(["mend it"])}
    monkeypatch.setattr(release_check, "CHECKS", checks)

    assert release_check.main() == 1
    assert capsys.readouterr().out.splitlines() == [
        "ok    one",
        "FAIL  another",
        "      mend it",
        f"{VERSION}: 1 of 2 checks fail",
    ]


def test_page_of_versions_keeps_the_pairs_that_did_not_run_again():
    row = "| {} | {}.1 | 3.11.7 | 84 | 0 | 0 | {} |"
    words = (
        "passed",
        "failed",
        "skipped",
        "seconds",
        "server",
        "pyspark",
        "python",
        "load",
        "date",
    )
    first, again, corner = (
        dict(zip(words, (84, 0, 0, *rest), strict=True))
        for rest in (
            (120, "15.19", "4.0.1", "3.11.7", 6.0, "2026-11-19"),
            (9, "18.6", "4.0.1", "3.11.7", 2.5, "2026-11-20"),
            (300, "18.6", "4.0.1", "3.11.7", 7.0, "2026-11-20"),
        )
    )

    made = page({"15 4.0 smoke": first})
    made = page({"18 4.0 more": corner, "18 4.0 smoke": again}, made)

    smoke, more = made.split("## Corners")
    assert [line for line in smoke.splitlines() if line.startswith("| 1")] == [
        row.format("15.19", "4.0", 120),
        row.format("18.6", "4.0", 9),
    ]
    assert row.format("18.6", "4.0", 300) in more
    assert "Run on 2026-11-19 and 2026-11-20, with a load of 2.5 to 7.0" in made
