"""Every branch of the grammar of SELECT is maintained, or refused by name."""

from __future__ import annotations

import psycopg
import pytest

from pgtrickle.errors import TrickleError
from tests.labs.lab import Lab
from tests.queries.select_grammar import GRAMMAR
from tests.queries.test_support import check_windows
from tools.constructs import Construct, read_examples


def title(row: Construct) -> str:
    return row.title


@pytest.fixture
def shop(lab: Lab) -> Lab:
    lab.run(*read_examples().schema)
    return lab


@pytest.mark.parametrize("construct", [one for one in GRAMMAR if one.differential], ids=title)
def test_query_is_maintained(shop: Lab, construct: Construct) -> None:
    _need(shop, construct)
    check_windows(shop, construct.query, constant=construct.constant)


@pytest.mark.parametrize("construct", [one for one in GRAMMAR if not one.differential], ids=title)
def test_query_is_refused_by_name(shop: Lab, construct: Construct) -> None:
    _need(shop, construct)
    with pytest.raises(TrickleError) as caught:
        shop.trickle.create_stream_table("made", construct.query, refresh_mode="DIFFERENTIAL")

    assert caught.value.code == construct.code, repr(caught.value)
    assert caught.value.hint
    assert "^" in caught.value.detail or construct.code != "ST102"
    assert shop.leftovers() == []


def _need(lab: Lab, construct: Construct) -> None:
    """Leave out what the server does not know: older ones, and those built without XML."""
    if lab.connection.info.server_version // 10_000 < construct.since:
        pytest.skip(f"new in PostgreSQL {construct.since}")
    if "xml" in construct.query.lower() and not _knows_xml(lab):
        pytest.skip("this server was built without XML")


def _knows_xml(lab: Lab) -> bool:
    try:
        lab.run("SELECT xml '<a/>'")
    except psycopg.errors.FeatureNotSupported:
        return False
    return True
