"""Other users of the machine reach Spark's ports, and are refused by every one of them.

The attacker is another RPC environment of Spark's own, without the secret: what it sends goes
through the driver's real ports, as it would from a process of somebody else's.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError

from pgtrickle.spark.engine import SparkEngine
from pgtrickle.spark.sessions.pair import SparkSessions

_RPC_REQUEST, _ONE_WAY = 3, 9  # kinds of frames in Spark's protocol
_SECONDS = 60.0
_NOTHING, _CLIENT = (False,), (True,)  # no defaults of the process; a peer that does not listen
_LISTENS = "0A"

# By name of the endpoint, the message that ends it.
_ATTACKS = {
    "LocalSchedulerBackendEndpoint": "org.apache.spark.scheduler.local.StopExecutor$",
    "MapOutputTracker": "org.apache.spark.StopMapOutputTracker$",
    "BlockManagerMaster": "org.apache.spark.storage.BlockManagerMessages$StopBlockManagerMaster$",
    "OutputCommitCoordinator": "org.apache.spark.scheduler.StopCoordinator$",
}


def _refresh(sessions: SparkSessions) -> int:
    """Compute something, in a thread: what hangs must not hang the tests."""
    found: list[int] = []

    def work() -> None:
        rows = pa.table({"a": [1, 2, 3]})
        found.append(SparkEngine("", sessions).run("SELECT a FROM {t}", {"t": rows}).num_rows)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(_SECONDS)
    return found[0] if found else -1


@pytest.fixture
def stranger(spark_sessions: SparkSessions) -> Iterator[Any]:
    """Yield Spark's RPC environment of somebody who does not know the secret."""
    jvm = spark_sessions.small().sparkContext._jvm
    assert jvm is not None
    conf = jvm.org.apache.spark.SparkConf(*_NOTHING).set("spark.rpc.lookupTimeout", "10s")
    conf.set("spark.rpc.askTimeout", "10s")
    manager = jvm.org.apache.spark.SecurityManager
    default = getattr(manager, "$lessinit$greater$default$3")()
    security = manager(conf, jvm.scala.Option.empty(), default)
    create = jvm.org.apache.spark.rpc.RpcEnv.create
    environment = create("stranger", "127.0.0.1", 0, conf, security, *_CLIENT)
    yield environment
    environment.shutdown()


@pytest.mark.parametrize("endpoint", _ATTACKS)
def test_stranger_stops_nothing_through_the_driver(
    spark_sessions: SparkSessions, stranger: Any, endpoint: str
) -> None:
    context = spark_sessions.small().sparkContext
    jvm = context._jvm
    assert jvm is not None
    port = int(context.getConf().get("spark.driver.port") or 0)
    address = jvm.org.apache.spark.rpc.RpcAddress("127.0.0.1", port)
    message = jvm.java.lang.Class.forName(_ATTACKS[endpoint]).getField("MODULE$").get(None)

    anything = jvm.scala.reflect.ClassTag.apply(jvm.java.lang.Class.forName("java.lang.Object"))

    with pytest.raises(Py4JJavaError):
        stranger.setupEndpointRef(address, endpoint).askSync(message, anything)

    assert _refresh(spark_sessions) == 3


def test_every_port_is_of_this_machine_alone_and_refuses_strangers(
    spark_sessions: SparkSessions,
) -> None:
    spark_sessions.small()
    ports = _listening(spark_sessions.pid)

    assert len(ports) == 3  # for executors, for blocks, for this process
    assert {host for host, _ in ports} == {"127.0.0.1"}
    answers = {port: [_ask(port, one) for one in _requests()] for _, port in ports}
    assert [one for port in answers for one in answers[port] if _answered(one)] == []
    assert _refresh(spark_sessions) == 3


def test_secret_is_nowhere_to_be_seen(spark_sessions: SparkSessions) -> None:
    context = spark_sessions.small().sparkContext
    command = Path(f"/proc/{spark_sessions.pid}/cmdline").read_text()

    assert "spark.authenticate=true" in command
    assert "secret" not in command
    assert not [name for name, _ in context.getConf().getAll() if "secret" in name]
    assert context.uiWebUrl is None
    assert spark_sessions.scratch.stat().st_mode & 0o077 == 0


def _requests() -> Iterator[bytes]:
    def frame(kind: int, body: bytes) -> bytes:
        return struct.pack(">qb", 9 + len(body), kind) + body

    # Open blocks by name: application, executor, one block.
    texts = [b"app", b"driver"]
    body = b"\0" + b"".join(struct.pack(">i", len(one)) + one for one in texts)
    body += struct.pack(">i", 1) + struct.pack(">i", 13) + b"broadcast_0_p"
    yield frame(_RPC_REQUEST, struct.pack(">qi", 1, len(body)) + body)
    yield frame(_ONE_WAY, struct.pack(">i", len(body)) + body)
    # A call of py4j: end the JVM.
    yield b"c\nz:java.lang.System\nexit\ni0\ne\n"


def _ask(port: int, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=3) as connection:
        connection.sendall(request)
        try:
            return connection.recv(2000)
        except (TimeoutError, ConnectionResetError):
            return b""


def _answered(answer: bytes) -> bool:
    """Tell whether an answer is one, and no refusal."""
    refused_by_spark = answer[8:9] == b"\x05" and b"AuthRpcHandler" in answer
    refused_by_py4j = answer.startswith((b"!x", b"!z"))  # an error, a fatal one
    return bool(answer) and not refused_by_spark and not refused_by_py4j


def _listening(pid: int | None) -> set[tuple[str, int]]:
    """Return the addresses at which a process listens for TCP connections."""
    inodes = {
        link.readlink().name[len("socket:[") : -1]
        for link in Path(f"/proc/{pid}/fd").iterdir()
        if link.is_symlink() and str(link.readlink()).startswith("socket:")
    }
    found = set()
    for name in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == _LISTENS and fields[9] in inodes:
                host, port = fields[1].split(":")
                found.add((socket.inet_ntoa(bytes.fromhex(host[-8:])[::-1]), int(port, 16)))
    return found
