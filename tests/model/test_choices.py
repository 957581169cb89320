"""Choices are given as a member, or as its word in either case."""

from __future__ import annotations

from typing import Any

import pytest

from pgtrickle.errors import SettingError
from pgtrickle.model.capture.cdc_mode import CdcMode, parse_cdc_mode
from pgtrickle.model.scheduling.fuse import FuseMode, parse_fuse_mode
from pgtrickle.model.scheduling.refresh_group import Isolation, parse_isolation
from pgtrickle.model.scheduling.tier import Tier, parse_tier
from pgtrickle.model.stream_table import RefreshMode, Status
from pgtrickle.model.text.modes import parse_refresh_mode, parse_status

PARSERS: list[tuple[Any, Any]] = [
    (RefreshMode, parse_refresh_mode),
    (Status, parse_status),
    (CdcMode, parse_cdc_mode),
    (Tier, parse_tier),
    (FuseMode, parse_fuse_mode),
    (Isolation, parse_isolation),
]


@pytest.mark.parametrize(("kind", "parse"), PARSERS)
def test_members_and_words_in_either_case_are_read(kind: Any, parse: Any):
    for one in kind:
        assert parse(one) is parse(one.value.upper()) is parse(one.value.lower()) is one


@pytest.mark.parametrize("parse", [parse for _, parse in PARSERS])
@pytest.mark.parametrize("given", ["sometimes", "", 7, None, object, "{}", "9" * 5000])
def test_anything_else_is_refused_with_the_words_there_are(parse: Any, given: Any):
    with pytest.raises(SettingError) as caught:
        parse(given)

    assert caught.value.hint.startswith("Choose ")
    assert len(str(caught.value)) < 300


def test_member_of_another_enum_is_refused():
    wrong: Any = Status.ACTIVE
    with pytest.raises(SettingError, match="refresh mode"):
        parse_refresh_mode(wrong)
