"""The picture that both consoles show, and the rows behind ``pgtrickle top --json``."""

from __future__ import annotations

from collections.abc import Collection

from pgtrickle.catalog.console.picture import ALL, Picture, PicturePart
from pgtrickle.catalog.console.read import Wanted, take_picture
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.service.runtime import Runtime


def show_picture(
    runtime: Runtime,
    parts: Collection[PicturePart] | None = None,
    *,
    ids: Collection[int] | None = None,
    subject: QualifiedName | None = None,
) -> Picture:
    """Return the state of the database at one moment: these parts of it, or all.

    The number of statements depends on the parts alone.  With ``ids``, only these stream tables
    have their latencies read; ``subject`` is the one whose definition and history are wanted.
    """
    looked = (
        frozenset() if subject is None else frozenset({PicturePart.DEFINITION, PicturePart.HISTORY})
    )
    wanted = Wanted(frozenset(ALL | looked if parts is None else parts), ids, subject)
    with runtime.connection() as connection:
        return take_picture(connection, wanted)
