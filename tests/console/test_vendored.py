"""What the page carries of others is what its authors published, and says under which licence."""

from __future__ import annotations

import shutil
from pathlib import Path

from pgtrickle.console.web.app import _FILES
from tools.vendored import VENDOR, list_components, list_differences, read_manifest


def test_files_are_those_that_were_published() -> None:
    assert list_differences(VENDOR) == []


def test_whatever_differs_is_found(tmp_path: Path) -> None:
    vendor = tmp_path / "vendor"
    shutil.copytree(VENDOR, vendor)
    library = vendor / "dagre.esm.js"
    library.write_bytes(library.read_bytes() + b"\n")
    (vendor / "uPlot.LICENSE").unlink()
    (vendor / "more.js").write_text("")

    assert list_differences(vendor) == [
        "dagre.esm.js is not the file of @dagrejs/dagre 3.1.3",
        "uPlot.LICENSE of uplot is missing",
        "more.js is not in manifest.json",
    ]


def test_every_library_is_served() -> None:
    files = {name for one in read_manifest(VENDOR) for name in one["files"]}
    served = {name.removeprefix("vendor/") for name in _FILES if name.startswith("vendor/")}
    assert served == {name for name in files if not name.endswith("LICENSE")}


def test_libraries_are_components_of_the_sbom() -> None:
    [dagre, graphlib, uplot] = list_components(VENDOR)

    assert dagre["purl"] == "pkg:npm/%40dagrejs/dagre@3.1.3"
    assert {one["licenses"][0]["license"]["id"] for one in (dagre, graphlib, uplot)} == {"MIT"}
    assert [len(one["hashes"][0]["content"]) for one in (dagre, graphlib, uplot)] == [128] * 3
