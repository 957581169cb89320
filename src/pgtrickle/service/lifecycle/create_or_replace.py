"""The changes that make an existing stream table match a definition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pgtrickle.catalog.overview import get_spec
from pgtrickle.model.report import RefreshReport
from pgtrickle.model.stream_table import StreamTable
from pgtrickle.model.text.shown import Shown
from pgtrickle.options.changes import Changes, read_options
from pgtrickle.options.stream_table import stated_words
from pgtrickle.service.lifecycle.replacing.replace_query import is_another_query
from pgtrickle.service.runtime import Runtime

CREATED, REPLACED, ALTERED, UNCHANGED = "created", "replaced", "altered", "unchanged"
EXISTS = "exists"  # and was left as it is


@dataclass(frozen=True, slots=True)
class Outcome(Shown):
    """The outcome of creating or replacing a stream table."""

    status: str  # created, replaced (another query), altered, unchanged or exists
    report: RefreshReport | None = None  # of the first load


def find_changes(
    runtime: Runtime,
    existing: StreamTable,
    query: str,
    words: Mapping[str, object],
    search_path: str | None = None,
) -> tuple[Changes, str | None, str]:
    """Return the changes of options, the query if it is another, and what that comes to.

    Options that are left out stay, except for the schedule and the mode, which have defaults.
    """
    given = {name: word for name, word in words.items() if word is not None}
    wanted = Changes.read(stated_words() | given).without("initialize")
    with runtime.connection() as connection:
        current = read_options(get_spec(connection, existing.name))
    changes = wanted.differing_from(current)
    if is_another_query(runtime, existing, query, search_path):
        return changes, query, REPLACED
    return changes, None, ALTERED if changes else UNCHANGED
