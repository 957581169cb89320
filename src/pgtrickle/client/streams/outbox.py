"""The verbs on outboxes: the change streams of stream tables."""

from __future__ import annotations

from pgtrickle.catalog.outboxes.entries import get_position, list_changes, list_outboxes
from pgtrickle.client.streams.consumers import ConsumerVerbs
from pgtrickle.model.streams.outbox import (
    INLINE_THRESHOLD_ROWS,
    RETENTION_HOURS,
    Outbox,
    OutboxChange,
    OutboxPosition,
)
from pgtrickle.model.text.shown import Listing


class OutboxVerbs(ConsumerVerbs):
    """Follow what refreshes change in stream tables, alone or in groups of consumers.

    It is ``trickle.outbox``.
    """

    def enable_outbox(
        self,
        name: str,
        retention_hours: float = RETENTION_HOURS,
        inline_threshold_rows: int = INLINE_THRESHOLD_ROWS,
    ) -> None:
        """Let every refresh of a stream table append its changes to an outbox.

        Entries are kept for ``retention_hours``, and for as long as a consumer group needs them.
        An entry with more than ``inline_threshold_rows`` changes keeps them apart from it.  If
        there is an outbox already, these two change.
        """
        from pgtrickle.service.outboxes.enable import enable

        enable(
            self._runtime,
            self._name(name),
            retention_hours=retention_hours,
            inline_threshold_rows=inline_threshold_rows,
        )

    def disable_outbox(self, name: str, *, if_exists: bool = False) -> bool:
        """Take the outbox of a stream table away, with its entries and its consumer groups.

        Returns whether there was one; without ``if_exists`` it is an error if there was none.
        """
        from pgtrickle.service.outboxes.enable import disable

        return disable(self._runtime, self._name(name), if_exists=if_exists)

    def outbox_status(self, name: str | None = None) -> Listing[Outbox]:
        """Return the outboxes of all stream tables or of one: what each keeps, and for whom."""
        with self._runtime.connection() as connection:
            wanted = None if name is None else self._name(name)
            return Listing(list_outboxes(connection, wanted))

    def outbox_position(self, name: str) -> OutboxPosition:
        """Return the last entry of an outbox, and the frontier to which it belongs."""
        with self._runtime.connection() as connection:
            return get_position(connection, self._name(name))

    def outbox_rows(
        self,
        name: str,
        from_id: int | None = None,
        to_id: int | None = None,
        *,
        after_row: int = 0,
        max_rows: int | None = None,
    ) -> Listing[OutboxChange]:
        """Return the changes of the entries of an outbox, both ends included, in order.

        Without ``from_id``, from the oldest entry that is kept.  To read on within an entry, give
        the last row that was seen as ``from_id`` and ``after_row``.
        """
        with self._runtime.connection() as connection:
            return Listing(
                list_changes(
                    connection,
                    self._name(name),
                    from_id,
                    to_id,
                    after_row=after_row,
                    max_rows=max_rows,
                )
            )
