"""The verbs on relays: what is delivered where, and how that goes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pgtrickle.catalog.relay import states
from pgtrickle.model.streams.relay import DeadLetter, RelayStatus
from pgtrickle.model.text.shown import Listing
from pgtrickle.service.naming import Naming


class RelayVerbs(Naming):
    """Deliver what outboxes record to brokers, files, services and other databases.

    It is ``trickle.relay``; docs/relay.md says what pipelines have.
    """

    def create_relay_pipeline(
        self,
        name: str,
        stream_table: str,
        sink: str,
        options: Mapping[str, Any] | None = None,
        *,
        envelope: str = "plain",
        start: str = "snapshot",
        on_poison: str = "block",
        sink_max_inflight: int = 1000,
        max_failures: int = 5,
        poll_ms: int = 200,
        or_replace: bool = False,
    ) -> None:
        """Let relays deliver the changes of a stream table to a receiver.

        Secrets in ``options`` are names: ``${ENV:PGTRICKLE_RELAY_...}``.  Whatever is wrong with
        the definition is told now, and a receiver that cannot be reached by the relay's state.
        """
        from pgtrickle.relay.create import create_pipeline

        given = {
            "stream_table": self._name(stream_table).sql,
            "sink": sink,
            "options": dict(options or {}),
            "envelope": envelope,
            "start": start,
            "on_poison": on_poison,
            "sink_max_inflight": sink_max_inflight,
            "max_failures": max_failures,
            "poll_ms": poll_ms,
        }
        create_pipeline(self._runtime, name, given, or_replace=or_replace)

    def drop_relay_pipeline(self, name: str, *, if_exists: bool = False) -> bool:
        """Drop a pipeline, with its place and its dead letters; return whether there was one."""
        with self._runtime.connection() as connection:
            return states.drop(connection, name, if_exists=if_exists)

    def relay_status(self, name: str | None = None) -> Listing[RelayStatus]:
        """Return what the pipelines do, how far each is behind, and why it does not go on."""
        with self._runtime.connection() as connection:
            return Listing(states.list_states(connection, name))

    def pause_relay(self, name: str) -> None:
        """Let a pipeline deliver nothing until it is resumed; its outbox keeps its entries."""
        with self._runtime.connection() as connection:
            states.pause(connection, name)

    def resume_relay(self, name: str, *, again: bool = False) -> None:
        """Let a pipeline go on that is paused or blocked.

        With ``again`` it begins anew, as if it had delivered nothing.
        """
        with self._runtime.connection() as connection:
            states.resume(connection, name, again=again)

    def relay_dead_letters(
        self, name: str | None = None, max_rows: int = 100
    ) -> Listing[DeadLetter]:
        """Return the messages that receivers refused, oldest first."""
        with self._runtime.connection() as connection:
            return Listing(states.list_letters(connection, name, max_rows))

    def replay_dead_letters(self, name: str, dead_letter_ids: Sequence[int] | None = None) -> int:
        """Let dead letters be delivered again, each with the others of its key; return how many."""
        with self._runtime.connection() as connection:
            return states.replay(connection, name, dead_letter_ids)

    def run_relay(
        self,
        file: str | Path | None = None,
        names: Sequence[str] = (),
        *,
        stop: threading.Event | None = None,
        once: bool = False,
        each_round: Callable[[], None] = lambda: None,
    ) -> Listing[RelayStatus]:
        """Deliver the pipelines of the catalog and of a file, until ``stop`` is set or Ctrl-C.

        Blocks; ``each_round`` is called every second.  With ``once`` it ends when everything is
        delivered, or cannot be.  Returns what became of the pipelines.
        """
        from pgtrickle.relay.run import Relay

        relay = Relay(self._runtime, None if file is None else Path(file), names)
        done = relay.run(stop or threading.Event(), once=once, each_round=each_round)
        return Listing(one for one in self.relay_status() if one.pipeline in done)

    def validate_relay(self, file: str | Path | None = None) -> Listing[str]:
        """Check the definitions of all pipelines, with their secrets; return their names."""
        from pgtrickle.relay.check import check_definitions

        return Listing(check_definitions(self._runtime, None if file is None else Path(file)))

    def test_relay(self, name: str, file: str | Path | None = None) -> str:
        """Reach the receiver of a pipeline, deliver nothing; return what it promises."""
        from pgtrickle.relay.check import check_receiver

        return check_receiver(self._runtime, name, None if file is None else Path(file))
