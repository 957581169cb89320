"""Tags for the jobs of one refresh: they share a FAIR pool and can be cancelled together."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pgtrickle.ports import current_job

if TYPE_CHECKING:  # importing pyspark costs a second
    from pyspark import SparkContext
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
    """Tag the jobs of this thread in the block with the name of its refresh, if any."""
    job = current_job.get()
    if job is None:
        yield
        return
    tag, context = tag_of(job), _context_of(session)
    _tag(session, context, tag)
    try:
        yield
    finally:
        _untag(session, context, tag)


def cancel(session: SparkSession, job: str) -> None:
    """Cancel the jobs with a tag."""
    context = _context_of(session)
    if context is None:
        session.interruptTag(tag_of(job))
    else:
        context.cancelJobsWithTag(tag_of(job))


def _context_of(session: SparkSession) -> SparkContext | None:
    """Return the context, in which all threads share tags; Spark Connect has none.

    A session of this process knows a tag only in the thread that set it, and lets no other cancel
    its jobs.  On a Connect server a tag belongs to the session.
    """
    return getattr(session, "_sc", None)


def _tag(session: SparkSession, context: SparkContext | None, tag: str) -> None:
    if context is None:
        session.addTag(tag)
        return
    context.addJobTag(tag)
    context.setLocalProperty(_POOL, tag)


def _untag(session: SparkSession, context: SparkContext | None, tag: str) -> None:
    from py4j.protocol import Py4JError  # noqa: PLC0415 - comes with pyspark

    if context is None:
        session.removeTag(tag)
        return
    if context._jsc is None:  # noqa: SLF001 - stopped meanwhile; no public way to ask
        return
    try:
        context.removeJobTag(tag)
        context.setLocalProperty(_POOL, None)  # type: ignore[arg-type]  # which takes it away
    except (Py4JError, OSError):
        return  # a JVM that died takes its tags along
