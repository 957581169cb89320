"""The client of a role that does not own the catalog and was granted access to it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import cached_property
from typing import TYPE_CHECKING

from pgtrickle.catalog.access.standing import Standing
from pgtrickle.client.guest_subjects import (
    GuestCapture,
    GuestDefinitions,
    GuestInbound,
    GuestInbox,
    GuestInsight,
    GuestLake,
    GuestOutbox,
    GuestProjects,
    GuestRelay,
    GuestScheduler,
    GuestShadows,
    GuestSnapshots,
    Means,
)
from pgtrickle.client.trickle import Trickle
from pgtrickle.model.text.shown import Listing
from pgtrickle.service.requests.guest_verbs import Visiting
from pgtrickle.service.runtime import Runtime

if TYPE_CHECKING:
    from pgtrickle.daemon import Daemon
    from pgtrickle.service.insight.checkup.check import Check


class Guest(Visiting, Trickle):
    """The client of a role that does not own the catalog and was granted access to it."""

    def __init__(
        self,
        dsn: str,
        runtime: Runtime,
        resources: ExitStack,
        schema: str,
        standing: Standing,
        trusting: bool,  # noqa: FBT001 - one call
    ) -> None:
        super().__init__(dsn, runtime, resources, schema=schema)
        self._standing, self._trusting = standing, trusting

    def _beside_daemon(self, tell: Callable[[str], object]) -> Trickle:
        """Return this client: the daemon does the work in any case, and ``tell`` is told so."""
        self._tell = tell
        return self

    @cached_property
    def scheduler(self) -> GuestScheduler:
        """The verbs on the scheduler."""
        return GuestScheduler(self._runtime, self._schema, self._means)

    @cached_property
    def capture(self) -> GuestCapture:
        """The verbs on capture."""
        return GuestCapture(self._runtime, self._schema, self._means)

    @cached_property
    def lake(self) -> GuestLake:
        """The verbs on the lake."""
        return GuestLake(self._runtime, self._schema, self._means)

    @cached_property
    def shadows(self) -> GuestShadows:
        """The verbs on shadow builds."""
        return GuestShadows(self._runtime, self._schema, self._means)

    @cached_property
    def snapshots(self) -> GuestSnapshots:
        """The verbs on snapshots."""
        return GuestSnapshots(self._runtime, self._schema, self._means)

    @cached_property
    def outbox(self) -> GuestOutbox:
        """The verbs on outboxes."""
        return GuestOutbox(self._runtime, self._schema, self._means)

    @cached_property
    def inbound(self) -> GuestInbound:
        """The verbs on inbound pipelines."""
        return GuestInbound(self._runtime, self._schema, self._means)

    @cached_property
    def inbox(self) -> GuestInbox:
        """The verbs on inboxes."""
        return GuestInbox(self._runtime, self._schema, self._means)

    @cached_property
    def relay(self) -> GuestRelay:
        """The verbs on relays."""
        return GuestRelay(self._runtime, self._schema, self._means)

    @cached_property
    def definitions(self) -> GuestDefinitions:
        """The verbs on the definitions of a whole database."""
        return GuestDefinitions(self._runtime, self._schema, self._means)

    @cached_property
    def projects(self) -> GuestProjects:
        """The verbs on projects."""
        return GuestProjects(self._runtime, self._schema, self._means)

    @cached_property
    def insight(self) -> GuestInsight:
        """The verbs that explain."""
        return GuestInsight(self._runtime, self._schema, self._means)

    @property
    def _means(self) -> Means:
        return Means(self._ask, self._select, self._refuse)

    @property
    def daemon(self) -> Daemon:
        """Refuse: a daemon acts with the privileges of the catalog's owner."""
        raise self._standing.needs_owner()

    def doctor(self) -> Listing[Check]:
        """Check the machine, and the parts of the server that a guest may see."""
        from pgtrickle.service.insight.doctor import check_catalog_of_another, check_machine

        found = check_catalog_of_another(self._runtime, self._standing)
        return Listing([*check_machine(self._runtime.settings), *found])
