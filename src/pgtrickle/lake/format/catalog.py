"""Find a DuckLake catalog in a schema of PostgreSQL, or create one that DuckDB accepts.

Every name is qualified by the catalog's schema, so nothing here depends on ``search_path``.  On
PostgreSQL, DuckDB looks into the schema ``public`` unless ``METADATA_SCHEMA`` names another.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from importlib import resources

from psycopg import Connection

from pgtrickle.errors import LakeCatalogError, LakePathError
from pgtrickle.lake.files.roots import LakePath, Roots, same_place, shown
from pgtrickle.lake.format.catalog_schema import prepare_schema
from pgtrickle.lake.format.trust import LOOKS_STRANGE, refuse_strange
from pgtrickle.model.text.names import quote_identifier
from pgtrickle.model.text.trusted import trusted

FORMAT_VERSION = "1.0"
_MAIN_SCHEMA = 0


@dataclass(frozen=True, slots=True)
class LakeCatalog:
    """A catalog: the schema of its tables, and the location of its files.

    Other clients write its rows too; ``place`` checks the location of a file.
    """

    schema: str
    data_path: str  # ends with a slash
    roots: Roots = field(default=Roots(()), compare=False)

    def place(self, path: str) -> LakePath:
        """Return the path of a file or directory that the catalog names, or raise ST708."""
        return self.roots.place(path)

    def table(self, name: str) -> str:
        """Return a table of the catalog as SQL.

        >>> LakeCatalog("lake", "/data/").table("snapshot")
        '"lake"."ducklake_snapshot"'
        """
        return table_of(self.schema, name)


def directory_name(name: str) -> str:
    """Return the directory of a schema or table; no name can lead out of its parent.

    >>> directory_name("orders"), directory_name("../Daily Sums")
    ('orders/', '___Daily_Sums-193ed838/')
    """
    plain = re.sub(r"[^A-Za-z0-9_]", "_", name)
    if plain == name:
        return f"{name}/"
    # Distinguishes names that look alike; it need not be secret.
    return f"{plain}-{hashlib.sha256(name.encode()).hexdigest()[:8]}/"


def table_of(schema: str, name: str) -> str:
    """Return a table of the catalog in ``schema`` as SQL."""
    return f"{quote_identifier(schema)}.{quote_identifier(f'ducklake_{name}')}"


_LOOK = f"SELECT pg_catalog.to_regclass(%s), ({LOOKS_STRANGE.format(schema='%s')})"


def find_catalog(
    connection: Connection, schema: str, roots: Roots | None = None, recorded: str | None = None
) -> LakeCatalog | None:
    """Return the catalog in a schema; None if there is none.

    Files may be below ``roots``, or else below the data path that the catalog itself names; if
    one was ``recorded`` before, it must be that.  Raises ST701 for a version of the format, or an
    encryption, that this package cannot write, or for tables that would run foreign code, and
    ST708 for another data path.
    """
    metadata = table_of(schema, "metadata")
    [(there, strange)] = connection.execute(trusted(_LOOK), [metadata, schema]).fetchall()
    if there is None:
        return None
    if strange:
        refuse_strange(connection, schema)
    found: dict[str, str] = dict(
        connection.execute(
            trusted(f"SELECT key, value FROM {metadata} WHERE scope IS NULL")
        ).fetchall()
    )
    if found.get("version") != FORMAT_VERSION:
        raise LakeCatalogError(
            f'the DuckLake catalog in the schema "{schema}" has the version'
            f' "{found.get("version")}"; {FORMAT_VERSION} can be written',
            hint="Use another schema, by the setting ducklake_catalog_schema.",
        )
    if found.get("encrypted", "false") != "false":
        raise LakeCatalogError(
            f'the DuckLake catalog in the schema "{schema}" requires encrypted files',
            hint="Use another schema, by the setting ducklake_catalog_schema.",
        )
    data_path = _with_slash(found.get("data_path", ""))
    if recorded is not None and not same_place(recorded, data_path):
        raise LakePathError(
            f'the lake in the schema "{schema}" names the data path'
            f' "{shown(data_path)}", but "{shown(recorded)}" is on record',
            hint="If it was moved on purpose, turn its sinks off and on again, and detach and"
            " attach its tables; otherwise find out who changed ducklake_metadata.",
        )
    return LakeCatalog(schema, data_path, roots or Roots((data_path,)))


def create_catalog(
    connection: Connection, schema: str, data_path: str, roots: Roots | None = None
) -> LakeCatalog:
    """Create a catalog with its first snapshot, and the schema for it if need be.

    Raises ST701 for a schema of an untrusted role, and ST303 if a right is missing.
    """
    data_path = _with_slash(data_path)
    catalog = LakeCatalog(schema, data_path, roots or Roots((data_path,)))
    definition = resources.files("pgtrickle.lake").joinpath("catalog.sql").read_text("utf-8")
    with connection.transaction():
        prepare_schema(connection, schema)
        connection.execute(trusted(definition.replace("{schema}", quote_identifier(schema))))
        connection.execute(
            trusted(
                f"INSERT INTO {catalog.table('snapshot')} VALUES (0, pg_catalog.now(), 0, 1, 0)"
            )
        )
        connection.execute(
            trusted(
                f"INSERT INTO {catalog.table('snapshot_changes')}"
                """ VALUES (0, 'created_schema:"main"', NULL, NULL, NULL)"""
            )
        )
        connection.execute(
            trusted(
                f"INSERT INTO {catalog.table('schema')} VALUES"
                " (%s, pg_catalog.gen_random_uuid(), 0, NULL, 'main', 'main/', true)"
            ),
            [_MAIN_SCHEMA],
        )
        connection.execute(
            trusted(
                f"INSERT INTO {catalog.table('metadata')} (key, value) VALUES"
                " ('version', %s), ('created_by', 'pgtrickle'), ('data_path', %s),"
                " ('encrypted', 'false')"
            ),
            [FORMAT_VERSION, catalog.data_path],
        )
    return catalog


def _with_slash(path: str) -> str:
    return path if path.endswith("/") else path + "/"
