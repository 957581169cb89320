"""Compare pictures of pages with kept ones; ``pytest --update`` keeps them anew."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from PIL import Image, ImageChops

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "docs" / "images"
FAILED = ROOT / "build" / "pictures"
# Of 48 pictures of eight runs, each by a browser of its own, 42 were the kept ones bit for bit; the
# others differed in at most 20 pixels, by at most 2 of 255 shades.  Another version may draw the
# edge of a letter in another shade; another digit is beyond both bounds.
SHADE = 40  # of 255: what no eye takes for another colour
MOST = 20  # pixels that may be beyond


def check(name: str, drawn: bytes, *, update: bool, failed: Path = FAILED) -> None:
    """Compare a picture with the kept one; keep both and their difference if they differ."""
    kept = KEPT / f"console-{name}.webp"
    found = Image.open(io.BytesIO(drawn)).convert("RGB")
    if update:
        found.save(kept, lossless=True, quality=80, method=4)
        return
    trouble = difference(found, kept, failed)
    if trouble:
        pytest.fail(
            f"the page {name} looks different: {trouble}."
            f" The pictures are {failed}/console-{name}-*.png."
            " If it is to look so: pytest tests/console/test_browser.py --update",
            pytrace=False,
        )


def difference(found: Image.Image, kept: Path, failed: Path) -> str:
    """Say how a picture differs from the kept one; empty if it is the same to the eye."""
    if not kept.exists():
        return f"{kept.name} was never kept"
    known = Image.open(kept).convert("RGB")
    if found.size != known.size:
        _keep(failed, kept.stem, found=found, kept=known)
        return f"it has {found.size} pixels, and had {known.size}"
    apart = ImageChops.difference(found, known)
    most = apart.split()[0]
    for band in apart.split()[1:]:
        most = ImageChops.lighter(most, band)
    beyond = most.point([255 * (shade > SHADE) for shade in range(256)])
    count = beyond.histogram()[255]
    if count <= MOST:
        return ""
    _keep(failed, kept.stem, found=found, kept=known, difference=beyond)
    left, top, right, bottom = beyond.getbbox() or (0, 0, 0, 0)
    share = count / (found.width * found.height)
    return (
        f"{count:,} pixels, {share:.2%} of them, differ by more than {SHADE} of 255 shades,"
        f" from ({left}, {top}) to ({right}, {bottom})"
    )


def _keep(failed: Path, stem: str, **pictures: Image.Image) -> None:
    failed.mkdir(parents=True, exist_ok=True)
    for what, picture in pictures.items():
        picture.save(failed / f"{stem}-{what}.png")
