"""The libraries of others that the page of the console carries: fetch them, and check them.

    python -m tools.vendored                  compare the files with the manifest
    python -m tools.vendored --fetch          fetch them anew by npm, and compare what it brings
    python -m tools.vendored --renew          fetch the manifest's versions, and note their hashes

npm finds each package by its name and version, where it is configured to look.  A file is kept as
its authors publish it, byte for byte.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

VENDOR = Path(__file__).parents[1] / "src/pgtrickle/console/web/static/vendor"
MANIFEST = "manifest.json"
_SECONDS = 120


def main(argv: Sequence[str] | None = None) -> int:
    """Print what differs; 1 if anything does."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--fetch", action="store_true", help="fetch the files anew")
    parser.add_argument("--renew", action="store_true", help="fetch them, and note their hashes")
    given = parser.parse_args(argv)
    if given.fetch or given.renew:
        fetch(VENDOR, renew=given.renew)
    found = list_differences(VENDOR)
    sys.stdout.writelines(f"{one}\n" for one in found or ["ok"])
    return 1 if found else 0


def read_manifest(vendor: Path) -> list[dict[str, Any]]:
    """Return the packages: name, version, licence, digest of the archive, and files."""
    packages: list[dict[str, Any]] = json.loads((vendor / MANIFEST).read_text())
    return packages


def list_differences(vendor: Path) -> list[str]:
    """Say which files are not those of the manifest, and which nobody has noted."""
    found, known = [], {MANIFEST}
    for package in read_manifest(vendor):
        for name, noted in package["files"].items():
            known.add(name)
            path = vendor / name
            if not path.exists():
                found.append(f"{name} of {package['name']} is missing")
            elif _sha256(path.read_bytes()) != noted["sha256"]:
                found.append(f"{name} is not the file of {package['name']} {package['version']}")
        if not any(name.endswith("LICENSE") for name in package["files"]):
            found.append(f"{package['name']} has no licence")
    strangers = sorted({one.name for one in vendor.iterdir()} - known)
    return found + [f"{one} is not in {MANIFEST}" for one in strangers]


def fetch(vendor: Path, *, renew: bool) -> None:
    """Fetch all packages; refuse an archive that is not the noted one, unless it is renewed."""
    packages = read_manifest(vendor)
    for package in packages:
        wanted = f"{package['name']}@{package['version']}"
        with tempfile.TemporaryDirectory() as directory:
            archive = _pack(wanted, Path(directory))
            digest = hashlib.sha512(archive.read_bytes()).digest()
            integrity = f"sha512-{base64.b64encode(digest).decode()}"
            if renew:
                package["integrity"] = integrity
            elif integrity != package["integrity"]:
                raise SystemExit(f"{wanted} is not the archive that {MANIFEST} notes")
            with tarfile.open(archive) as members:
                for name, noted in package["files"].items():
                    member = members.extractfile(f"package/{noted['from']}")
                    if member is None:
                        raise SystemExit(f"{wanted} has no file {noted['from']}")
                    content = member.read()
                    (vendor / name).write_bytes(content)
                    if renew:
                        noted["sha256"] = _sha256(content)
    if renew:
        (vendor / MANIFEST).write_text(json.dumps(packages, indent=2) + "\n")


def list_components(vendor: Path) -> list[dict[str, Any]]:
    """Return the packages as components of an SBOM of CycloneDX."""
    return [
        {
            "type": "library",
            "bom-ref": f"vendored-{one['name']}",
            "name": one["name"],
            "version": one["version"],
            "purl": f"pkg:npm/{one['name'].replace('@', '%40')}@{one['version']}",
            "licenses": [{"license": {"id": one["licence"]}}],
            "hashes": [{"alg": "SHA-512", "content": base64.b64decode(one["integrity"][7:]).hex()}],
        }
        for one in read_manifest(vendor)
    ]


def _pack(wanted: str, into: Path) -> Path:
    npm = shutil.which("npm")
    if npm is None:
        raise SystemExit("npm is not installed: it is needed to fetch the packages anew")
    command = [npm, "pack", "--silent", "--pack-destination", str(into), wanted]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=_SECONDS)  # noqa: S603 - no shell
    [archive] = into.glob("*.tgz")
    return archive


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
