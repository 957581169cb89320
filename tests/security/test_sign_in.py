"""Attacks on the page where database roles sign in: to get in, to stay in, and to do more."""

from __future__ import annotations

import http.client
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from typer.testing import CliRunner

import pgtrickle
from pgtrickle import Trickle
from pgtrickle.cli.main import app
from pgtrickle.cli.signing_in import make_sign_in
from pgtrickle.console.web.guard import COOKIE, CSRF_HEADER, Rate
from pgtrickle.console.web.proxy_entrance import check_header
from pgtrickle.console.web.visits import LONGEST, MOST_OF_A_ROLE
from pgtrickle.errors import SettingError
from pgtrickle.settings import POSTGRES, Settings
from tests.console.pages import Answer, Site, served
from tests.fakes.engine import NoEngine
from tests.fixtures.restartable import OwnServer, started_server
from tests.security.test_console_page import ACT, PATHS

SECRETS = {
    "boss": "boss's pass word",
    "ann": "ann=% secret",
    "bob": "bob's",
    "eve": "eve's",
    "dan": "dan's",
}
PROXY = "X-Remote-User"
_ACCESS = "local all owner trust\nlocal all open trust\nlocal all all scram-sha-256\n"


@pytest.fixture(scope="module")
def server() -> Iterator[OwnServer]:
    """Start a server that asks all but two roles for a password."""
    with started_server() as own:
        with psycopg.connect(own.dsn, autocommit=True) as admin:
            for role, secret in SECRETS.items():
                admin.execute(f"CREATE ROLE {role} LOGIN PASSWORD {quoted(secret)}".encode())
            admin.execute("CREATE ROLE open LOGIN")
            admin.execute("CREATE ROLE nopass LOGIN")
            admin.execute("CREATE DATABASE shop OWNER boss")
            (own.data / "pg_hba.conf").write_text(_ACCESS)
            admin.execute("SELECT pg_reload_conf()")
        yield own


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


@pytest.fixture(scope="module")
def boss(server: OwnServer) -> Iterator[Trickle]:
    """Give the catalog an owner, a reader (ann), an operator (bob), and one without access."""
    dsn = make_conninfo(server.dsn, dbname="shop", user="boss", password=SECRETS["boss"])
    settings = Settings(dsn=dsn, engine=POSTGRES)
    with (
        pgtrickle.connect(settings=settings, engine=NoEngine(), init=True) as trickle,
        psycopg.connect(dsn, autocommit=True) as user,
    ):
        user.execute("CREATE TABLE t AS SELECT 1 AS id")
        trickle.create_stream_table("public.ids", "SELECT id FROM t")
        for statement in (
            "SELECT pgtrickle.grant_access('ann', 'reader')",
            "SELECT pgtrickle.grant_access('bob', 'operator')",
            "SELECT pgtrickle.grant_access('open', 'reader')",
            "SELECT pgtrickle.grant_access('dan', 'reader')",
        ):
            user.execute(statement.encode())
        yield trickle


@dataclass
class Door:
    """A page where roles sign in."""

    site: Site

    def knock(self, role: str, password: str, **headers: str) -> Answer:
        form = urlencode({"role": role, "password": password}).encode()
        return self.site.ask("/login", method="POST", body=form, token=None, **headers)

    def enter(self, role: str) -> Guest:
        answer = self.knock(role, SECRETS[role])
        assert answer.status == 303, answer.text
        return self.guest(cookie_of(answer))

    def guest(self, cookie: str) -> Guest:
        guest = Guest(self.site, {"Cookie": f"{COOKIE}={cookie}"})
        return Guest(self.site, guest.headers, guest.ask("/api/session").json["csrf"])


@dataclass
class Guest:
    """Somebody who has signed in."""

    site: Site
    headers: dict[str, str]
    csrf: str = ""

    def ask(self, path: str, **more: Any) -> Answer:
        return self.site.ask(path, token=None, **{**self.headers, **more})

    def act(self, body: Any = ACT, path: str = "/api/act", **more: Any) -> Answer:
        given = {CSRF_HEADER: self.csrf, **more}
        return self.ask(path, method="POST", body=body, **given)


def cookie_of(answer: Answer) -> str:
    return SimpleCookie(answer.headers["set-cookie"])[COOKIE].value


@contextmanager
def opened_door(boss: Trickle, **options: Any) -> Iterator[Door]:
    sign_in = make_sign_in(boss.dsn, 30, options.pop("header", ""))
    with served(boss, token="", sign_in=sign_in, **options) as site:
        site.guard.logins = Rate(burst=1000, per_second=1000)
        if hasattr(site.entrance, "tries"):
            site.entrance.tries = Rate(burst=1000, per_second=1000)
        yield Door(site)


@pytest.fixture(scope="module")
def door(boss: Trickle) -> Iterator[Door]:
    with opened_door(boss) as door:
        yield door


@pytest.fixture
def own_door(boss: Trickle) -> Iterator[Door]:
    with opened_door(boss) as door:
        yield door


def test_who_has_not_signed_in_sees_nothing(door: Door) -> None:
    for path in PATHS:
        for token in (None, "", "x"):
            answer = door.site.ask(path, token=token, Cookie=f"{COOKIE}=")
            assert (answer.status, "public.ids" in answer.text) == (401, False), path
    assert 'name="password"' in door.site.ask("/", token=None).text
    csrf = {CSRF_HEADER: door.site.guard.csrf, "Cookie": f"{COOKIE}={door.site.guard.cookie}"}
    for path in ("/api/act", "/api/validate", "/api/here", "/logout"):
        assert door.site.ask(path, method="POST", body=ACT, token=None, **csrf).status == 401


@pytest.mark.parametrize(
    ("role", "password"),
    [
        ("ann", "wrong"),
        ("ann", SECRETS["bob"]),
        ("ann", ""),
        ("ann", f"{SECRETS['ann']}\0"),
        ("ann\0", SECRETS["ann"]),
        ("nobody", "x"),
        ("nopass", "x"),
        ("open", "x"),  # the server lets it in without looking at any password
        ("owner", "x"),  # likewise, and it is a superuser
        ("", "x"),
        ("x" * 64, "x"),
        ("ann", "x" * 1001),
        ("ann user=owner", SECRETS["ann"]),
        ("ann' user='owner", SECRETS["ann"]),
        ("eve", SECRETS["eve"]),  # who may log in, but has no access to the catalog
    ],
)
def test_nobody_gets_in_but_by_his_own_password(door: Door, role: str, password: str) -> None:
    answer = door.knock(role, password)

    assert answer.status == 401
    assert answer.headers["set-cookie"] is None
    assert "public.ids" not in answer.text
    assert password[:20] not in answer.text or len(password) < 3


def test_a_wrong_role_and_a_wrong_password_read_the_same(door: Door) -> None:
    found = [
        door.knock(role, "wrong").text for role in ("ann", "boss", "nobody", "nopass", "owner")
    ]

    assert len(set(found)) == 1


def test_the_consoles_own_password_opens_nothing_for_others(
    boss: Trickle, door: Door, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    passfile = tmp_path / "pass"
    passfile.write_text("".join(f"*:*:*:{role}:{secret}\n" for role, secret in SECRETS.items()))
    passfile.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(passfile))
    monkeypatch.setenv("PGPASSWORD", SECRETS["ann"])

    for password in ("", " ", "wrong"):
        assert door.knock("ann", password).status == 401
    assert door.knock("ann", SECRETS["ann"]).status == 303


def test_each_does_what_its_role_may_and_no_more(door: Door, boss: Trickle) -> None:
    gate = {"action": "gate", "target": "source", "name": "public.t"}
    pause = {"action": "pause", "target": "stream table", "name": "public.ids"}
    for role in ("ann", "bob"):
        guest = door.enter(role)
        assert guest.ask("/api/session").json["role"] == role
        assert guest.ask("/api/panel/overview").json["moment"]["role"] == role
        for body in (ACT, gate, pause):
            answer = guest.act(body).json
            assert not answer["done"], (role, body)
            assert "ST" in answer["text"]
    assert not any(one.gated for one in boss.scheduler.bootstrap_gate_status())
    assert boss.scheduler.list_holds() == []
    owner = door.enter("boss")
    assert owner.act().json["text"].startswith("public.ids: NO_DATA")
    assert owner.act(pause).json["done"]
    assert owner.act({**pause, "action": "resume"}).json["done"]


def test_access_that_is_taken_away_is_gone_at_once(door: Door, boss: Trickle) -> None:
    guest = door.enter("ann")
    assert guest.ask("/api/panel/overview").status == 200
    with psycopg.connect(boss.dsn, autocommit=True) as owner:
        owner.execute("SELECT pgtrickle.revoke_access('ann')")
        try:
            answer = guest.ask("/api/panel/scheduler")
        finally:
            owner.execute("SELECT pgtrickle.grant_access('ann', 'reader')")

    assert (answer.status, "public.ids" in answer.text) == (502, False)


def test_the_cookie_is_a_new_secret_that_scripts_and_other_sites_do_not_get(door: Door) -> None:
    planted = {"Cookie": f"{COOKIE}=planted-by-somebody"}
    answer = door.knock("ann", SECRETS["ann"], **planted)
    flags = {one.strip() for one in answer.headers["set-cookie"].split(";")}

    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= flags
    assert "Secure" not in flags  # over HTTP on this machine, a browser would drop it
    assert len(cookie_of(answer)) >= 32
    assert door.site.ask("/api/session", token=None, **planted).status == 401
    assert cookie_of(door.knock("ann", SECRETS["ann"])) != cookie_of(answer)


@pytest.mark.parametrize(
    "headers", [{"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}]
)
def test_another_site_signs_nobody_in(door: Door, headers: dict[str, str]) -> None:
    answer = door.knock("ann", SECRETS["ann"], **headers)

    assert (answer.status, answer.headers["set-cookie"]) == (403, None)
    assert door.site.ask("/login?role=ann&password=x", token=None).status == 303
    assert door.site.ask("/api/session", token=None).status == 401


def test_another_visitors_mark_is_of_no_use(door: Door) -> None:
    ann, owner = door.enter("ann"), door.enter("boss")

    for csrf in ("", "x", ann.csrf, door.site.guard.csrf):
        for path in ("/api/act", "/api/validate", "/api/here", "/logout"):
            given = {CSRF_HEADER: csrf}
            assert owner.ask(path, method="POST", body=ACT, **given).status == 403
    assert owner.ask("/api/session").status == 200


def test_who_signs_out_is_out_and_sees_nothing_more(door: Door) -> None:
    guest = door.enter("ann")
    other = door.enter("ann")
    with door.site.events("panel=overview", "", **guest.headers) as events:
        assert next(events)[0] == "panel"
        assert guest.act({}, "/logout").status == 200
        assert next(kind for kind, _ in events if kind not in {"beat", "panel"}) == "over"
        assert next(events, None) is None
    assert guest.ask("/api/panel/overview").status == 401
    assert other.ask("/api/panel/overview").status == 200


def test_whoever_does_nothing_is_signed_out_though_the_page_goes_on(own_door: Door) -> None:
    door = own_door
    visits, now = door.site.entrance.visits, [0.0]
    visits._clock = lambda: now[0]
    guest, awake = door.enter("ann"), door.enter("bob")
    with door.site.events("panel=overview", "", **guest.headers) as events:
        assert next(events)[0] == "panel"
        now[0] = 29 * 60
        assert awake.act({}, "/api/here").status == 200
        with door.site.events("panel=graph", "", **guest.headers) as others:  # is no sign of life
            assert next(others)[0] == "panel"
        now[0] = 31 * 60
        assert awake.ask("/api/session").status == 200
        assert next(kind for kind, _ in events if kind not in {"beat", "panel"}) == "over"
    assert guest.ask("/api/session").status == 401
    while now[0] < LONGEST:
        now[0] += 20 * 60
        last = awake.act({}, "/api/here").status
    assert last == 401


def test_the_sessions_on_the_server_end_with_the_last_visit(own_door: Door, boss: Trickle) -> None:
    def sessions(role: str) -> int:
        with psycopg.connect(boss.dsn) as owner:
            [(found,)] = owner.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE usename = %s", [role]
            ).fetchall()
        return int(found)

    first, second = own_door.enter("dan"), own_door.enter("dan")
    assert second.ask("/api/panel/overview").status == 200
    first.act({}, "/logout")
    assert second.ask("/api/panel/overview").status == 200
    assert sessions("dan") >= 1
    second.act({}, "/logout")
    for _ in range(200):
        if not sessions("dan"):
            break
        time.sleep(0.05)
    assert sessions("dan") == 0


def test_passwords_are_tried_for_a_short_time_only(boss: Trickle) -> None:
    with served(boss, token="", sign_in=make_sign_in(boss.dsn, 30)) as site:
        door = Door(site)
        found = [door.knock("ann", f"guess {number}").status for number in range(7)]
        assert (found[0], found[-1]) == (401, 429)
        assert door.knock("ann", SECRETS["ann"]).status == 429
        # Nobody is somebody else by saying so.
        assert door.knock("ann", SECRETS["ann"], X_Forwarded_For="10.9.8.7").status == 429
        site.guard.logins = Rate(burst=1000, per_second=1000)  # from many addresses
        found = [door.knock("ann", f"guess {number}").status for number in range(12)]
        assert found[-1] == 429


def test_a_role_takes_no_place_from_others(own_door: Door) -> None:
    ann = own_door.enter("ann")
    bobs = [own_door.enter("bob") for _ in range(MOST_OF_A_ROLE + 2)]

    assert ann.ask("/api/session").status == 200
    assert [one.ask("/api/session").status for one in bobs[:2]] == [401, 401]
    assert {one.ask("/api/session").status for one in bobs[2:]} == {200}


def test_read_only_is_read_only_for_the_owner_too(boss: Trickle) -> None:
    with opened_door(boss, read_only=True) as door:
        owner = door.enter("boss")
        assert owner.act().status == 403
        assert owner.ask("/api/session").json["actions"] == []


def test_no_password_is_said_or_logged(
    door: Door, boss: Trickle, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    guest = door.enter("ann")
    said = [door.knock("bob", SECRETS["ann"]).text]
    said += [guest.ask(path).text for path in PATHS if not path.startswith("/events")]
    said += [guest.ask("/api/panel/settings").text, caplog.text]
    said += [Path(f"/proc/self/{one}").read_text() for one in ("cmdline",)]

    assert not any(secret in one for secret in SECRETS.values() for one in said)


# A proxy that signs people in.


@pytest.fixture(scope="module")
def behind(boss: Trickle, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """Serve the page behind a proxy on this machine; the server knows the console by a file."""
    passfile = tmp_path_factory.mktemp("proxy") / "pass"
    listed = "".join(f"*:*:*:{role}:{SECRETS[role]}\n" for role in ("ann", "bob", "boss", "eve"))
    passfile.write_text(listed)
    passfile.chmod(0o600)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PGPASSFILE", str(passfile))
        with opened_door(boss, header=PROXY, proxies=("127.0.0.1",)) as door:
            yield door


def named(door: Door, role: str) -> Guest:
    headers = {PROXY: role}
    session = door.site.ask("/api/session", token=None, **headers)
    assert session.status == 200, session.text
    return Guest(door.site, headers, session.json["csrf"])


def test_the_role_that_the_proxy_names_has_its_own_rights(behind: Door) -> None:
    ann, owner = named(behind, "ann"), named(behind, "boss")

    assert ann.ask("/api/panel/overview").json["moment"]["role"] == "ann"
    assert not ann.act().json["done"]
    assert owner.act().json["done"]
    assert owner.act(**{CSRF_HEADER: ann.csrf}).status == 403
    assert owner.act(Origin="https://evil.example").status == 403
    assert not ann.ask("/api/session").json["leaves"]


@pytest.mark.parametrize("role", ["", "nobody", "eve", "x" * 64, "ann,boss", "nopass", "ann'"])
def test_who_is_no_role_here_is_not_let_in(behind: Door, role: str) -> None:
    answer = behind.site.ask("/api/panel/overview", token=None, **{PROXY: role})

    assert answer.status in {401, 403}
    assert "public.ids" not in answer.text


def test_without_the_header_or_with_two_nobody_is_let_in(behind: Door) -> None:
    assert behind.site.ask("/api/session", token=None).status == 401
    assert behind.knock("ann", SECRETS["ann"]).status == 401
    connection = http.client.HTTPConnection("127.0.0.1", behind.site.port, timeout=30)
    connection.putrequest("GET", "/api/session")
    connection.putheader(PROXY, "boss")
    connection.putheader(PROXY, "ann")
    connection.endheaders()
    assert connection.getresponse().status == 401
    connection.close()


def test_the_header_is_believed_of_named_addresses_alone(boss: Trickle) -> None:
    for proxies in ((), ("10.0.0.0/8", "::1")):
        with opened_door(boss, header=PROXY, proxies=proxies) as door:
            spoofed = {PROXY: "boss", "X-Forwarded-For": "10.0.0.1", "Forwarded": "for=10.0.0.1"}
            assert door.site.ask("/api/session", token=None, **spoofed).status == 401


def test_no_function_of_a_role_becomes_another_role(behind: Door) -> None:
    """With SET ROLE in place of a login, the session could have set any role of the console."""
    named(behind, "ann")
    seat = next(one for one in behind.site.entrance.seats._known.values() if one.role == "ann")
    with psycopg.connect(seat.trickle.dsn) as connection:
        assert connection.execute("SELECT session_user, current_user").fetchall() == [
            ("ann", "ann")
        ]
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("SET ROLE boss")


@pytest.mark.parametrize(
    "name", ["", "Cookie", "host", "X Remote", "X-User\r\nX: y", "Authorization"]
)
def test_headers_that_name_no_role_are_refused(name: str) -> None:
    with pytest.raises(SettingError):
        check_header(name)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--trust-proxy-header", PROXY], "--proxy"),
        (["--trust-proxy-header", PROXY, "--proxy", "nonsense"], "address of a proxy"),
        (["--sign-in", "--trust-proxy-header", PROXY, "--proxy", "::1"], "Leave one"),
        (["--sign-in", "--host", "0.0.0.0"], "as text"),  # noqa: S104 - refused
        (["--sign-in", "--no-token"], "Leave one"),
    ],
)
def test_what_is_not_safe_is_not_served(boss: Trickle, options: list[str], said: str) -> None:
    ended = CliRunner().invoke(app, ["--quiet", "ui", "--port", "0", "--dsn", boss.dsn, *options])

    assert ended.exit_code == 1
    assert said in ended.output
