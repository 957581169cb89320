"""Take the stream tables of one database to another by a dump of their definitions."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.fuzz.lifecycle.grounds import Grounds, close
from tests.labs.lab import Lab


def take_along(
    grounds: Grounds,
    lab: Lab,
    make_sources: Callable[[Lab], None],
    *,
    per_table: bool,
    with_data: bool,
) -> Lab:
    """Dump, restore beside it and in a new database; return that one."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "dump"
        if not (per_table or with_data):
            path = path.with_suffix(".yaml")
        lab.trickle.definitions.dump_definitions(
            path, format="yaml", per_table=per_table, with_data=with_data
        )
        again = lab.trickle.definitions.restore_definitions(path)
        assert {one.status for one in again} == {"unchanged"}, again
        other = grounds.fresh()
        try:
            make_sources(other)
            made = other.trickle.definitions.restore_definitions(path)
            assert {one.status for one in made} == {"created"}, made
        except BaseException:
            close(other)
            raise
    close(lab)
    return other
