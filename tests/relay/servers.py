"""Real servers for the receivers of relays: each starts on a free port, and ends with its test."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest


def need(program: str, package: str) -> str:
    """Return the path of a program, or skip with the reason."""
    found = shutil.which(program) or shutil.which(program, path="/usr/sbin:/usr/local/sbin")
    if found is None:
        pytest.skip(f"{program} is not installed: apt-get install {package}")
    return found


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextmanager
def running(
    command: list[str],
    port: int,
    log: Path,
    environment: dict[str, str] | None = None,
    *,
    alone: bool = False,
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server until the block ends; it listens when the block begins.

    One that is ``alone`` has a session of its own, and ends with all that it started there.
    """
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment,
            start_new_session=alone,
        )
    try:
        end = time.monotonic() + 60
        while True:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                time.sleep(0.02)
        yield process
    finally:
        if alone:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        process.wait()


@contextmanager
def redis_server(folder: Path, port: int) -> Iterator[str]:
    """Run Redis, which writes to its disk at once; yield its URL."""
    program = need("redis-server", "redis-server")
    command = [program, "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder)]
    command += ["--save", "", "--appendonly", "yes", "--appendfsync", "always"]
    with running(command, port, folder / "redis.log"):
        yield f"redis://127.0.0.1:{port}/0"


_KAFKA = Path.home() / ".cache" / "pgtrickle" / "kafka-4.3.1"
_KAFKA_SETTINGS = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{advertised}
controller.listener.names=CONTROLLER
log.dirs={folder}/data
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
"""


@contextmanager
def kafka_server(
    folder: Path, port: int, controller: int, advertised: int | None = None
) -> Iterator[str]:
    """Run Kafka, with what it had before if it ran in this folder; yield its address.

    It tells clients to come to the port that is ``advertised``, if that is another one.
    """
    java = need("java", "openjdk-17-jre-headless")
    if not any(_KAFKA.glob("kafka_2.13-*.jar")):
        pytest.skip(f"Kafka is not in {_KAFKA}: see .ci/run")
    settings = folder / "server.properties"
    values = {"port": port, "controller": controller, "folder": folder}
    values["advertised"] = advertised or port
    settings.write_text(_KAFKA_SETTINGS.format(**values))
    program = [java, "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{_KAFKA}/*"]
    if not (folder / "data" / "meta.properties").exists():
        cluster = ["-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c", str(settings)]
        subprocess.run(
            [*program, "kafka.tools.StorageTool", "format", *cluster],
            check=True,
            capture_output=True,
        )
    with running([*program, "kafka.Kafka", str(settings)], port, folder / "kafka.log"):
        yield f"127.0.0.1:{port}"


@contextmanager
def nats_server(folder: Path, port: int) -> Iterator[str]:
    """Run NATS with JetStream, with what it had before in this folder; yield its URL."""
    program = need("nats-server", "nats-server")
    command = [program, "-a", "127.0.0.1", "-p", str(port), "-js", "-sd", str(folder / "jetstream")]
    with running(command, port, folder / "nats.log"):
        yield f"nats://127.0.0.1:{port}"


_RABBIT = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
_RABBIT_SETTINGS = """
listeners.tcp.1 = 127.0.0.1:{port}
loopback_users = none
"""


@contextmanager
def rabbitmq_server(folder: Path, port: int) -> Iterator[str]:
    """Run a private node of RabbitMQ, with what it had before in this folder; yield its URL."""
    if not _RABBIT.exists():
        pytest.skip("rabbitmq-server is not installed: apt-get install rabbitmq-server")
    registry, distribution = free_port(), free_port()
    home = folder / "rabbitmq"
    home.mkdir(exist_ok=True)
    (home / "rabbitmq.conf").write_text(_RABBIT_SETTINGS.format(port=port))
    (home / "plugins").write_text("[].")
    environment = {
        "HOME": str(home),
        "PATH": "/usr/bin:/bin:/usr/local/bin",
        "ERL_EPMD_PORT": str(registry),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODENAME": f"relay{port}@localhost",
        "RABBITMQ_DIST_PORT": str(distribution),
        "RABBITMQ_CONFIG_FILE": str(home / "rabbitmq.conf"),
        "RABBITMQ_CONF_ENV_FILE": "/dev/null",
        "RABBITMQ_MNESIA_BASE": str(home / "data"),
        "RABBITMQ_LOG_BASE": str(home / "log"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(home / "plugins"),
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 2:2",
    }
    # The node would leave a registry behind that it started itself.
    names = [need("epmd", "rabbitmq-server"), "-port", str(registry), "-address", "127.0.0.1"]
    log = folder / "rabbitmq.log"
    with (
        running(names, registry, folder / "epmd.log"),
        running([str(_RABBIT)], port, log, environment, alone=True),
    ):
        yield f"amqp://guest:guest@127.0.0.1:{port}/"
