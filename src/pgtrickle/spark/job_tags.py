"""The jobs of one refresh under one name: they share a FAIR pool and can be cancelled together."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pgtrickle.ports import current_job

if TYPE_CHECKING:  # importing pyspark costs a second
    from pyspark.sql import SparkSession

_POOL = "spark.scheduler.pool"


def tag_of(job: str) -> str:
    """Return a name that Spark takes as a tag, which may hold no comma.

    >>> tag_of('public."a,b"')
    'pgtrickle public."a b"'
    """
    return "pgtrickle " + re.sub(r"[,\s]", " ", job)


@contextmanager
def tagged(session: SparkSession) -> Iterator[None]:
    """Give what this thread runs in the block the name of the refresh it belongs to, if any."""
    job = current_job.get()
    if job is None:
        yield
        return
    tag, context = tag_of(job), getattr(session, "_sc", None)  # Spark Connect has no context
    session.addTag(tag)
    if context is not None:
        context.setLocalProperty(_POOL, tag)
    try:
        yield
    finally:
        # A JVM that died takes its tags along.
        if context is None or context._jsc is not None:  # noqa: SLF001 - no public way to ask
            _untag(session, tag)


def _untag(session: SparkSession, tag: str) -> None:
    from py4j.protocol import Py4JError  # noqa: PLC0415 - comes with pyspark

    try:
        session.removeTag(tag)
    except (Py4JError, OSError):
        return


def cancel(session: SparkSession, job: str) -> None:
    """Cancel what runs under a name."""
    session.interruptTag(tag_of(job))
