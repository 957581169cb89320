"""Run the tests of projects after refreshes that changed rows, beside the refreshes themselves.

No refresh waits for a test, and none fails because of one: what a test finds is put on record, and
an alert says when that changes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager

from pgtrickle.catalog.projects.results import list_due_tests, record_results
from pgtrickle.model.projects.findings import PASSED
from pgtrickle.service.periodic import repeated
from pgtrickle.service.projects.compare import read_test
from pgtrickle.service.projects.run_tests import run_test
from pgtrickle.service.runtime import Runtime

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 2.0


def testing_projects(runtime: Runtime, works: Callable[[], bool]) -> AbstractContextManager[None]:
    """Run tests that are due, from a thread, for the length of a block, while ``works`` says so."""

    def act(_: object) -> None:
        if works():
            run_due_tests(runtime, works)

    return repeated(runtime, "test projects", _LOOK_SECONDS, act)


def run_due_tests(runtime: Runtime, works: Callable[[], bool] = lambda: True) -> None:
    """Run the tests of each stream table of a project that was refreshed since they were run."""
    with runtime.connection() as connection:
        due = list_due_tests(connection)
    for one in due:
        if not works():
            return
        results = [
            run_test(runtime, one.name, one.search_path, read_test(test)) for test in one.tests
        ]
        with runtime.connection() as connection:
            record_results(connection, one, results)
        for result in results:
            if result.status != PASSED:
                logger.warning(
                    "the test %s of %s: %s",
                    *(result.test, result.stream_table, result.status),
                    extra={"stream_table": str(result.stream_table), "rows": result.rows},
                )
