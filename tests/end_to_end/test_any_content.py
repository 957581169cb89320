"""Literals and identifiers of any content, on real Spark, which has quotes of its own."""

from __future__ import annotations

from tests.labs.lab import Lab
from tests.queries.test_any_content import (
    CONTENTS,
    test_marks_as_key_values_are_data,
)
from tests.queries.test_any_content import (
    test_identifiers_in_every_place as check_identifiers,
)
from tests.queries.test_any_content import (
    test_literals_in_every_place as check_literals,
)

__all__ = ["test_marks_as_key_values_are_data"]


def test_a_literal_that_holds_everything(lab: Lab) -> None:
    check_literals(lab, " | ".join(CONTENTS.values()))


def test_an_identifier_with_the_quotes_of_both(lab: Lab) -> None:
    check_identifiers(lab, "{t__rows} `b` '\\ %s")
