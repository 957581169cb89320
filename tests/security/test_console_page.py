"""Attacks on the page of the console: by strangers on the machine, other sites, long requests."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from pgtrickle import Trickle
from pgtrickle.cli.insight.ui import _check_alone
from pgtrickle.console.web import serving
from pgtrickle.console.web.guard import COOKIE, CSRF_HEADER, HEADERS, Guard, Rate
from pgtrickle.errors import SettingError
from tests.console.pages import TOKEN, Site, served
from tests.labs.lab import Lab

ACT = {"action": "refresh", "target": "stream table", "name": "public.ids"}
PATHS = (
    "/",
    "/static/console.js",
    "/api/session",
    "/api/panel/overview",
    "/api/explain?name=public.ids",
    "/events?panel=overview",
)


@pytest.fixture(scope="module")
def shop(shared_postgres_trickle: Trickle) -> Iterator[Lab]:
    """Make one stream table for all attacks."""
    dsn = shared_postgres_trickle.dsn
    with psycopg.connect(dsn, autocommit=True) as connection:
        lab = Lab(shared_postgres_trickle, connection)
        lab.reset()
        lab.run("CREATE TABLE t AS SELECT 1 AS id")
        lab.create("ids", "SELECT id FROM t")
        yield lab


@pytest.fixture(scope="module")
def site(shop: Lab) -> Iterator[Site]:
    with served(shop.trickle) as made:
        yield made


@pytest.fixture
def own_site(shop: Lab) -> Iterator[Site]:
    """Serve a page whose rates this test alone uses up."""
    with served(shop.trickle) as made:
        yield made


@pytest.mark.parametrize("token", [None, "", "wrong", TOKEN[:-1], f"{TOKEN}x"])
def test_a_stranger_on_the_machine_sees_nothing(site: Site, token: str | None) -> None:
    for path in PATHS:
        answer = site.ask(path, token=token)
        assert (answer.status, "public.ids" in answer.text) == (401, False)
    headers = {CSRF_HEADER: site.guard.csrf}
    assert site.ask("/api/act", method="POST", body=ACT, token=token, **headers).status == 401


def test_the_token_becomes_a_cookie_and_leaves_the_address(own_site: Site) -> None:
    answer = own_site.ask(f"/login?token={TOKEN}", token=None)
    cookie = answer.headers["set-cookie"]

    assert (answer.status, answer.headers["location"]) == (303, "/")
    assert TOKEN not in cookie
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= {one.strip() for one in cookie.split(";")}
    given = {"Cookie": f"{COOKIE}={own_site.guard.cookie}"}
    assert own_site.ask("/", token=None, **given).status == 200
    assert own_site.ask("/", token=None, Cookie=f"{COOKIE}=0").status == 401


def test_the_token_cannot_be_guessed_for_long(own_site: Site) -> None:
    found = [own_site.ask(f"/login?token={number}", token=None).status for number in range(8)]

    assert found[0] == 401
    assert found[-1] == 429


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", ""])
def test_another_name_for_this_address_is_refused(site: Site, host: str) -> None:
    """A site may point a name of its own here, and its pages may then read what we answer."""
    assert site.ask("/api/panel/overview", Host=host).status == 421


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {CSRF_HEADER: "wrong"},
        {CSRF_HEADER: "CSRF", "Origin": "https://evil.example"},
        {CSRF_HEADER: "CSRF", "Origin": "null"},
        {CSRF_HEADER: "CSRF", "Sec-Fetch-Site": "cross-site"},
        {CSRF_HEADER: "CSRF", "Sec-Fetch-Site": "same-site"},
    ],
)
def test_a_page_of_another_site_does_nothing(
    site: Site, shop: Lab, headers: dict[str, str]
) -> None:
    given = {name: site.guard.csrf if one == "CSRF" else one for name, one in headers.items()}
    before = len(shop.trickle.refresh_history("ids"))

    for path, body in (("/api/act", ACT), ("/api/validate", {"query": "SELECT 1"})):
        answer = site.ask(path, method="POST", body=body, **given)
        assert answer.status == 403, answer.text
    assert len(shop.trickle.refresh_history("ids")) == before


def test_read_only_does_nothing_even_for_its_own_page(shop: Lab) -> None:
    with served(shop.trickle, read_only=True) as site:
        assert site.act("/api/act", ACT).status == 403
        assert site.ask("/api/session").json["actions"] == []
        assert site.ask("/api/panel/overview").status == 200


def test_nothing_is_done_by_a_get(site: Site) -> None:
    for path in ("/api/act", "/api/validate"):
        assert site.ask(path, **{CSRF_HEADER: site.guard.csrf}).status == 405


def test_every_answer_has_the_headers(site: Site) -> None:
    for path in (*PATHS[:4], "/none", "/healthz", "/login?token=x"):
        answer = site.ask(path)
        for name, value in HEADERS.items():
            assert answer.headers.get_all(name) == [value], path
    policy = HEADERS["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


@pytest.mark.parametrize(
    "path",
    ["/static/../guard.py", "/static/%2e%2e/guard.py", "/static/..%2fguard.py", "/etc/passwd"],
)
def test_no_other_file_is_served(site: Site, path: str) -> None:
    assert site.ask(path).status == 404


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"x" * 70_000, 413),
        (b"[]", 400),
        (b"not json", 400),
        ({"action": "drop", "target": "stream table", "name": "public.ids"}, 400),
        ({"action": "cancel", "target": "request", "name": "1; DROP TABLE t"}, 400),
        ({**ACT, "name": "x" * 301}, 400),
    ],
)
def test_strange_deeds_are_refused(site: Site, body: object, status: int) -> None:
    assert site.act("/api/act", body).status == status


def test_strange_names_are_no_sql(site: Site, shop: Lab) -> None:
    for name in ("public.ids'; DROP TABLE t; --", 'public."', "a.b.c.d", "\u202e"):
        answer = site.act("/api/act", {**ACT, "name": name})
        assert (answer.status, answer.json["done"]) == (200, False)
    assert shop.rows("SELECT id FROM t") == [(1,)]


def test_a_long_filter_is_refused(site: Site) -> None:
    assert site.ask(f"/api/panel/overview?words={'x' * 301}").status == 400


def test_rates_are_limited(own_site: Site) -> None:
    own_site.guard.deeds = Rate(burst=2, per_second=0.001)

    assert [own_site.act("/api/act", ACT).status for _ in range(3)] == [200, 200, 429]
    own_site.guard.requests = Rate(burst=1, per_second=0.001)
    assert [own_site.ask("/api/session").status for _ in range(2)] == [200, 429]


def test_half_a_request_holds_nobody_up(site: Site) -> None:
    with socket.create_connection(("127.0.0.1", site.port)) as slow:
        slow.sendall(b"POST /api/act HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n{")
        assert site.ask("/healthz").status == 200


def test_names_are_text_on_the_page(shop: Lab, site: Site) -> None:
    """JSON and text nodes alone bring names to the page; it never makes markup of them."""
    script = site.ask("/static/console.js").text + site.ask("/static/charting.js").text
    for way in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "Function(",
    ):
        assert way not in script


def test_without_a_token_only_this_machine_is_served(tmp_path: Path) -> None:
    for host in ("127.0.0.1", "::1", "localhost"):
        _check_alone(host)
    for host in ("0.0.0.0", "::", "db.example", "10.0.0.1"):  # noqa: S104 - refused
        with pytest.raises(SettingError, match="let everybody in"):
            _check_alone(host)
    short = tmp_path / "token"
    short.write_text("short\n")
    with pytest.raises(SettingError, match="fewer than"):
        serving.read_token(short)
    assert len(serving.read_token(None)) >= 32


def test_the_token_may_be_typed_in(own_site: Site) -> None:
    form = own_site.ask("/", token=None)
    assert (form.status, 'action="/login"' in form.text) == (401, True)
    typed = {"method": "POST", "token": None, "body": f"token={TOKEN}".encode()}
    assert own_site.ask("/login", **typed).status == 303  # type: ignore[arg-type]
    wrong = {**typed, "body": b"token=wrong"}
    assert own_site.ask("/login", **wrong).status == 401  # type: ignore[arg-type]
    assert own_site.ask("/login", **{**typed, "body": b"x" * 70_000}).status == 413  # type: ignore[arg-type]


def test_guards_of_two_consoles_share_nothing() -> None:
    one, other = Guard(TOKEN, frozenset()), Guard(TOKEN, frozenset())

    assert len({one.cookie, one.csrf, other.cookie, other.csrf}) == 4


def test_the_server_says_nothing_of_itself(site: Site) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=30)
    connection.request("GET", "/healthz")
    answer = connection.getresponse()

    assert answer.getheader("server") is None
    assert answer.read() == b'{"serves":true}'
    connection.close()
