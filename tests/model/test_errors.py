"""The families of errors."""

from __future__ import annotations

import pytest

from pgtrickle.errors import LakeError, LakeFilesUnreachableError, QueryError, TrickleError


@pytest.mark.parametrize("code", sorted(TrickleError.registry))
def test_every_error_with_a_code_is_of_one_family(code: str):
    error = TrickleError.registry[code]

    assert [one for one in TrickleError.families if issubclass(error, one)] == [error.family]


def test_families_have_no_code_and_a_meaning():
    for family in TrickleError.families:
        assert family not in TrickleError.registry.values()
        assert not hasattr(family, "code")
        assert family.__doc__


def test_every_family_has_members():
    assert {one.family for one in TrickleError.registry.values()} == set(TrickleError.families)


def test_error_of_another_error_is_of_its_family():
    assert LakeFilesUnreachableError.family is LakeError


def test_error_without_a_family_cannot_be_written():
    with pytest.raises(TypeError, match="must be of one family, not of 0"):
        type("StrayError", (TrickleError,), {}, code="ST999")
    with pytest.raises(TypeError, match="must be of one family, not of 2"):
        type("TornError", (QueryError, LakeError), {}, code="ST999")
    with pytest.raises(TypeError, match="is no family"):
        type("NamelessError", (QueryError,), {})
    assert "ST999" not in TrickleError.registry
