"""Every common type through real Spark."""

from __future__ import annotations

import pytest

from tests.labs.lab import Lab
from tests.queries.test_types import TYPES, survive


@pytest.mark.parametrize("name", sorted(TYPES))
def test_type_survives(lab: Lab, name: str):
    survive(lab, name, {"joined", "kinds", "matched", "extremes"})
