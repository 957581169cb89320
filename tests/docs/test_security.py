"""docs/security.md lists every statement that a function in the database puts together."""

from __future__ import annotations

import re
from pathlib import Path

from pgtrickle.catalog.migrate import list_api_files, list_migrations

PAGE = Path(__file__).resolve().parents[2] / "docs" / "security.md"
_DYNAMIC = re.compile(r"\bEXECUTE (?!FUNCTION|PROCEDURE)(?!')")


def test_every_file_with_a_dynamic_statement_is_on_the_page():
    texts = {f"{one.version:04d}_{one.description}": one.sql for one in list_migrations()}
    texts |= {file.name: file.sql for file in list_api_files()}
    found = {name for name, text in texts.items() if _DYNAMIC.search(re.sub(r"--.*", "", text))}

    table = PAGE.read_text().split("<!-- dynamic statements -->")[1]
    listed = set(re.findall(r"^\| `(\d+_\w+)`", table, re.MULTILINE))

    assert found == listed
