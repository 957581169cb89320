"""docs/security.md lists every statement that a function in the database puts together."""

from __future__ import annotations

import re
from pathlib import Path

from pgtrickle.catalog.migrate import list_migrations

PAGE = Path(__file__).resolve().parents[2] / "docs" / "security.md"
_DYNAMIC = re.compile(r"\bEXECUTE (?!FUNCTION|PROCEDURE)(?!')")


def test_every_migration_with_a_dynamic_statement_is_on_the_page():
    found = {
        f"{migration.version:04d}"
        for migration in list_migrations()
        if _DYNAMIC.search(re.sub(r"--.*", "", migration.sql))
    }

    table = PAGE.read_text().split("<!-- dynamic statements -->")[1]
    listed = {
        number
        for line in table.splitlines()
        if line.startswith("| 0")
        for number in re.findall(r"\b\d{4}\b", line)
    }

    assert found == listed
