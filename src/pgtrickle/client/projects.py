"""The verbs on projects: stream tables as files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pgtrickle.model.text.shown import Listing
from pgtrickle.service.naming import Naming

if TYPE_CHECKING:  # each verb imports its use case when it is called
    from pgtrickle.model.projects.findings import (
        ProjectDifference,
        ProjectTestResult,
        WrittenProject,
    )
    from pgtrickle.model.projects.plan import AppliedStep, ProjectPlan


class ProjectVerbs(Naming):
    """Let the stream tables of a database be what the files of a folder say.

    It is ``trickle.projects``; docs/projects.md says what the files hold.
    """

    def plan_project(
        self,
        path: str | Path = ".",
        *,
        target: str | None = None,
        variables: Mapping[str, Any] | None = None,
    ) -> ProjectPlan:
        """Return what ``apply_project`` would do, with its cost and locks; changes nothing.

        ``variables`` go before those of the files.
        """
        from pgtrickle.service.projects.files.load import load_project
        from pgtrickle.service.projects.plan import plan_project

        project = load_project(Path(path), target, variables)
        return plan_project(self._runtime, project).shown

    def apply_project(
        self,
        path: str | Path = ".",
        *,
        target: str | None = None,
        variables: Mapping[str, Any] | None = None,
        prune: bool = False,
        tell: Callable[[AppliedStep], object] = lambda _: None,
    ) -> Listing[AppliedStep]:
        """Create and alter what differs from the files; ``tell`` is called after each.

        What no file says any more is dropped only with ``prune``.  After an interruption, apply the
        project again.
        """
        from pgtrickle.service.projects.apply import apply_project
        from pgtrickle.service.projects.files.load import load_project

        project = load_project(Path(path), target, variables)
        return Listing(apply_project(self._runtime, project, tell, prune=prune))

    def diff_project(
        self,
        path: str | Path = ".",
        *,
        target: str | None = None,
        variables: Mapping[str, Any] | None = None,
    ) -> Listing[ProjectDifference]:
        """Return how stream tables differ from their files, and which were altered since."""
        from pgtrickle.service.projects.diff import diff_project
        from pgtrickle.service.projects.files.load import load_project

        return Listing(diff_project(self._runtime, load_project(Path(path), target, variables)))

    def test_project(
        self,
        path: str | Path = ".",
        *,
        names: Sequence[str] = (),
        target: str | None = None,
        variables: Mapping[str, Any] | None = None,
        refresh: bool = False,
        longest: timedelta = timedelta(minutes=5),
        tell: Callable[[ProjectTestResult], object] = lambda _: None,
    ) -> Listing[ProjectTestResult]:
        """Run the tests of all stream tables, or of some; ``tell`` is called after each.

        With ``refresh`` each stream table is brought up to date before its tests.  A test that
        takes longer than ``longest`` has failed.
        """
        from pgtrickle.service.projects.files.load import load_project
        from pgtrickle.service.projects.run_tests import run_tests

        project = load_project(Path(path), target, variables)
        return Listing(
            run_tests(self._runtime, project, tell, names=names, refresh=refresh, longest=longest)
        )

    def import_project(
        self, path: str | Path, *, project: str | None = None, names: Sequence[str] = ()
    ) -> WrittenProject:
        """Write the stream tables of the database, or some, as files of a new project."""
        from pgtrickle.service.projects.files.import_files import import_project

        path = Path(path)
        wanted = [self._name(one) for one in names]
        return import_project(self._runtime, path, project or path.resolve().name, wanted)

    def init_project(self, path: str | Path = ".", *, sample_data: bool = False) -> WrittenProject:
        """Write a small project that runs; with ``sample_data`` make the tables that it reads."""
        from pgtrickle.service.projects.files.write_example import make_sample_data, write_example

        written = write_example(Path(path))
        if sample_data:
            make_sample_data(self._runtime)
        return written
