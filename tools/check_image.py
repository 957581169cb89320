"""Build the image of ``deploy/container`` with buildah, and run in it what Compose would run.

    python -m tools.check_image

No registry and no Docker is needed: the base is made by mmdebstrap from Debian's packages, in place
of the one that the Containerfile names.  The services get the words that the files of Compose have:
a demo, and the daemon beside a server that has the name and the password of the file.  Nothing of
it stays.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import yaml
from psycopg import sql
from psycopg.conninfo import make_conninfo

from pgtrickle.embedded.account import choose_account
from pgtrickle.embedded.binaries import find_binaries

ROOT = Path(__file__).resolve().parents[1]
_CONTAINER = ROOT / "deploy" / "container"
_BASE = "localhost/pgtrickle-base"
_IMAGE = "localhost/pgtrickle-check"
_PACKAGES = "python3,python3-venv,python-is-python3,ca-certificates"
_AUTHORITIES = "/etc/ssl/certs/ca-certificates.crt"
_DEMO = ("snapshot", "--seconds", "1", "--rows", "1000", "--json")
_ADDRESS = "127.84.71.9"  # of this machine alone, and nobody listens there
_START_SECONDS = 120.0
_SOURCE = "CREATE TABLE orders AS SELECT i AS id, 14 AS amount FROM generate_series(1, 3) AS i"
_IS_SERVED = "SELECT pgtrickle.is_served()"
_CREATE = "CALL pgtrickle.create_stream_table('total', 'SELECT sum(amount) AS total FROM orders')"


def main() -> int:
    """Say what is wrong; 1 if anything is."""
    found = list(check_real_image())
    sys.stdout.writelines(f"{one}\n" for one in found or ["ok"])
    return 1 if any(not one.startswith("note: ") for one in found) else 0


def check_real_image() -> Iterator[str]:
    """Yield why the image cannot be built or run, or a note on what is missing for that."""
    missing = [one for one in ("buildah", "mmdebstrap") if shutil.which(one) is None]
    if missing:
        yield f"note: {' and '.join(missing)} not on this machine: no image was built"
        return
    if os.geteuid() != 0:
        yield "note: not root: no image was built"
        return
    # Where a storage driver without copies is not to be had, layers are directories.
    with tempfile.TemporaryDirectory(prefix="pgtrickle-image-") as directory:
        store = ("--storage-driver", "vfs", "--root", f"{directory}/root",
                 "--runroot", f"{directory}/run")  # fmt: skip
        try:
            _make_base(Path(directory), store)
            _build(store)
            yield from _try(store, Path(directory))
        except subprocess.CalledProcessError as error:
            told = (error.stderr or error.stdout or "").strip().splitlines()[-8:]
            yield f"{' '.join(error.cmd[:12])} ended with {error.returncode}"
            yield from told
        finally:
            subprocess.run(  # noqa: S603 - no shell
                ["buildah", *store, "rm", "--all"],  # noqa: S607 - whichever is installed
                capture_output=True,
                check=False,
            )


def _make_base(directory: Path, store: tuple[str, ...]) -> None:
    files = directory / "base.tar"
    authorities = f"--customize-hook=copy-in {_AUTHORITIES} /etc/ssl/certs"
    _run("mmdebstrap", "--variant=minbase", f"--include={_PACKAGES}", authorities, "bookworm",
         str(files))  # fmt: skip
    container = _run("buildah", *store, "from", "scratch").strip()
    _run("buildah", *store, "add", "--quiet", container, str(files), "/")
    # What pip is told on this machine: certificates, and where packages are.
    told = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    told |= {"PIP_CERT": _AUTHORITIES}
    told.pop("PIP_FIND_LINKS", None)
    settings = [word for name, value in told.items() for word in ("--env", f"{name}={value}")]
    _run("buildah", *store, "config", *settings, container)
    _run("buildah", *store, "commit", "--quiet", container, _BASE)
    files.unlink()


def _build(store: tuple[str, ...]) -> None:
    # The server of the demo is in the image too, so that it can be run alone.
    _run("buildah", *store, "build", "--isolation", "chroot", "--format", "docker",
         "--build-arg", f"BASE={_BASE}", "--build-arg", "EXTRAS=lake,embedded", "--pull-never",
         "--ignorefile", str(_CONTAINER / "Containerfile.dockerignore"),
         "-f", str(_CONTAINER / "Containerfile"), "-t", _IMAGE, str(ROOT))  # fmt: skip


def _try(store: tuple[str, ...], directory: Path) -> Iterator[str]:
    container = _run(
        "buildah", *store, "from", "--pull-never", "--add-host", f"postgres:{_ADDRESS}", _IMAGE
    ).strip()
    run = ("buildah", *store, "run", "--isolation", "chroot")
    if (who := _run(*run, container, "--", "id", "-u").strip()) != "10001":
        yield f"the image runs as user {who}, not 10001"
    [demo] = _services("demo.compose.yaml").values()
    summary = json.loads(_run(*run, container, "--", *demo["entrypoint"], *_DEMO))
    if not summary["ok"]:
        yield f"the demo in the image is not right: {summary['errors']}"
    described = json.loads(_run("buildah", *store, "inspect", "--type", "image", _IMAGE))
    health = described["Docker"]["config"].get("Healthcheck")
    if not health:
        yield "the image has no health check"
        return
    services = _services("compose.yaml")
    environment = services["postgres"]["environment"]
    with _server(directory, environment["POSTGRES_DB"]) as (server, secret):
        yield from _try_daemon(run, container, services["daemon"], server, secret, health["Test"])


def _try_daemon(
    run: tuple[str, ...],
    container: str,
    service: dict[str, Any],
    server: str,
    secret: Path,
    health: list[str],
) -> Iterator[str]:
    """Run the daemon as the file of Compose says, and use it."""
    given = [
        word
        for name, value in service["environment"].items()
        for word in ("--env", f"{name}={value}")
    ]
    mounted = ("--volume", f"{secret}:/run/secrets/{secret.name}:ro")
    words = [word.replace("$$", "$") for word in (*service["entrypoint"], *service["command"])]
    daemon = subprocess.Popen(  # noqa: S603 - no shell
        [*run, *given, *mounted, container, "--", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    asked = [*run, container, "--", *health[1:]]

    def is_healthy() -> bool:
        return subprocess.run(asked, capture_output=True, check=False).returncode == 0  # noqa: S603

    try:
        if not _await(is_healthy, daemon):
            yield "the daemon of compose.yaml does not become healthy"
            return
        with psycopg.connect(server, autocommit=True) as connection:
            if not _await(lambda: connection.execute(_IS_SERVED).fetchone() == (True,), daemon):
                yield "the daemon of compose.yaml takes no requests"
                return
            connection.execute(_SOURCE)
            connection.execute(_CREATE)
            if (found := connection.execute("TABLE total").fetchall()) != [(42,)]:
                yield f"the stream table of the daemon of compose.yaml has {found}, not 42"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(daemon.pid, signal.SIGTERM)
        daemon.wait(60)


def _await(condition: Callable[[], bool], process: subprocess.Popen[str]) -> bool:
    """Wait until something is so; tell whether it came about while the process was running."""
    end = time.monotonic() + _START_SECONDS
    while not condition():
        if process.poll() is not None or time.monotonic() > end:
            return False
        time.sleep(0.2)
    return True


@contextmanager
def _server(directory: Path, database: str) -> Iterator[tuple[str, Path]]:
    """Run a server like that of the file of Compose; yield where it is, and its password's file."""
    place = directory / "server"
    place.mkdir()
    secret = place / "password"
    secret.write_text(f"{secrets.token_urlsafe()}\n")
    account = choose_account(place / "data")
    programs = find_binaries(account)
    for one in (directory, place):
        one.chmod(0o711)  # the account and the user of the image pass through
    os.chown(place, account.uid, account.gid)
    options = ("-U", "postgres", "--auth-host=scram-sha-256", "--encoding=UTF8", "--locale=C")
    made = account.run([programs.initdb, "-D", str(place / "data"), f"--pwfile={secret}", *options])
    if made.returncode:
        raise SystemExit(made.stdout)
    server = account.spawn(
        [programs.postgres, "-D", str(place / "data"), "-c", f"listen_addresses={_ADDRESS}",
         "-c", "unix_socket_directories="],
        output=subprocess.DEVNULL,
    )  # fmt: skip
    where = {"host": _ADDRESS, "user": "postgres", "password": secret.read_text().strip()}
    try:
        with _connect(**where, dbname="postgres") as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(database)))
        yield make_conninfo(**where, dbname=database), secret
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(60)


def _connect(**where: str) -> psycopg.Connection[Any]:
    """Connect as soon as the server answers."""
    end = time.monotonic() + _START_SECONDS
    while True:
        try:
            return psycopg.connect(make_conninfo(**where), autocommit=True)
        except psycopg.OperationalError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def _services(file: str) -> dict[str, Any]:
    services: dict[str, Any] = yaml.safe_load((_CONTAINER / file).read_text())["services"]
    return services


def _run(*command: str) -> str:
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)  # noqa: S603 - no shell
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
