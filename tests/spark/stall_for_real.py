"""Spark that looks healthy and does nothing, as a process of its own; tells if it was replaced."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

import pyarrow as pa
import pytest

from pgtrickle.errors import RefreshStalledError
from pgtrickle.ports import job_named
from pgtrickle.spark.engine import SparkEngine
from pgtrickle.spark.sessions.pair import SparkSessions

_ROWS = {"t": pa.table({"a": [1, 2, 3]})}


def main() -> None:
    """Take the executor away, then let the whole JVM stand still."""
    sessions = SparkSessions(driver_memory="512m", class_archive=False, record_after=None)
    engine = SparkEngine("", sessions, stall_seconds=20)
    try:
        engine.run("SELECT a FROM {t}", _ROWS)
        first = sessions.pid
        _stop_executor(sessions)

        with pytest.raises(RefreshStalledError), job_named("public.t"):
            engine.run("SELECT a FROM {t}", _ROWS)

        assert engine.run("SELECT a FROM {t}", _ROWS).num_rows == 3
        second = sessions.pid
        assert second is not None
        assert second != first
        os.kill(second, signal.SIGSTOP)

        # It is found dead before anything is computed, or by the watch if it froze after that look;
        # another one takes its place.
        with job_named("public.t"):
            with suppress(RefreshStalledError):
                engine.run("SELECT a FROM {t}", _ROWS)
            assert engine.run("SELECT a FROM {t}", _ROWS).num_rows == 3

        assert sessions.pid not in (None, first, second)
    finally:
        engine.close()
    print("ended and replaced")


def _stop_executor(sessions: SparkSessions) -> None:
    """Do what an attacker could through the driver's port, before it asked for a secret."""
    context = sessions.context
    assert context is not None
    jvm, port = context._jvm, context.getConf().get("spark.driver.port")
    assert jvm is not None
    assert port is not None
    conf = context._jsc.getConf()
    manager = jvm.org.apache.spark.SecurityManager  # which finds the secret in this JVM
    default = getattr(manager, "$lessinit$greater$default$3")()
    security = manager(conf, jvm.scala.Option.empty(), default)
    client = True
    create = jvm.org.apache.spark.rpc.RpcEnv.create
    insider = create("insider", "127.0.0.1", 0, conf, security, client)
    address = jvm.org.apache.spark.rpc.RpcAddress("127.0.0.1", int(port))
    message = jvm.java.lang.Class.forName("org.apache.spark.scheduler.local.StopExecutor$")
    endpoint = insider.setupEndpointRef(address, "LocalSchedulerBackendEndpoint")
    anything = jvm.scala.reflect.ClassTag.apply(jvm.java.lang.Class.forName("java.lang.Object"))
    endpoint.askSync(message.getField("MODULE$").get(None), anything)


if __name__ == "__main__":
    main()
