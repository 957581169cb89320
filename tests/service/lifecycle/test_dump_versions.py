"""A dump of PostgreSQL 15 is restored on the server of the tests: by pgtrickle, and by psql."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fixtures.postgres import plain_server
from tests.fixtures.psql import psql
from tests.labs.lab import Lab
from tests.queries.test_types import TYPES, load
from tests.service.lifecycle.dumping import (
    contents,
    dump_text,
    make_everything,
    old_binaries,
    opened,
    prepare,
    two_roles,
)

OLD = old_binaries()
pytestmark = pytest.mark.skipif(OLD is None, reason="there is no PostgreSQL 15 on this machine")


@pytest.fixture(scope="module")
def old_server() -> Iterator[str]:
    assert OLD is not None
    with plain_server(OLD) as dsn:
        yield dsn


@pytest.fixture
def old(old_server: str) -> Iterator[Lab]:
    with opened(old_server) as lab:
        lab.reset()
        lab.run(
            "DELETE FROM pgtrickle.pgt_refresh_groups",
            "DELETE FROM pgtrickle.pgt_watermark_groups",
            "DELETE FROM pgtrickle.pgt_watermarks",
            "DELETE FROM pgtrickle.pgt_source_gates",
            "SELECT pgtrickle.set_setting('lease_seconds', NULL)",
        )
        yield lab


@pytest.fixture
def new(database: str) -> Iterator[Lab]:
    with opened(database) as lab:
        yield lab


def words(lab: Lab) -> str:
    """Return everything as a script, but for what versions print in different ways."""
    text = dump_text(lab).partition("\n")[2]
    return text.replace("zero.region", "region").replace("zero.total", "total")


@pytest.mark.parametrize("form", ["yaml", "with rows", "sql"])
def test_everything_goes_from_15_to_a_later_version(old: Lab, new: Lab, tmp_path: Path, form: str):
    assert old.value("SHOW server_version_num").startswith("15")
    with two_roles(old.trickle.dsn) as (reads, asks):
        prepare(old)
        prepare(new)
        make_everything(old, reads, asks)
        for role in (reads, asks):
            quoted = role.replace('"', '""')
            new.run(f'CREATE ROLE "{quoted}"')
        try:
            carry(old, new, tmp_path, form)
            assert words(new) == words(old)
            assert contents(new) == contents(old)
            assert new.trickle.verify_stream_table('"We ""said"" ☃"."Sum\nof; --"').ok
        finally:
            for role in (reads, asks):
                quoted = role.replace('"', '""')
                new.run(f'DROP OWNED BY "{quoted}"', f'DROP ROLE "{quoted}"')


def carry(old: Lab, new: Lab, tmp_path: Path, form: str) -> None:
    """Dump here and restore there."""
    path = tmp_path / ("dump" if form == "with rows" else "dump.yaml")
    if form == "sql":
        with new.trickle.daemon.serving_requests():
            said = psql(new.trickle.dsn, r"\set ON_ERROR_STOP on", dump_text(old))
        assert said.status == 0, said.err
        return
    dump = old.trickle.definitions.dump_definitions
    dump(path, format="yaml", with_data=form == "with rows")
    new.trickle.definitions.restore_definitions(path)
    again = new.trickle.definitions.restore_definitions(path)
    assert {one.status for one in again} == {"unchanged"}


@pytest.mark.parametrize("name", sorted(TYPES))
def test_values_of_every_type_go_from_15_to_a_later_version(
    old: Lab, new: Lab, tmp_path: Path, name: str
):
    for lab in (old, new):
        load(lab, TYPES[name])
    old.trickle.create_stream_table("t", "SELECT id, v FROM src")
    path = tmp_path / "dump"

    old.trickle.definitions.dump_definitions(path, format="yaml", with_data=True)
    new.run("DELETE FROM src")
    new.trickle.definitions.restore_definitions(path)

    assert contents(new) == contents(old)
    assert words(new) == words(old)
