"""Check what RELEASE.md asks of a release, as far as a program can; ``make release-check`` runs it.

Each check says what is missing and what to do.  Those that hold between releases, too, are tests
as well; the others fail until the release is prepared.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from pgtrickle.catalog.migrate import list_api_files, list_migrations
from pgtrickle.model.version import VERSION
from tools import check_deploy, check_image, check_install
from tools.generate_docs import stale_pages
from tools.wheels import build_wheel, list_missing_files, read_version

ROOT = Path(__file__).resolve().parents[1]
_TESTS = ("tests/catalog/test_migrate.py", "tests/catalog/test_upgrade.py")
_RELEASED = re.compile(r"^## \[(\d+\.\d+\.\d+)\] - \d{4}-\d{2}-\d{2}$", re.MULTILINE)


def main() -> int:
    """Run every check; 1 if one fails."""
    failed = 0
    for name, check in CHECKS.items():
        problems = list(check())
        wrong = any(not one.startswith("note: ") for one in problems)
        failed += wrong
        sys.stdout.write(f"{'FAIL' if wrong else 'ok  '}  {name}\n")
        sys.stdout.writelines(f"      {one}\n" for one in problems)
        sys.stdout.flush()
    told = f"{failed} of {len(CHECKS)} checks fail" if failed else "ready to be tagged"
    sys.stdout.write(f"{VERSION}: {told}\n")
    return 1 if failed else 0


def check_version() -> Iterator[str]:
    """Yield why the version cannot be released."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", VERSION):
        yield f'"{VERSION}" is not MAJOR.MINOR.PATCH: edit src/pgtrickle/model/version.py'


def check_changelog() -> Iterator[str]:
    """Yield what the changelog lacks."""
    yield from find_gaps_in_changelog((ROOT / "CHANGELOG.md").read_text(), VERSION)


def find_gaps_in_changelog(text: str, version: str) -> Iterator[str]:
    """Yield what a changelog lacks for a release."""
    released = _RELEASED.findall(text)
    if version not in released:
        yield f'no section "## [{version}] - YYYY-MM-DD"'
    elif released[0] != version:
        yield f"the latest section is that of {released[0]}"
    unreleased = re.search(
        r"^## \[Unreleased\]\n(.*?)(?=^## \[|\Z)", text, re.MULTILINE | re.DOTALL
    )
    if unreleased is None:
        yield 'no section "## [Unreleased]" for what comes next'
    elif unreleased[1].strip():
        yield "Unreleased is not empty: move it to that section"


def check_docs() -> Iterator[str]:
    """Yield the generated pages that are stale."""
    for page, _ in stale_pages():
        yield f"{page.relative_to(ROOT)} is stale: make docs"


def check_wheel() -> Iterator[str]:
    """Yield what is wrong with the wheel."""
    with tempfile.TemporaryDirectory() as directory:
        wheel = build_wheel(ROOT, Path(directory))
        if (built := read_version(wheel)) != VERSION:
            yield f"the wheel says that it is {built}"
        for name in list_missing_files(wheel, ROOT):
            yield f"{name} is not in the wheel: see tool.hatch.build in pyproject.toml"


def check_frozen_catalog() -> Iterator[str]:
    """Yield what the frozen catalog of this version lacks."""
    path = ROOT / "tests" / "catalog" / f"baseline-{VERSION}.sql"
    place = path.relative_to(ROOT)
    make = f"python -m tests.catalog.freeze {place}"
    if not path.exists():
        yield f"{place} is not there: {make}"
        return
    text = path.read_text(encoding="utf-8")
    hashes = {one.name: one.sha256 for one in list_migrations()}
    hashes |= {one.name: one.sha256 for one in list_api_files()}
    if missing := [name for name, sha256 in hashes.items() if sha256 not in text]:
        yield f"{place} was made before {', '.join(missing)}: delete it, then {make}"


def check_upgrades() -> Iterator[str]:
    """Yield what the tests say of frozen catalogs that are upgraded, and beside a new one."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", *_TESTS]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603 - no shell
    if done.returncode:
        yield from [line for line in done.stdout.splitlines() if line.startswith("FAILED")]
        yield f"run: pytest {' '.join(_TESTS)}"


def check_tree() -> Iterator[str]:
    """Yield what is not committed."""
    command = ["git", "-C", str(ROOT), "status", "--porcelain"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - no shell
    for line in done.stdout.splitlines():
        yield f"not committed: {line}"


def check_deployment() -> Iterator[str]:
    """Yield what is wrong with what is published and what deploys it."""
    check_deploy.install_tools()
    for check in check_deploy.CHECKS.values():
        yield from check()


CHECKS: dict[str, Callable[[], Iterator[str]]] = {
    "the version is one that can be released": check_version,
    "the changelog has its section": check_changelog,
    "generated pages are current": check_docs,
    "the wheel is complete": check_wheel,
    "packages and deployments are valid": check_deployment,
    "the wheel works where nothing else is": check_install.check_installed_wheel,
    "no weakness of a dependency is known": check_install.check_dependencies,
    "the image is built and runs": check_image.check_real_image,
    "the frozen catalog of this version is there": check_frozen_catalog,
    "an upgraded catalog equals a new one": check_upgrades,
    "everything is committed": check_tree,
}

if __name__ == "__main__":
    sys.exit(main())
