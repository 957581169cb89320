"""The verbs on consumer groups."""

from __future__ import annotations

from datetime import datetime

from pgtrickle.catalog.outboxes import consumers
from pgtrickle.model.streams.outbox import ConsumerLag, LeasedEntry
from pgtrickle.model.text.shown import Listing
from pgtrickle.model.words import AnyOffsetReset
from pgtrickle.service.naming import Naming


class ConsumerVerbs(Naming):
    """Share the entries of an outbox among consumers, of which one has them at a time."""

    def create_consumer_group(
        self, name: str, outbox: str, auto_offset_reset: AnyOffsetReset = "latest"
    ) -> None:
        """Create a group of consumers of the outbox of a stream table.

        It begins after the ``latest`` entry, or with the ``earliest`` that is kept.  From then on
        the outbox keeps entries until the group has committed them.
        """
        with self._runtime.connection() as connection:
            consumers.create_consumer_group(connection, name, self._name(outbox), auto_offset_reset)

    def drop_consumer_group(self, name: str, *, if_exists: bool = False) -> bool:
        """Drop a consumer group; return whether it was there."""
        with self._runtime.connection() as connection:
            return consumers.drop_consumer_group(connection, name, if_exists=if_exists)

    def poll_outbox(
        self, group: str, consumer: str, batch: int = 100, visibility_seconds: float = 30.0
    ) -> Listing[LeasedEntry]:
        """Return the next entries of a group, leased to a consumer; none while another has them.

        They come again, to any consumer, if they are not committed before the lease expires.
        """
        with self._runtime.connection() as connection:
            return Listing(
                consumers.poll_outbox(connection, group, consumer, batch, visibility_seconds)
            )

    def commit_offset(self, group: str, consumer: str, outbox_id: int) -> None:
        """Say that a consumer has dealt with all entries up to one."""
        with self._runtime.connection() as connection:
            consumers.commit_offset(connection, group, consumer, outbox_id)

    def extend_lease(self, group: str, consumer: str, seconds: float = 30.0) -> datetime:
        """Keep the entries that a consumer has for so long from now; return until when."""
        with self._runtime.connection() as connection:
            return consumers.extend_lease(connection, group, consumer, seconds)

    def seek_offset(self, group: str, outbox_id: int) -> None:
        """Let a group go on after an entry, earlier or later; whoever has a lease loses it."""
        with self._runtime.connection() as connection:
            consumers.seek_offset(connection, group, outbox_id)

    def consumer_heartbeat(self, group: str, consumer: str) -> None:
        """Say that a consumer lives, as its polls and commits do, too."""
        with self._runtime.connection() as connection:
            consumers.consumer_heartbeat(connection, group, consumer)

    def consumer_lag(self, group: str | None = None) -> Listing[ConsumerLag]:
        """Return how far your consumer groups, or one of them, are behind."""
        with self._runtime.connection() as connection:
            return Listing(consumers.list_consumer_lag(connection, group))
