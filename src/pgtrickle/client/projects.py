"""The verbs on projects: stream tables as files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pgtrickle.model.text.shown import Listing
from pgtrickle.service.naming import Naming

if TYPE_CHECKING:  # each verb imports its use case when it is called
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
        from pgtrickle.service.projects.load import load_project
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
        from pgtrickle.service.projects.load import load_project

        project = load_project(Path(path), target, variables)
        return Listing(apply_project(self._runtime, project, tell, prune=prune))
