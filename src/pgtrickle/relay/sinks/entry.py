"""Every kind of receiver by its name, imported when a pipeline names it."""

from __future__ import annotations

from importlib import import_module
from typing import Final, cast

from pgtrickle.errors import PipelineError
from pgtrickle.extras import require
from pgtrickle.relay.definitions import Definition
from pgtrickle.relay.secrets import resolve
from pgtrickle.relay.sinks.sink import Sink

# What each kind imports, if an extra brings it.
_LIBRARIES: Final = {
    "kafka": "confluent_kafka",
    "nats": "nats",
    "rabbitmq": "aio_pika",
    "redis": "redis",
    "sns": "boto3",
    "sqs": "boto3",
    "webhook": "urllib3",
}
KINDS: Final = {
    "file": "lines:FileSink",
    "stdout": "lines:StdoutSink",
    "webhook": "webhook:WebhookSink",
    "postgres": "postgres:PostgresSink",
    "redis": "redis_streams:RedisSink",
    "kafka": "kafka:KafkaSink",
    "nats": "nats_streams:NatsSink",
    "sqs": "sqs:SqsSink",
    "sns": "sns:SnsSink",
    "rabbitmq": "rabbitmq:RabbitSink",
}


def check_kind(definition: Definition) -> str:
    """Return where the kind of a pipeline's receiver is, or raise ST820."""
    home = KINDS.get(definition.sink)
    if home is None:
        raise PipelineError(
            f"the pipeline {definition.name} has the unknown sink {definition.sink[:40]!r}",
            hint=f"Choose one of {', '.join(KINDS)}.",
        )
    return home


def make_sink(definition: Definition) -> Sink:
    """Make the receiver of a pipeline, with its secrets; nothing is reached yet.

    Raise ST508 if the library of its kind is not installed.
    """
    module, name = check_kind(definition).split(":")
    if definition.sink in _LIBRARIES:
        require(_LIBRARIES[definition.sink])
    options = resolve(definition.options, trusted=definition.from_file)
    kind = cast("type[Sink]", getattr(import_module(f"pgtrickle.relay.sinks.{module}"), name))
    return kind(definition, options)
