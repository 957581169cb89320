"""The verbs on shadow builds of stream tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgtrickle.catalog.shadows.builds import view_evolution_status
from pgtrickle.model.report import RefreshReport
from pgtrickle.model.shadows.build import EvolutionStatus
from pgtrickle.model.shadows.difference import ShadowDiff
from pgtrickle.service.naming import Naming

if TYPE_CHECKING:  # each verb imports its use case when it is called
    from pgtrickle.model.text.names import QualifiedName


class ShadowVerbs(Naming):
    """Follow a new query that is loaded beside the old one, and put it in force or not.

    It is ``trickle.shadows``; ``alter_stream_table`` with ``shadow_build=True`` begins.
    """

    def view_evolution_status(self, name: str) -> EvolutionStatus | None:
        """Return how far the latest shadow build of a stream table is; None if there was none."""
        with self._runtime.connection() as connection:
            return view_evolution_status(connection, self._name(name))

    def compare_shadow(self, name: str, max_rows: int = 100) -> ShadowDiff:
        """Return how the rows and columns of a stream table would change by its shadow.

        Both are refreshed to one moment first. Up to ``max_rows`` different rows are listed.
        """
        from pgtrickle.service.lifecycle.shadows.compare import compare_shadow

        return compare_shadow(self._runtime, self._name(name), max_rows)

    def promote_shadow(self, name: str) -> RefreshReport:
        """Bring the shadow of a stream table up to date, and put its query in force.

        If that fails, the shadow build goes on.
        """
        from pgtrickle.service.lifecycle.shadows.promote import promote_shadow

        return promote_shadow(self._runtime, self._name(name))

    def cancel_shadow(self, name: str) -> QualifiedName:
        """End the shadow build of a stream table, which stays as it is; return its name."""
        from pgtrickle.service.lifecycle.shadows.cancel import cancel_shadow

        return cancel_shadow(self._runtime, self._name(name))
