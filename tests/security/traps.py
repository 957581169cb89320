"""What an attacker leaves behind for those who come: functions that tell when others ran them."""

from __future__ import annotations

import pgtrickle
from pgtrickle.client.guest import Guest
from pgtrickle.errors import TrickleError
from tests.fixtures.engines import Borrowed
from tests.security.bench import Bench

# It cannot hide from a sequence, whose steps are not undone with the transaction.  Then it tries
# what an attack is for; SET ROLE in the victim's session is no obstacle.  Workers of PostgreSQL are
# no victims: they analyze a table and its indexes with the rights of its owner, and run no query.
_SPRING = """
    BEGIN
        IF session_user <> '%s' AND current_query() IS NOT NULL THEN
            PERFORM nextval('trap.hits');
            BEGIN
                RESET ROLE;
                ALTER ROLE {attacker} SUPERUSER;
            EXCEPTION WHEN OTHERS THEN NULL;
            END;
        END IF;
        RETURN %s;
    END
"""
_FUNCTIONS = (  # signature, kind of result, what it returns
    ("on_row()", "trigger", "NEW"),
    ("text(text)", "text IMMUTABLE", "$1"),
    ("fits(text)", "boolean IMMUTABLE", "true"),
    ("same(text, text)", "boolean IMMUTABLE", "true"),
)


def set_traps(bench: Bench) -> None:
    """Make a schema of the attacker's, with functions that victims can be brought to call."""
    bench.run("admin", "GRANT CREATE ON DATABASE {database} TO {attacker}")
    bench.run(
        "attacker",
        "CREATE SCHEMA trap",
        "GRANT USAGE ON SCHEMA trap TO PUBLIC",
        "CREATE SEQUENCE trap.hits",
        "GRANT ALL ON SEQUENCE trap.hits TO PUBLIC",
        *(
            f"CREATE FUNCTION trap.{signature} RETURNS {kind} LANGUAGE plpgsql"
            f" AS $${_SPRING % (bench.roles['attacker'], result)}$$"
            for signature, kind, result in _FUNCTIONS
        ),
        "CREATE DOMAIN trap.word AS text CHECK (trap.fits(VALUE))",
        "CREATE OPERATOR trap.=== (FUNCTION = trap.same, LEFTARG = text, RIGHTARG = text)",
    )


def nothing_ran(bench: Bench) -> bool:
    """Tell whether no trap went off in the session of another, and nobody became a superuser."""
    ran = bench.value("admin", "SELECT is_called FROM trap.hits")
    return not ran and not bench.is_superuser("attacker")


def code_of_connecting(bench: Bench, dsn: str) -> str | None:
    """Return the code with which pgtrickle refuses to connect; None if it does connect."""
    try:
        with pgtrickle.connect(dsn, engine=Borrowed(bench.engine), init=True) as trickle:
            trickle.list_stream_tables()
            if not isinstance(trickle, Guest):  # who runs no daemon
                trickle.daemon.check_catalog()
            trickle.list_settings()
    except TrickleError as error:
        return error.code
    return None
