"""The verbs on inbound pipelines: what relays receive from brokers, into which inbox."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pgtrickle.catalog.inbound import states
from pgtrickle.model.streams.inbound import InboundDeadLetter, InboundStatus
from pgtrickle.model.text.shown import Listing
from pgtrickle.service.naming import Naming


class InboundVerbs(Naming):
    """Receive messages of Kafka, NATS JetStream, Redis Streams and SQS into inboxes.

    It is ``trickle.inbound``; docs/inbound.md says what pipelines have.
    """

    def create_inbound_pipeline(
        self,
        name: str,
        inbox: str,
        origin: str,
        options: Mapping[str, Any] | None = None,
        *,
        start: str = "earliest",
        on_unreadable: str = "dead_letter",
        max_inflight: int = 1000,
        max_pending: int = 100_000,
        poll_ms: int = 200,
        or_replace: bool = False,
    ) -> None:
        """Let relays receive the messages of a broker into an inbox.

        Secrets in ``options`` are names: ``${ENV:PGTRICKLE_RELAY_...}``.
        """
        from pgtrickle.relay.inbound.run import create_inbound

        given = {
            "inbox": self._name(inbox).sql,
            "origin": origin,
            "options": dict(options or {}),
            "start": start,
            "on_unreadable": on_unreadable,
            "max_inflight": max_inflight,
            "max_pending": max_pending,
            "poll_ms": poll_ms,
        }
        create_inbound(self._runtime, name, given, or_replace=or_replace)

    def drop_inbound_pipeline(self, name: str, *, if_exists: bool = False) -> bool:
        """Drop an inbound pipeline, with its place and dead letters; return whether it was there.

        What it received stays in the inbox.
        """
        with self._runtime.connection() as connection:
            return states.drop(connection, name, if_exists=if_exists)

    def inbound_status(self, name: str | None = None) -> Listing[InboundStatus]:
        """Return what the inbound pipelines do, and why they do not go on."""
        with self._runtime.connection() as connection:
            return Listing(states.list_states(connection, name))

    def pause_inbound(self, name: str) -> None:
        """Let an inbound pipeline receive nothing until it is resumed."""
        with self._runtime.connection() as connection:
            states.pause(connection, name)

    def resume_inbound(self, name: str, *, again: bool = False) -> None:
        """Let an inbound pipeline go on.

        With ``again`` it begins anew, as if it had received nothing; pause it before that.  What
        the inbox still has is not taken twice.
        """
        with self._runtime.connection() as connection:
            states.resume(connection, name, again=again)

    def inbound_dead_letters(
        self, name: str | None = None, max_rows: int = 100
    ) -> Listing[InboundDeadLetter]:
        """Return the messages that cannot be read, as they came, oldest first."""
        with self._runtime.connection() as connection:
            return Listing(states.list_letters(connection, name, max_rows))

    def replay_inbound_dead_letters(
        self, name: str, dead_letter_ids: Sequence[int] | None = None
    ) -> int:
        """Let dead letters be read again, with the pipeline as it is now; return how many."""
        with self._runtime.connection() as connection:
            return states.replay(connection, name, dead_letter_ids)

    def run_inbound(
        self,
        file: str | Path | None = None,
        names: Sequence[str] = (),
        *,
        stop: threading.Event | None = None,
        once: bool = False,
        each_round: Callable[[], None] = lambda: None,
    ) -> Listing[InboundStatus]:
        """Receive the pipelines of the catalog and of a file, until ``stop`` is set or Ctrl-C.

        Blocks; ``each_round`` is called every second.  With ``once`` it ends when nothing more
        comes.  Returns what became of the pipelines.
        """
        from pgtrickle.relay.inbound.run import InboundRelay

        relay = InboundRelay(self._runtime, None if file is None else Path(file), names)
        done = relay.run(stop or threading.Event(), once=once, each_round=each_round)
        return Listing(one for one in self.inbound_status() if one.pipeline in done)

    def validate_inbound(self, file: str | Path | None = None) -> Listing[str]:
        """Check all inbound pipelines, with their secrets; return their names."""
        from pgtrickle.relay.inbound.run import check_inbound

        return Listing(check_inbound(self._runtime, None if file is None else Path(file)))

    def test_inbound(self, name: str, file: str | Path | None = None) -> int | None:
        """Reach the broker of a pipeline, receive nothing; return how many messages it has."""
        from pgtrickle.relay.inbound.run import reach_origin

        return reach_origin(self._runtime, name, None if file is None else Path(file))
