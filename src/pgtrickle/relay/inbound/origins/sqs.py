"""SQS: messages are deleted from the queue when the inbox has them; the id keeps them single."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from pgtrickle.errors import OriginSetupError, OriginUnavailableError, TrickleError
from pgtrickle.relay.inbound.definitions import InboundDefinition
from pgtrickle.relay.inbound.origins.origin import Arrived, Places
from pgtrickle.relay.sinks.sink import Options

_AT_ONCE: Final = 10  # messages, as SQS has it
_NOT_NOW: Final = frozenset(
    {"RequestThrottled", "ThrottlingException", "ServiceUnavailable", "InternalError"}
)


class SqsOrigin:
    """A queue of SQS."""

    def __init__(self, definition: InboundDefinition, options: dict[str, Any]) -> None:
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
        config = Config(
            connect_timeout=seconds, read_timeout=seconds + 20, retries={"total_max_attempts": 1}
        )
        try:
            self._client = boto3.client("sqs", config=config, **given)
        except (BotoCoreError, ValueError):
            raise taken.wrong("region_name", "a region, with an endpoint and credentials") from None

    def open(self, places: Places) -> Places:  # noqa: ARG002 - an origin's
        """Look whether the queue is there."""
        self.lag()
        return {}

    def fetch(self, most: int, seconds: float) -> Sequence[Arrived]:
        """Receive messages, ten at a time, until there are none or enough."""
        arrived: list[Arrived] = []
        wait = min(20, max(1, math.ceil(seconds)))  # less would ask, and cost, all the time
        while len(arrived) < most:
            try:
                answer = self._client.receive_message(
                    QueueUrl=self._queue,
                    MaxNumberOfMessages=min(_AT_ONCE, most - len(arrived)),
                    WaitTimeSeconds=0 if arrived else wait,
                    AttributeNames=["All"],
                    MessageAttributeNames=["All"],
                )
            except (BotoCoreError, ClientError) as error:
                raise self._error_for(error) from None
            found = answer.get("Messages", ())
            if not found:
                break
            arrived += [_arrived(one) for one in found]
        return arrived

    def settle(self, arrived: Sequence[Arrived]) -> None:
        """Delete messages; those that SQS keeps come again, and are dropped by their ids."""
        for start in range(0, len(arrived), _AT_ONCE):
            entries = [
                {"Id": str(number), "ReceiptHandle": one.receipt}
                for number, one in enumerate(arrived[start : start + _AT_ONCE])
            ]
            try:
                self._client.delete_message_batch(QueueUrl=self._queue, Entries=entries)
            except (BotoCoreError, ClientError) as error:
                raise self._error_for(error) from None

    def lag(self) -> int | None:
        """Return about how many messages the queue has."""
        wanted = "ApproximateNumberOfMessages"
        try:
            found = self._client.get_queue_attributes(QueueUrl=self._queue, AttributeNames=[wanted])
        except (BotoCoreError, ClientError) as error:
            raise self._error_for(error) from None
        return int(found["Attributes"][wanted])

    def _error_for(self, error: Exception) -> TrickleError:
        if isinstance(error, ClientError):
            code = str(error.response.get("Error", {}).get("Code", ""))[:80]
            if code in _NOT_NOW or code.startswith("5"):
                return OriginUnavailableError(f"SQS does not answer now: {code}")
            return OriginSetupError(
                f"SQS refuses the queue: {code}",
                hint="Check the URL of the queue, its region, and the credentials and rights.",
            )
        return OriginUnavailableError(f"SQS cannot be reached: {type(error).__name__}")

    def close(self) -> None:
        """Close all connections."""
        self._client.close()


def _arrived(message: dict[str, Any]) -> Arrived:
    attributes = message.get("Attributes", {})
    headers = {
        name: str(one.get("StringValue", ""))
        for name, one in message.get("MessageAttributes", {}).items()
    }
    id_ = headers.get("id") or message["MessageId"]
    group = attributes.get("MessageGroupId")
    return Arrived(
        "",
        "",
        id_,
        None if group is None else group.encode(),
        message["Body"].encode(),
        headers,
        message["ReceiptHandle"],
    )
