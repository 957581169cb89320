"""The pages that come from code say what the code says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools import generate_docs

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


def test_generated_pages_are_up_to_date(capsys: pytest.CaptureFixture[str]):
    status = generate_docs.main(["--check"])

    assert status == 0, capsys.readouterr().out


def test_every_variable_the_code_reads_is_on_the_page():
    source = "".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    read = set(re.findall(r"""["'](PGTRICKLE_[A-Z_]*[A-Z]|SPARK_(?:MASTER|REMOTE))["']""", source))

    page = (DOCS / "configuration.md").read_text()

    assert {name for name in read if f"`{name}`" not in page} == set()
