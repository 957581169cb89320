"""Who is connected, how he stands to the owner of the catalog, and how he comes to work as him.

Whoever works on a catalog runs what its owner put there.  SET ROLE is no fence against that: what
runs could say RESET ROLE.  So others who may act as the owner log in as the owner.
"""

from __future__ import annotations

from dataclasses import dataclass

from psycopg import Connection
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import TupleRow, class_row

from pgtrickle.errors import ForeignCatalogError
from pgtrickle.model.names import quote_identifier

FIX_SEARCH_PATH = "SET LOCAL search_path = pg_catalog, pg_temp"
_FIND_STANDING = """
    SELECT o.rolname AS owner, coalesce(o.rolsuper, false) AS owner_is_superuser,
           coalesce(o.rolcanlogin, false) AS owner_may_log_in,
           c.rolname AS role, c.rolsuper AS is_superuser,
           s.rolname AS login, s.rolsuper AS login_is_superuser,
           coalesce(pg_has_role(c.oid, o.oid, 'MEMBER'), false) AS may_become_owner
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
    """Who is connected, and how he stands to the owner of the catalog."""

    owner: str | None  # None: there is no catalog yet
    owner_is_superuser: bool
    owner_may_log_in: bool
    role: str
    is_superuser: bool
    login: str  # the role to which RESET ROLE leads back
    login_is_superuser: bool
    may_become_owner: bool

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
                f"Connect as {owner}. If nobody expected this catalog, let an administrator drop"
                " the schemas pgtrickle, pgtrickle_changes and pgtrickle_state."
            )
        return ForeignCatalogError(
            f"the catalog does not belong to {quote_identifier(self.role)} but to {owner}",
            detail=detail,
            hint=hint,
        )


def dsn_of_owner(dsn: str, owner: str) -> str:
    """Return the DSN by which the owner logs in; a password in it is not his.

    >>> dsn_of_owner("postgresql://ann:secret@db/shop", "trickle")
    'user=trickle dbname=shop host=db'
    """
    given = {name: value for name, value in conninfo_to_dict(dsn).items() if name != "password"}
    return make_conninfo("", **{**given, "user": owner})


def find_standing(connection: Connection[TupleRow]) -> Standing:
    """Tell who is connected, and whose catalog it is."""
    with connection.transaction(force_rollback=True):
        connection.execute(FIX_SEARCH_PATH)
        with connection.cursor(row_factory=class_row(Standing)) as cursor:
            [standing] = cursor.execute(_FIND_STANDING).fetchall()
    return standing
