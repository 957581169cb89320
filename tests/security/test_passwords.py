"""Attacks on passwords by their own spelling: no part of one is in an error."""

from __future__ import annotations

import traceback
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import pgtrickle
from pgtrickle.errors import TrickleError
from pgtrickle.model.text.connection_string import may_be_misread
from pgtrickle.model.text.passwords import hide_passwords
from pgtrickle.service.runtime import translated_errors, withheld_words

# Whatever is left of a password is found by this mark.
MARK = "zqx"
PASSWORDS = st.lists(
    st.tuples(st.just(MARK), st.sampled_from(list("@/:?#% &='\"\\,[]")), st.just(MARK)).map(
        "".join
    ),
    min_size=1,
    max_size=3,
).map("".join)


def failure(dsn: str) -> str:
    """Return all that is told of a connection that cannot be made."""
    with (
        pytest.raises(TrickleError) as caught,
        withheld_words(dsn),
        translated_errors(),
        psycopg.connect(dsn, connect_timeout=2),
    ):
        pass
    error = caught.value
    told = "".join(traceback.format_exception(error.with_traceback(None)))
    return "\n".join((str(error), error.detail, error.hint, told))


@given(PASSWORDS)
@example(f"{MARK}@{MARK}")
@example(f"{MARK}/{MARK}")
@example(f"{MARK}%zz{MARK}")
@settings(max_examples=40, deadline=None)
def test_no_part_of_an_unescaped_password_is_in_an_error(password: str):
    for dsn in (
        f"postgresql://me:{password}@127.0.0.1:1/db",
        f"postgresql://me:{quote(password, safe='')}@127.0.0.1:1/db",
        f"host=127.0.0.1 port=1 user=me password={password} dbname=db",
        f"host=127.0.0.1 port=1 dbname=db user=me password='{password}'",
    ):
        assert MARK not in failure(dsn), dsn


@given(PASSWORDS)
@settings(max_examples=200)
def test_no_part_of_a_password_is_left_of_a_url_in_a_text(password: str):
    shown = hide_passwords(f"could not use postgresql://me:{password}@host/db")

    assert MARK not in shown


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://me:secret@db/shop",
        "postgresql://me@db:5432,other:5433/shop?sslmode=require",
        "postgresql://me:p%40ss@[::1]:5432/shop",
        "postgresql:///shop?host=/tmp",
        "host=/tmp dbname=shop user=me password=secret",
        "dbname = 'my shop' password = 'it\\'s' user=me",
        "",
    ],
)
def test_strings_that_leave_no_doubt_are_told_of(dsn: str):
    assert not may_be_misread(dsn)


def test_connect_withholds_what_libpq_says():
    with pytest.raises(TrickleError) as caught:
        pgtrickle.connect(f"postgresql://me:p@{MARK}@127.0.0.1:1/db")

    assert caught.value.code == "ST501"
    assert MARK not in "".join(traceback.format_exception(caught.value.with_traceback(None)))


def test_no_process_has_a_dsn_among_its_arguments(database: str):
    """The tests' servers and, where the lane has one, Spark's JVM were all started by us."""
    own = {str(process) for process in _descendants()}

    assert [line for line in own if "password=" in line or "postgresql://" in line] == []


def _descendants() -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:  # it has ended
            continue
    return [line for line in found if "postgres -D" in line or "java" in line.split(" ")[0]]
