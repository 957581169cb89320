"""The verbs on inboxes: tables that receive messages once."""

from __future__ import annotations

from collections.abc import Sequence

from pgtrickle.catalog.inboxes import config
from pgtrickle.model.streams.inbox import (
    INBOX_RETENTION_HOURS,
    MAX_RETRIES,
    SCHEDULE_SECONDS,
    URGENT_FROM,
    URGENT_SECONDS,
    InboxCheck,
    InboxStatus,
    OrderingGap,
    inbox_name,
    is_my_partition,
)
from pgtrickle.model.text.shown import Listing
from pgtrickle.service.naming import Naming


class InboxVerbs(Naming):
    """Receive messages once, and follow what waits, what has failed, and how it goes.

    It is ``trickle.inbox``; docs/inbox.md says how programs write to an inbox and work on it.
    """

    def create_inbox(
        self,
        name: str,
        schema: str | None = None,
        *,
        max_retries: int = MAX_RETRIES,
        with_dead_letter: bool = True,
        with_stats: bool = True,
        schedule_seconds: int = SCHEDULE_SECONDS,
        retention_hours: float = INBOX_RETENTION_HOURS,
    ) -> Listing[str]:
        """Create a table that receives messages once; return the names of its stream tables.

        A message that was tried ``max_retries`` times is a dead letter.  One that was dealt with is
        kept for ``retention_hours``, and for as long it is not taken a second time.
        """
        from pgtrickle.service.inboxes.create import create_inbox

        return Listing(
            create_inbox(
                self._runtime,
                inbox_name(name, self._schema if schema is None else schema),
                max_retries=max_retries,
                with_dead_letter=with_dead_letter,
                with_stats=with_stats,
                schedule_seconds=schedule_seconds,
                retention_hours=retention_hours,
            )
        )

    def drop_inbox(self, name: str, *, if_exists: bool = False) -> Listing[str]:
        """Drop an inbox, with its stream tables and its messages; return what went."""
        from pgtrickle.service.inboxes.drop import drop_inbox

        return Listing(drop_inbox(self._runtime, self._name(name), if_exists=if_exists))

    def enable_inbox_ordering(
        self,
        name: str,
        aggregate_column: str = "aggregate_id",
        sequence_column: str = "sequence_num",
        *,
        skip_dead_letters: bool = False,
    ) -> str:
        """Give an inbox a stream table with the next message of each aggregate; return its name.

        A dead letter holds back the later messages of its aggregate, unless they are to skip it.
        """
        from pgtrickle.service.inboxes.order import enable_ordering

        return enable_ordering(
            self._runtime,
            self._name(name),
            aggregate_column,
            sequence_column,
            skip_dead_letters=skip_dead_letters,
        )

    def disable_inbox_ordering(self, name: str) -> bool:
        """Take the order of an inbox away; return whether it had one."""
        from pgtrickle.service.inboxes.order import disable_ordering

        return disable_ordering(self._runtime, self._name(name))

    def enable_inbox_priority(
        self,
        name: str,
        priority_column: str = "priority",
        urgent_from: float = URGENT_FROM,
        schedule_seconds: int = URGENT_SECONDS,
    ) -> str:
        """Give an inbox a stream table with the urgent messages; return its name.

        It has those whose priority is ``urgent_from`` or more, and is refreshed more often.
        """
        from pgtrickle.service.inboxes.order import enable_priority

        return enable_priority(
            self._runtime, self._name(name), priority_column, urgent_from, schedule_seconds
        )

    def disable_inbox_priority(self, name: str) -> bool:
        """Take the stream table of urgent messages away; return whether there was one."""
        from pgtrickle.service.inboxes.order import disable_priority

        return disable_priority(self._runtime, self._name(name))

    def inbox_status(self, name: str | None = None) -> Listing[InboxStatus]:
        """Return how many messages of inboxes wait, have failed for good, or are done."""
        with self._runtime.connection() as connection:
            wanted = None if name is None else self._name(name)
            return Listing(config.list_statuses(connection, wanted))

    def inbox_health(self, name: str | None = None) -> Listing[InboxCheck]:
        """Return whether inboxes work, and what to do if not."""
        with self._runtime.connection() as connection:
            wanted = None if name is None else self._name(name)
            return Listing(config.list_checks(connection, wanted))

    def inbox_ordering_gaps(self, name: str, max_rows: int = 100) -> Listing[OrderingGap]:
        """Return where numbers are missing in the sequences of an ordered inbox."""
        with self._runtime.connection() as connection:
            return Listing(config.list_gaps(connection, self._name(name), max_rows))

    def replay_inbox_messages(self, name: str, event_ids: Sequence[str] | None = None) -> int:
        """Let messages wait again that have failed for good, all or some; return how many."""
        wanted = None if event_ids is None else list(event_ids)
        with self._runtime.connection() as connection:
            return config.replay(connection, self._name(name), wanted)

    def inbox_is_my_partition(
        self, aggregate_id: str | None, worker_id: int, total_workers: int
    ) -> bool:
        """Tell whether the messages of an aggregate are one worker's, of several that share them.

        It needs no database; in SQL the function of this name answers the same.
        """
        return is_my_partition(aggregate_id, worker_id, total_workers)
