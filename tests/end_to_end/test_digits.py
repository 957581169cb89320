"""Numerics that went through Spark show the digits that PostgreSQL shows."""

from __future__ import annotations

import pytest

from tests.labs.digits import QUERIES, follow_digits
from tests.labs.lab import Lab


@pytest.mark.parametrize("name", QUERIES)
def test_numerics_show_their_digits_after_spark(lab: Lab, name: str) -> None:
    assert follow_digits(lab, name) == []
