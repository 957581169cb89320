"""Build the wheel of a source tree, and look into it; nothing is fetched for that."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile


def build_wheel(source: Path, into: Path) -> Path:
    """Build the wheel of a source tree; return where it is."""
    return _build(source, into, "wheel", "pgtrickle-*.whl")


def build_sdist(source: Path, into: Path) -> Path:
    """Build the source distribution of a source tree; return where it is."""
    return _build(source, into, "sdist", "pgtrickle-*.tar.gz")


def _build(source: Path, into: Path, kind: str, named: str) -> Path:
    into.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(into)]
    subprocess.run(command, cwd=source, check=True, capture_output=True, text=True)  # noqa: S603 - no shell
    [built] = into.glob(named)
    return built


def read_version(wheel: Path) -> str:
    """Return the version that a wheel says it has."""
    with ZipFile(wheel) as archive:
        [metadata] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        text = archive.read(metadata).decode()
    [version] = [line[9:] for line in text.splitlines() if line.startswith("Version: ")]
    return version


def list_missing_files(wheel: Path, source: Path) -> list[str]:
    """Return the files of the package that a wheel should hold and does not."""
    package = source / "src" / "pgtrickle"
    with ZipFile(wheel) as archive:
        held = set(archive.namelist())
    return sorted(
        name
        for path in package.rglob("*")
        if path.is_file() and path.suffix != ".pyc"
        if (name := f"pgtrickle/{path.relative_to(package).as_posix()}") not in held
    )
