"""Work inside the user's existing Spark without leaving a trace in it.

pyspark knows one context per process, in class attributes.  So pgtrickle cannot have a second one
beside the user's, and the user's ``getOrCreate()`` would return pgtrickle's.  pgtrickle works in
child sessions, with settings and views of their own: of the user's context if there is one,
otherwise of its own; and the second user keeps the context when the first one leaves.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from pgtrickle.errors import SparkSessionError

if TYPE_CHECKING:  # importing pyspark costs a second
    from pyspark.sql import SparkSession


def find_session() -> SparkSession | None:
    """Return the user's live session in this process, if there is one."""
    if "pyspark" not in sys.modules:
        return None
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    if "pyspark.sql.connect.session" in sys.modules:
        from pyspark.sql.connect.session import SparkSession as ConnectSession

        found = ConnectSession.getActiveSession() or ConnectSession._default_session  # noqa: SLF001 - no public way to ask from another thread
        if found is not None and not found.is_stopped:
            return found  # type: ignore[return-value]  # its twin for Spark Connect
    context = SparkContext._active_spark_context  # noqa: SLF001 - likewise
    if context is None or context._jsc is None:  # noqa: SLF001 - likewise
        return None
    return SparkSession._instantiatedSession or SparkSession(context)  # noqa: SLF001 - likewise


def require_session(session: Any) -> SparkSession:
    """Return the user's session, or refuse an object that is not a live session."""
    if not hasattr(session, "newSession") or not hasattr(session, "sql"):
        raise SparkSessionError(
            f"spark= was given a {type(session).__name__}, which is not a Spark session",
            hint="Give the result of SparkSession.builder.getOrCreate(), or leave it out.",
        )
    context = getattr(session, "_sc", None)
    ended = session.is_stopped if is_connect(session) else context is None or context._jsc is None  # noqa: SLF001 - no public way to ask
    if ended:
        raise SparkSessionError(
            "the Spark session that was given has been stopped",
            hint="Connect again with one that runs.",
        )
    return session  # type: ignore[no-any-return]  # checked above


def is_connect(session: Any) -> bool:
    """Tell whether a session talks to a Spark Connect server."""
    return ".connect." in type(session).__module__


def hide(session: SparkSession) -> None:
    """Hide a session of pgtrickle from pyspark.

    The user's ``getOrCreate()`` then returns a separate session on the same context.
    """
    from pyspark.sql import SparkSession

    if SparkSession._instantiatedSession in (None, session):  # noqa: SLF001 - no public way to do this
        SparkSession._instantiatedSession = None  # noqa: SLF001 - likewise
        SparkSession._activeSession = None  # noqa: SLF001 - likewise
        jvm_sessions = SparkSession._get_j_spark_session_class(session._jvm)  # noqa: SLF001 - likewise
        jvm_sessions.clearDefaultSession()
        jvm_sessions.clearActiveSession()


def has_user() -> bool:
    """Tell whether the user has created a session in this process's context."""
    from pyspark.sql import SparkSession

    return SparkSession._instantiatedSession is not None  # noqa: SLF001 - no public way to ask


@contextmanager
def active_session_kept(session: SparkSession) -> Iterator[None]:
    """Leave the thread's active session as it was: making a DataFrame changes it."""
    from pyspark.sql import SparkSession

    if is_connect(session):
        yield
        return
    before = SparkSession._activeSession  # noqa: SLF001 - no public way to set it
    try:
        yield
    finally:
        # A JVM that died has no active session either.
        with suppress(Exception):
            SparkSession._activeSession = before  # noqa: SLF001 - likewise
            jvm_sessions = SparkSession._get_j_spark_session_class(session._jvm)  # noqa: SLF001 - likewise
            if before is None:
                jvm_sessions.clearActiveSession()
            else:
                jvm_sessions.setActiveSession(before._jsparkSession)  # noqa: SLF001 - likewise


def close_child(session: Any) -> None:
    """Close a child session; ``stop()`` would end its server or context."""
    if is_connect(session):
        with suppress(Exception):  # a lost server has forgotten it already
            session.client.release_session()
        session.client.close()
