"""SQS: a FIFO queue, in which a key is a group, and the id is the id of deduplication.

SQS drops a message whose id it has seen within five minutes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Final

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from pgtrickle.errors import SinkSetupError, SinkUnavailableError, TrickleError
from pgtrickle.relay.definitions import Definition
from pgtrickle.relay.envelopes import encode
from pgtrickle.relay.messages import Message, Place, Schema, Stream
from pgtrickle.relay.sinks.sink import Guarantee, Options, refusal

_AT_ONCE: Final = 10  # messages, as SQS has it
_MOST_BYTES: Final = 250_000  # of them together
_NOT_NOW: Final = frozenset(
    {"RequestThrottled", "ThrottlingException", "ServiceUnavailable", "InternalError"}
)


class SqsSink:
    """A FIFO queue of SQS."""

    guarantee: ClassVar[Guarantee] = Guarantee.WINDOW

    def __init__(self, definition: Definition, options: dict[str, Any]) -> None:
        taken = Options(definition, options)
        self._queue = taken.text("queue_url")
        seconds = taken.number("timeout_seconds", 10, 0.1, 300)
        given = {
            name: taken.optional(name)
            for name in (
                "region_name",
                "endpoint_url",
                "aws_access_key_id",
                "aws_secret_access_key",
                "aws_session_token",
            )
        }
        taken.end()
        if not self._queue.endswith(".fifo"):
            raise taken.wrong("queue_url", "the URL of a FIFO queue")
        self._envelope = definition.envelope
        config = Config(
            connect_timeout=seconds, read_timeout=seconds, retries={"total_max_attempts": 1}
        )
        try:
            self._client = boto3.client("sqs", config=config, **given)
        except (BotoCoreError, ValueError):
            raise taken.wrong("region_name", "a region, with an endpoint and credentials") from None

    def open(self, stream: Stream, schema: Schema) -> Place | None:  # noqa: ARG002 - a sink's
        """Look whether the queue is there; it does not tell what it has had."""
        try:
            self._client.get_queue_attributes(QueueUrl=self._queue, AttributeNames=["FifoQueue"])
        except (BotoCoreError, ClientError) as error:
            raise self._error_for(error) from None
        return None

    def send(self, messages: Sequence[Message]) -> None:
        """Send messages in batches in which no key is twice."""
        done = 0
        for batch in _split([(one, encode(one, self._envelope)) for one in messages]):
            entries = [
                {
                    "Id": str(number),
                    "MessageBody": body,
                    "MessageDeduplicationId": message.id,
                    "MessageGroupId": _group(message),
                }
                for number, (message, body) in enumerate(batch)
            ]
            try:
                answer = self._client.send_message_batch(QueueUrl=self._queue, Entries=entries)
            except (BotoCoreError, ClientError) as error:
                if len(batch) == 1 and _is_about_one(error):
                    told = f"the queue refuses the message {batch[0][0].id}"
                    raise refusal(done, told) from None
                raise self._error_for(error) from None
            failed = sorted(answer.get("Failed", ()), key=lambda one: int(one["Id"]))
            for one in failed:
                number = done + int(one["Id"])
                if one.get("SenderFault"):
                    raise refusal(number, f"the queue refuses a message: {one['Code'][:80]}")
                raise SinkUnavailableError(f"SQS cannot take messages now: {one['Code'][:80]}")
            done += len(batch)

    def _error_for(self, error: Exception) -> TrickleError:
        if isinstance(error, ClientError):
            code = str(error.response.get("Error", {}).get("Code", ""))[:80]
            if code in _NOT_NOW or code.startswith("5"):
                return SinkUnavailableError(f"SQS cannot take messages now: {code}")
            return SinkSetupError(
                f"SQS refuses the queue: {code}",
                hint="Check the URL of the queue, its region, and the credentials and rights.",
            )
        return SinkUnavailableError(f"SQS cannot be reached: {type(error).__name__}")

    def close(self) -> None:
        """Close all connections."""
        self._client.close()


def _is_about_one(error: Exception) -> bool:
    code = error.response.get("Error", {}).get("Code") if isinstance(error, ClientError) else ""
    return code in {
        "InvalidParameterValue",
        "InvalidMessageContents",
        "AWS.SimpleQueueService.BatchRequestTooLong",
    }


def _group(message: Message) -> str:
    """Return the group of a message: its key, or one group for all."""
    return "all" if message.key is None else hashlib.sha256(message.key.encode()).hexdigest()


def _split(messages: Sequence[tuple[Message, str]]) -> Iterator[list[tuple[Message, str]]]:
    """Yield batches: of a key, a later message is not taken where an earlier one is refused."""
    batch: list[tuple[Message, str]] = []
    groups: set[str] = set()
    size = 0
    for message, body in messages:
        group, length = _group(message), len(body.encode())
        if batch and (len(batch) == _AT_ONCE or group in groups or size + length > _MOST_BYTES):
            yield batch
            batch, groups, size = [], set(), 0
        batch.append((message, body))
        groups.add(group)
        size += length
    if batch:
        yield batch
