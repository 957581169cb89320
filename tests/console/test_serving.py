"""``pgtrickle ui`` as a command: it prints its address, serves, and ends in order."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

from pgtrickle import Trickle
from pgtrickle.console.web.serving import make_guard
from tests.console.pages import Site


def test_ctrl_c_ends_it_though_somebody_looks(scene: Trickle, tmp_path: Path) -> None:
    secret = "a-token-of-a-file-of-mine"  # noqa: S105 - of this test
    (tmp_path / "token").write_text(f"{secret}\n")
    command = [sys.executable, "-m", "pgtrickle", "--quiet", "ui", "--port", "0", "--json"]
    process = subprocess.Popen(
        [*command, "--read-only", "--dsn", scene.dsn, "--token-file", str(tmp_path / "token")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PGTRICKLE_ENGINE": "postgres"},
    )
    assert process.stdout is not None
    url = json.loads(process.stdout.readline())["url"]
    site = Site(make_guard(secret, (), read_only=True), urlsplit(url).port or 0, url)
    assert url.endswith(f"login?token={secret}")
    assert site.ask("/api/session", token=secret).json["read_only"]
    assert site.ask("/api/session").status == 401
    with site.events("panel=overview", token=secret) as events:
        assert next(events)[0] == "panel"
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=60)

    assert (process.returncode, out, errors) == (0, "", "")


def test_a_port_that_is_taken_is_named(scene: Trickle) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = subprocess.run(
            [sys.executable, "-m", "pgtrickle", "ui", "--port", str(port), "--dsn", scene.dsn],
            capture_output=True,
            text=True,
            check=False,
        )
    assert ended.returncode == 1
    assert f"cannot listen at 127.0.0.1, port {port}" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_the_daemon_serves_it_too_and_says_no_token(database: str, tmp_path: Path) -> None:
    secret = "a-token-of-a-file-of-mine"  # noqa: S105 - of this test
    (tmp_path / "token").write_text(secret)
    command = [sys.executable, "-m", "pgtrickle", "run", "--dsn", database, "--ui-port", "0"]
    environment = {**os.environ, "PGTRICKLE_ENGINE": "postgres"}
    refused = subprocess.run(
        command, capture_output=True, text=True, env=environment, check=False, timeout=60
    )
    assert (refused.returncode, "--ui-token-file" in refused.stderr) == (1, True)

    process = subprocess.Popen(
        [*command, "--ui-token-file", str(tmp_path / "token")],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        env=environment,
    )
    assert process.stderr is not None
    told = ""
    while "console on" not in told:
        told = process.stderr.readline()
        assert told
    port = urlsplit(told.split()[2].rstrip(",")).port or 0
    site = Site(make_guard(secret, (), read_only=False), port, "")
    assert site.ask("/api/panel/overview", token=secret).status == 200
    assert site.ask("/api/panel/overview", token=None).status == 401
    process.send_signal(signal.SIGINT)
    rest = process.communicate(timeout=60)[1]

    assert process.returncode == 0, rest
    assert secret not in told + rest
