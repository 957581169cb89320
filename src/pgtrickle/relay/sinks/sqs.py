"""SQS: a FIFO queue, in which a key is a group, and the id is the id of deduplication.

SQS drops a message whose id it has seen within five minutes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final

from botocore.exceptions import BotoCoreError, ClientError

from pgtrickle.relay.definitions import Definition
from pgtrickle.relay.envelopes import encode
from pgtrickle.relay.messages import Message, Place, Schema, Stream
from pgtrickle.relay.sinks.aws import (
    check_failed,
    error_for,
    group_of,
    is_about_one,
    split,
    take_client,
)
from pgtrickle.relay.sinks.sink import Guarantee, Options, refusal

_HINT: Final = "Check the URL of the queue, its region, and the credentials and rights."


class SqsSink:
    """A FIFO queue of SQS."""

    guarantee: ClassVar[Guarantee] = Guarantee.WINDOW

    def __init__(self, definition: Definition, options: dict[str, Any]) -> None:
        taken = Options(definition, options)
        self._queue = taken.text("queue_url")
        if not self._queue.endswith(".fifo"):
            raise taken.wrong("queue_url", "the URL of a FIFO queue")
        self._client = take_client(taken, "sqs")
        self._envelope = definition.envelope

    def open(self, stream: Stream, schema: Schema) -> Place | None:  # noqa: ARG002 - a sink's
        """Look whether the queue is there; it does not tell what it has had."""
        try:
            self._client.get_queue_attributes(QueueUrl=self._queue, AttributeNames=["FifoQueue"])
        except (BotoCoreError, ClientError) as error:
            raise error_for(error, "SQS", _HINT) from None
        return None

    def send(self, messages: Sequence[Message]) -> None:
        """Send messages in batches in which no key is twice."""
        done = 0
        for batch in split([(one, encode(one, self._envelope)) for one in messages]):
            entries = [
                {
                    "Id": str(number),
                    "MessageBody": body,
                    "MessageDeduplicationId": message.id,
                    "MessageGroupId": group_of(message),
                }
                for number, (message, body) in enumerate(batch)
            ]
            try:
                answer = self._client.send_message_batch(QueueUrl=self._queue, Entries=entries)
            except (BotoCoreError, ClientError) as error:
                if len(batch) == 1 and is_about_one(error):
                    told = f"the queue refuses the message {batch[0][0].id}"
                    raise refusal(done, told) from None
                raise error_for(error, "SQS", _HINT) from None
            check_failed(answer, done, "SQS")
            done += len(batch)

    def close(self) -> None:
        """Close all connections."""
        self._client.close()
