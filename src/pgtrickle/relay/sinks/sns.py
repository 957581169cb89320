"""SNS: a FIFO topic, in which a key is a group, and the id is the id of deduplication.

SNS drops a message whose id it has seen within five minutes, and hands the id on to FIFO queues.
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

_HINT: Final = "Check the ARN of the topic, its region, and the credentials and rights."


class SnsSink:
    """A FIFO topic of SNS."""

    guarantee: ClassVar[Guarantee] = Guarantee.WINDOW

    def __init__(self, definition: Definition, options: dict[str, Any]) -> None:
        taken = Options(definition, options)
        self._topic = taken.text("topic_arn")
        if not self._topic.endswith(".fifo"):
            raise taken.wrong("topic_arn", "the ARN of a FIFO topic")
        self._client = take_client(taken, "sns")
        self._envelope = definition.envelope

    def open(self, stream: Stream, schema: Schema) -> Place | None:  # noqa: ARG002 - a sink's
        """Look whether the topic is there; it does not tell what it has had."""
        try:
            self._client.get_topic_attributes(TopicArn=self._topic)
        except (BotoCoreError, ClientError) as error:
            raise error_for(error, "SNS", _HINT) from None
        return None

    def send(self, messages: Sequence[Message]) -> None:
        """Publish messages in batches in which no key is twice."""
        done = 0
        for batch in split([(one, encode(one, self._envelope)) for one in messages]):
            entries = [
                {
                    "Id": str(number),
                    "Message": body,
                    "MessageDeduplicationId": message.id,
                    "MessageGroupId": group_of(message),
                }
                for number, (message, body) in enumerate(batch)
            ]
            try:
                answer = self._client.publish_batch(
                    TopicArn=self._topic, PublishBatchRequestEntries=entries
                )
            except (BotoCoreError, ClientError) as error:
                if len(batch) == 1 and is_about_one(error):
                    told = f"the topic refuses the message {batch[0][0].id}"
                    raise refusal(done, told) from None
                raise error_for(error, "SNS", _HINT) from None
            check_failed(answer, done, "SNS")
            done += len(batch)

    def close(self) -> None:
        """Close all connections."""
        self._client.close()
