"""Build the image of ``deploy/container`` with buildah, and run a demo in it.

    python -m tools.check_image

No registry and no Docker is needed: the base is made by mmdebstrap from Debian's packages, in place
of the one that the Containerfile names.  Nothing of it stays.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_CONTAINER = ROOT / "deploy" / "container"
_BASE = "localhost/pgtrickle-base"
_IMAGE = "localhost/pgtrickle-check"
_PACKAGES = "python3,python3-venv,python-is-python3,ca-certificates"
_AUTHORITIES = "/etc/ssl/certs/ca-certificates.crt"
_DEMO = ("demo", "snapshot", "--seconds", "1", "--rows", "1000", "--json")


def main() -> int:
    """Say what is wrong; 1 if anything is."""
    found = list(check_real_image())
    sys.stdout.writelines(f"{one}\n" for one in found or ["ok"])
    return 1 if any(not one.startswith("note: ") for one in found) else 0


def check_real_image() -> Iterator[str]:
    """Yield why the image cannot be built or run, or a note on what is missing for that."""
    missing = [one for one in ("buildah", "mmdebstrap") if shutil.which(one) is None]
    if missing:
        yield f"note: {' and '.join(missing)} not on this machine: no image was built"
        return
    if os.geteuid() != 0:
        yield "note: not root: no image was built"
        return
    # Where a storage driver without copies is not to be had, layers are directories.
    with tempfile.TemporaryDirectory(prefix="pgtrickle-image-") as directory:
        store = ("--storage-driver", "vfs", "--root", f"{directory}/root",
                 "--runroot", f"{directory}/run")  # fmt: skip
        try:
            _make_base(Path(directory), store)
            _build(store)
            yield from _try(store)
        except subprocess.CalledProcessError as error:
            told = (error.stderr or error.stdout or "").strip().splitlines()[-8:]
            yield f"{' '.join(error.cmd[:12])} ended with {error.returncode}"
            yield from told
        finally:
            subprocess.run(  # noqa: S603 - no shell
                ["buildah", *store, "rm", "--all"],  # noqa: S607 - whichever is installed
                capture_output=True,
                check=False,
            )


def _make_base(directory: Path, store: tuple[str, ...]) -> None:
    files = directory / "base.tar"
    authorities = f"--customize-hook=copy-in {_AUTHORITIES} /etc/ssl/certs"
    _run("mmdebstrap", "--variant=minbase", f"--include={_PACKAGES}", authorities, "bookworm",
         str(files))  # fmt: skip
    container = _run("buildah", *store, "from", "scratch").strip()
    _run("buildah", *store, "add", "--quiet", container, str(files), "/")
    # What pip is told on this machine: certificates, and where packages are.
    told = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    told |= {"PIP_CERT": _AUTHORITIES}
    told.pop("PIP_FIND_LINKS", None)
    settings = [word for name, value in told.items() for word in ("--env", f"{name}={value}")]
    _run("buildah", *store, "config", *settings, container)
    _run("buildah", *store, "commit", "--quiet", container, _BASE)
    files.unlink()


def _build(store: tuple[str, ...]) -> None:
    # The server of the demo is in the image too, so that it can be run alone.
    _run("buildah", *store, "build", "--isolation", "chroot", "--format", "docker",
         "--build-arg", f"BASE={_BASE}", "--build-arg", "EXTRAS=lake,embedded", "--pull-never",
         "--ignorefile", str(_CONTAINER / "Containerfile.dockerignore"),
         "-f", str(_CONTAINER / "Containerfile"), "-t", _IMAGE, str(ROOT))  # fmt: skip


def _try(store: tuple[str, ...]) -> Iterator[str]:
    container = _run("buildah", *store, "from", "--pull-never", _IMAGE).strip()
    run = ("buildah", *store, "run", "--isolation", "chroot", container, "--")
    if (who := _run(*run, "id", "-u").strip()) != "10001":
        yield f"the image runs as user {who}, not 10001"
    summary = json.loads(_run(*run, "pgtrickle", *_DEMO))
    if not summary["ok"]:
        yield f"the demo in the image is not right: {summary['errors']}"
    described = json.loads(_run("buildah", *store, "inspect", "--type", "image", _IMAGE))
    if not described["Docker"]["config"].get("Healthcheck"):
        yield "the image has no health check"


def _run(*command: str) -> str:
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)  # noqa: S603 - no shell
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
