"""End a shadow build without effect: because somebody wants to, or because it failed."""

from __future__ import annotations

import logging

from pgtrickle.catalog.shadows.builds import end_build, find_active_build
from pgtrickle.catalog.stream_tables import find_stream_table_by_id, get_stream_table
from pgtrickle.errors import ShadowNotFoundError, TrickleError
from pgtrickle.model.shadows.build import ShadowBuild, ShadowState
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.service.lifecycle.replacing.successors import discard
from pgtrickle.service.ownership import check_owner
from pgtrickle.service.runtime import Runtime

logger = logging.getLogger(__name__)


def cancel_shadow(runtime: Runtime, name: QualifiedName) -> QualifiedName:
    """End the shadow build of a stream table, which stays as it is; return its name."""
    with runtime.connection() as connection:
        stream_table = get_stream_table(connection, name)
        check_owner(connection, stream_table)
        build = find_active_build(connection, stream_table.id)
    if build is None or not end_without_effect(runtime, build, ShadowState.CANCELLED):
        raise ShadowNotFoundError(
            f'"{stream_table.name}" has no shadow build that goes on',
            hint=f"Look at the last one with: pgtrickle shadow status {stream_table.name}.",
        )
    return stream_table.name


def roll_back(runtime: Runtime, build: ShadowBuild, error: TrickleError) -> None:
    """End a build that failed, and say why; its stream table stays as it is."""
    if end_without_effect(runtime, build, ShadowState.FAILED, error):
        logger.warning(
            "a shadow build failed and was rolled back: %s",
            error,
            extra={"shadow": build.shadow_name, "code": error.code},
        )


def end_without_effect(
    runtime: Runtime, build: ShadowBuild, state: ShadowState, error: TrickleError | None = None
) -> bool:
    """End a build, then drop its shadow; tell whether it went on until now.

    From its first commit nobody takes the shadow for alive: if this process dies, or the shadow is
    in use, it is dropped later.
    """
    with runtime.connection() as connection:
        ended = end_build(connection, build.stream_table_id, state, error)
        shadow = None
        if ended and build.shadow_id is not None:
            shadow = find_stream_table_by_id(connection, build.shadow_id)
    if shadow is not None:
        runtime.jobs.cancel(runtime.engine, str(shadow.name))
        discard(runtime, shadow)
    return ended
