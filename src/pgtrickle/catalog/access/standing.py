"""The connected role, its relation to the owner of the catalog, and the way to work as that owner.

Whoever works on a catalog runs what its owner put there.  SET ROLE is no fence against that: what
runs could say RESET ROLE.  So others who may act as the owner log in as the owner.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from psycopg import Connection
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import TupleRow, class_row

from pgtrickle.errors import ForeignCatalogError, PrivilegeError
from pgtrickle.model.text.names import quote_identifier, quote_literal

FIX_SEARCH_PATH = "SET LOCAL search_path = pg_catalog, pg_temp"
FIND_STANDING = """
    SELECT o.rolname AS owner, coalesce(o.rolsuper, false) AS owner_is_superuser,
           coalesce(o.rolcanlogin, false) AS owner_may_log_in,
           c.rolname AS role, c.rolsuper AS is_superuser,
           s.rolname AS login, s.rolsuper AS login_is_superuser,
           coalesce(pg_has_role(c.oid, o.oid, 'MEMBER'), false) AS may_become_owner,
           coalesce(has_schema_privilege(c.oid, to_regnamespace('pgtrickle'), 'USAGE'), false)
               AS may_enter,
           coalesce(o.oid = (SELECT d.datdba FROM pg_database AS d
                              WHERE d.datname = current_database()), false) AS owner_has_database,
           coalesce(current_setting('pg_trickle.trusted_owner', true), '') AS trusted_owner,
           coalesce((SELECT has_any_column_privilege(c.oid, r.oid, 'INSERT')
                       FROM pg_class AS r JOIN pg_namespace AS n ON n.oid = r.relnamespace
                      WHERE n.nspname = 'pgtrickle' AND r.relname = 'pgt_requests'), false)
               AS may_ask,
           current_database() AS database
      FROM pg_roles AS c
      JOIN pg_roles AS s ON s.rolname = session_user
      LEFT JOIN (SELECT n.nspowner FROM pg_namespace AS n
                  WHERE n.nspname IN ('pgtrickle', 'pgtrickle_changes', 'pgtrickle_state')
                  ORDER BY n.nspname LIMIT 1) AS found ON true
      LEFT JOIN pg_roles AS o ON o.oid = found.nspowner
     WHERE c.rolname = current_user
"""


@dataclass(frozen=True, slots=True)
class Standing:
    """The connected role, and its relation to the owner of the catalog."""

    owner: str | None  # None: there is no catalog yet
    owner_is_superuser: bool
    owner_may_log_in: bool
    role: str
    is_superuser: bool
    login: str  # the role to which RESET ROLE leads back
    login_is_superuser: bool
    may_become_owner: bool
    may_enter: bool  # the schema pgtrickle, as grant_access lets roles do
    owner_has_database: bool
    trusted_owner: str  # by a setting of the role, the database or the DSN
    may_ask: bool  # the daemon, as an operator may
    database: str

    @property
    def works_as_owner(self) -> bool:
        """Whether the session may work on the catalog as it is.

        Whatever the owner put there could call RESET ROLE: what counts is who logged in, and a
        superuser is safe with superusers only.
        """
        if self.owner is None:
            return True
        if self.owner_is_superuser:
            return self.is_superuser
        return self.role == self.owner and not self.login_is_superuser

    @property
    def may_log_in_as_owner(self) -> bool:
        """Whether to try it, for one who may act as the owner anyway."""
        return self.may_become_owner and self.owner_may_log_in

    @property
    def may_visit(self) -> bool:
        """Whether to let the role in as a guest (see ``guest``).

        Never with the rights of a superuser; a role that may become the owner has to log in as it.
        """
        powerful = self.is_superuser or self.login_is_superuser or self.may_become_owner
        return self.may_enter and not powerful

    def trusts_owner(self, named: str = "") -> bool:
        """Whether the role trusts code of the owner; ``named`` is the role that its settings name.

        Superusers and the owner of the database could run code as the role in any case.
        """
        return (
            self.owner_is_superuser
            or self.owner_has_database
            or (self.owner is not None and self.owner in {named, self.trusted_owner})
        )

    def error(self) -> ForeignCatalogError:
        """Return the error for one who may not work on this catalog."""
        owner = quote_identifier(self.owner or "")
        if self.login_is_superuser:
            detail = f"A superuser works on it only by logging in as {owner}."
            hint = f"Connect as its owner: user={self.owner}."
        elif self.may_become_owner:
            detail = f"A member of {owner} works on it only as {owner}."
            hint = (
                f"Connect as its owner, or, if you trust everybody who can act as {owner}, say so"
                f" in the DSN: options='-c role={self.owner}'."
            )
        else:
            detail = f"Whoever works on it runs what {owner} put there."
            hint = (
                f"Connect as {owner}, or ask that role for: SELECT"
                f" pgtrickle.grant_access({quote_literal(self.role)}, 'reader'). If nobody expected"
                " this catalog, let an administrator drop the schemas pgtrickle,"
                " pgtrickle_changes and pgtrickle_state."
            )
        return ForeignCatalogError(
            f"the catalog does not belong to {quote_identifier(self.role)} but to {owner}",
            detail=detail,
            hint=hint,
        )

    def needs_trust(self) -> ForeignCatalogError:
        """Return the error for a guest who wants what takes trust in the owner."""
        owner = self.owner or ""
        return ForeignCatalogError(
            f"this would run what {quote_identifier(owner)}, who owns the catalog, wrote, with the"
            f" rights of {quote_identifier(self.role)}",
            detail="Without trust in that role a guest looks at tables of its catalog alone: list,"
            " show, history, errors, explain, config, lake list and doctor.",
            hint=f"If you trust it, say so: PGTRICKLE_TRUSTED_OWNER={shlex.quote(owner)}. A"
            f" superuser says it for all: ALTER DATABASE {quote_identifier(self.database)}"
            f" SET pg_trickle.trusted_owner = {quote_literal(owner)};",
        )

    def needs_level(self, level: str, words: str = "") -> PrivilegeError:
        """Return the error for a guest who wants what takes a level of access."""
        role, owner = quote_identifier(self.role), quote_identifier(self.owner or "")
        return PrivilegeError(
            f"{role} lacks the level {level} on the catalog of {owner}",
            detail=words,
            hint=f"Ask {owner} to run, also after an upgrade: SELECT pgtrickle.grant_access("
            f"{quote_literal(self.role)}, '{level}');",
        )

    def needs_owner(self) -> PrivilegeError:
        """Return the error for a guest who wants what only the owner of the catalog may."""
        role, owner = quote_identifier(self.role), quote_identifier(self.owner or "")
        return PrivilegeError(
            f"only {owner}, who owns the catalog, may do this; {role} is a guest on it",
            hint=f"Connect as {owner}, or as a member of that role: it can run GRANT {owner} TO"
            f" {role};",
        )


def dsn_of_owner(dsn: str, owner: str) -> str:
    """Return the DSN by which the owner logs in; the password of another role is left out.

    >>> dsn_of_owner("postgresql://ann:secret@db/shop", "trickle")
    'user=trickle dbname=shop host=db'
    """
    given = {name: value for name, value in conninfo_to_dict(dsn).items() if name != "password"}
    return make_conninfo("", **{**given, "user": owner})


def find_standing(connection: Connection[TupleRow]) -> Standing:
    """Find the connected role and the owner of the catalog."""
    with connection.transaction(force_rollback=True):
        connection.execute(FIX_SEARCH_PATH)
        with connection.cursor(row_factory=class_row(Standing)) as cursor:
            [standing] = cursor.execute(FIND_STANDING).fetchall()
    return standing
