"""What mkdocs is told beyond mkdocs.yml: pages outside of docs/, decisions, links to code."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mkdocs.structure.files import File

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
DOCS = "docs/"
# Pages that stand elsewhere in the repository, and where they stand on the site.
ELSEWHERE = {
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "RELEASE.md": "project/release.md",
    "integrations/dbt/README.md": "project/dbt-package.md",
    "integrations/dagster/README.md": "project/dagster-package.md",
    "integrations/airflow/README.md": "project/airflow-package.md",
    "integrations/prefect/README.md": "project/prefect-package.md",
}
_ONLY_IN_THE_REPOSITORY = {"README.md": "index.md"}  # what says the same on the site
_LINK = re.compile(
    r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!https?:|mailto:|#)([^)#\s]+)(#[^)\s]*)?\)"
)
_FENCE = re.compile(r"(^ *```.*?^ *```$)", re.DOTALL | re.MULTILINE)


def on_config(config: MkDocsConfig) -> None:
    """Add to the navigation what is a list of files."""
    nav: list[Any] = config["nav"]
    [*_, explanation] = nav
    [pages] = explanation.values()
    pages += [
        {"Results": listed("benchmarks")},
        {"Decisions": listed("adr")},
        {"Project": [*ELSEWHERE.values()]},
    ]


def listed(folder: str) -> list[str]:
    """Return the pages of a folder of docs/, in the order of their names."""
    return [f"{folder}/{path.name}" for path in sorted((ROOT / DOCS / folder).glob("*.md"))]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that stand outside of docs/."""
    for path, place in ELSEWHERE.items():
        files.append(File.generated(config, place, content=(ROOT / path).read_text()))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Lead links to where things are on the site."""
    return led(markdown, page.file.src_uri)


def led(markdown: str, place: str) -> str:
    """Rewrite the links of a page outside of its blocks of code.

    >>> led("[a](../CHANGELOG.md#added), [b](../src/x.py), [c](lake.md)", "limits.md")
    '[a](project/changelog.md#added), b, [c](lake.md)'
    >>> led("[lake](docs/lake.md)", "project/changelog.md")
    '[lake](../lake.md)'
    """
    origin = next((path for path, at in ELSEWHERE.items() if at == place), DOCS + place)
    parts = _FENCE.split(markdown)
    parts[::2] = [_LINK.sub(lambda found: _lead(found, origin, place), part) for part in parts[::2]]
    return "".join(parts)


def _lead(link: re.Match[str], origin: str, place: str) -> str:
    image, label, target, anchor = link.groups()
    path = posixpath.normpath(posixpath.join(posixpath.dirname(origin), target))
    there = ELSEWHERE.get(path) or _ONLY_IN_THE_REPOSITORY.get(path)
    if there is None:
        inside = path.startswith(DOCS) and "." in posixpath.basename(path)
        if not inside:
            return label  # code, and folders, are not on the site
        there = path.removeprefix(DOCS)
    elif path in _ONLY_IN_THE_REPOSITORY:
        anchor = None
    way = posixpath.relpath(there, posixpath.dirname(place) or ".")
    return f"{image}[{label}]({way}{anchor or ''})"
