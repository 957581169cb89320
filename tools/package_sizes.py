"""Build wheel and sdist, install them in fresh environments, and say how large each extra is.

    python -m tools.package_sizes [--python PYTHON ...] [--extra EXTRA ...] [--sdist]

For each Python and extra, an environment is made with ``pip install pgtrickle[EXTRA]`` at the
pinned versions, in which ``pgtrickle --help`` has to run.  The size is that of what was installed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tools.wheels import build_sdist, build_wheel

ROOT = Path(__file__).resolve().parents[1]
CORE = ""  # no extra
_EXTRAS = (CORE, "embedded", "lake", "spark", "all")
_MOST_OF_CORE = 60 << 20  # bytes
_OF_PIP = ("pip", "setuptools", "_distutils_hack")


def main(argv: Sequence[str] | None = None) -> int:
    """Print a table; 1 if the package without extras is larger than it may be."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--python", nargs="+", default=[sys.executable])
    parser.add_argument("--extra", nargs="+", default=list(_EXTRAS))
    parser.add_argument("--sdist", action="store_true", help="install the sdist, not the wheel")
    arguments = parser.parse_args(argv)
    core = 0
    with tempfile.TemporaryDirectory() as directory:
        build = build_sdist if arguments.sdist else build_wheel
        package = build(ROOT, Path(directory) / "dist")
        sys.stdout.write("| python | extra | MB |\n|---|---|---:|\n")
        for python in arguments.python:
            for extra in arguments.extra:
                where = Path(directory) / "environment"
                version, size = install(package, extra, python, where)
                core = max(core, size) if extra == CORE else core
                sys.stdout.write(f"| {version} | {extra or 'none'} | {size / 2**20:.0f} |\n")
                sys.stdout.flush()
    return 1 if core > _MOST_OF_CORE else 0


def install(package: Path, extra: str, python: str, where: Path) -> tuple[str, int]:
    """Install the package with an extra into a fresh environment; return its Python and size."""
    _run(python, "-m", "venv", "--clear", str(where))
    inside = where / "bin" / "python"
    wanted = f"{package}[{extra}]" if extra else str(package)
    pins = ROOT / "constraints.txt"
    _run(str(inside), "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
         "--no-compile", "-c", str(pins), wanted)  # fmt: skip
    # In a directory of its own, so that no checkout is imported.
    _run(str(where / "bin" / "pgtrickle"), "--help", cwd=where)
    version = _run(str(inside), "-c", "import platform; print(platform.python_version())")
    [packages] = where.glob("lib/python*/site-packages")
    return version.strip(), sum(
        path.stat().st_size
        for path in packages.rglob("*")
        if path.is_file() and not path.relative_to(packages).parts[0].startswith(_OF_PIP)
    )


def _run(*command: str, cwd: Path | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)  # noqa: S603 - no shell
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
