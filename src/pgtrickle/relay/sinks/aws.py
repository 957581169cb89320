"""What FIFO queues and FIFO topics of AWS have in common: clients, groups, batches and errors."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, Final

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from pgtrickle.errors import SinkSetupError, SinkUnavailableError, TrickleError
from pgtrickle.relay.messages import Message
from pgtrickle.relay.sinks.sink import Options, refusal, unavailable

_AT_ONCE: Final = 10  # messages, as AWS has it
_MOST_BYTES: Final = 250_000  # of them together
_NOT_NOW: Final = frozenset(
    {
        "RequestThrottled",
        "Throttled",
        "ThrottledException",
        "ThrottlingException",
        "ServiceUnavailable",
        "InternalError",
        "InternalFailure",
    }
)
_ABOUT_ONE: Final = frozenset(
    {
        "InvalidParameter",
        "InvalidParameterValue",
        "InvalidMessageContents",
        "AWS.SimpleQueueService.BatchRequestTooLong",
        "BatchRequestTooLong",
    }
)


def take_client(taken: Options, service: str) -> Any:
    """Make the client of a service from the options that every service has, and end them."""
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
        connect_timeout=seconds, read_timeout=seconds, retries={"total_max_attempts": 1}
    )
    try:
        return boto3.client(service, config=config, **given)
    except (BotoCoreError, ValueError):
        raise taken.wrong("region_name", "a region, with an endpoint and credentials") from None


def error_for(error: Exception, service: str, hint: str) -> TrickleError:
    """Return what an error of a client means for a pipeline."""
    if isinstance(error, ClientError):
        code = _code(error)[:80]
        if code in _NOT_NOW or code.startswith("5"):
            return SinkUnavailableError(f"{service} cannot take messages now: {code}")
        return SinkSetupError(f"{service} refuses everything: {code}", hint=hint)
    return SinkUnavailableError(f"{service} cannot be reached: {type(error).__name__}")


def is_about_one(error: Exception) -> bool:
    """Tell whether an error is about the message that was sent alone."""
    return isinstance(error, ClientError) and _code(error) in _ABOUT_ONE


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def check_failed(answer: dict[str, Any], done: int, service: str) -> None:
    """Raise for the first message of a batch that was not taken, after ``done`` others."""
    failed = sorted(answer.get("Failed", ()), key=lambda one: int(one["Id"]))
    for one in failed:
        if one.get("SenderFault"):
            told = f"{service} refuses a message: {one['Code'][:80]}"
            raise refusal(done + int(one["Id"]), told)
        told = f"{service} cannot take messages now: {one['Code'][:80]}"
        raise unavailable(done + int(one["Id"]), told)


def group_of(message: Message) -> str:
    """Return the group of a message: its key, or one group for all."""
    return "all" if message.key is None else hashlib.sha256(message.key.encode()).hexdigest()


def split(messages: Sequence[tuple[Message, str]]) -> Iterator[list[tuple[Message, str]]]:
    """Yield batches: of a key, a later message is not taken where an earlier one is refused."""
    batch: list[tuple[Message, str]] = []
    groups: set[str] = set()
    size = 0
    for message, body in messages:
        group, length = group_of(message), len(body.encode())
        if batch and (len(batch) == _AT_ONCE or group in groups or size + length > _MOST_BYTES):
            yield batch
            batch, groups, size = [], set(), 0
        batch.append((message, body))
        groups.add(group)
        size += length
    if batch:
        yield batch
