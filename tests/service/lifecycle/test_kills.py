"""kill -9 at every step of what saves, restores and changes stream tables, as often as asked for.

``PGTRICKLE_LIFECYCLE_KILLS`` says how often; ``make lifecycle-kill`` kills two hundred times.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Callable, Collection
from itertools import cycle, islice

import pytest

from tests.labs.lab import Lab
from tests.seeds import seed_of
from tests.service.lifecycle import die_in_dumps, die_in_shadows, die_in_snapshots
from tests.service.lifecycle.killing import HalfError, LostError
from tests.service.lifecycle.test_dump_killed import kill_dump, kill_restoration
from tests.service.lifecycle.test_killed_shadows import (
    kill_beginning,
    kill_cancel,
    kill_change_of_columns,
    kill_following,
    kill_switch,
)
from tests.service.lifecycle.test_killed_snapshots import kill_drop, kill_restore, kill_snapshot

_KILLS = int(os.environ.get("PGTRICKLE_LIFECYCLE_KILLS", "6"))
_SEED = seed_of("PGTRICKLE_LIFECYCLE_SEED", 7)
OPERATIONS: dict[str, tuple[Collection[str], Callable[[Lab, str], None]]] = {
    "snapshot": (die_in_snapshots.TAKE_STEPS, kill_snapshot),
    "restore": (die_in_snapshots.RESTORE_STEPS, kill_restore),
    "drop of a snapshot": (die_in_snapshots.DROP_STEPS, kill_drop),
    "dump": (die_in_dumps.DUMP_STEPS, kill_dump),
    "restoration of a dump": (die_in_dumps.RESTORE_STEPS, kill_restoration),
    "beginning of a shadow": (die_in_shadows.BEGIN_STEPS, kill_beginning),
    "refresh of a shadow": (die_in_shadows.FOLLOW_STEPS, kill_following),
    "shadow switch": (die_in_shadows.PROMOTE_STEPS, kill_switch),
    "shadow switch, other columns": (die_in_shadows.PROMOTE_STEPS, kill_change_of_columns),
    "cancelled shadow": (die_in_shadows.CANCEL_STEPS, kill_cancel),
}


@pytest.mark.timeout(60 + 60 * _KILLS)
def test_nothing_is_lost_and_nothing_is_half(lab: Lab):
    """Every step comes once before any comes again; the order is drawn."""
    lab.connection.prepare_threshold = None  # tables of one name come with other columns
    steps = [(what, step) for what, (known, _) in OPERATIONS.items() for step in known]
    random.Random(_SEED).shuffle(steps)
    done: Counter[str] = Counter()
    found: Counter[str] = Counter()
    failures = []
    started = time.monotonic()
    for number, (what, step) in enumerate(islice(cycle(steps), _KILLS), 1):
        lab.reset()
        lab.queries, lab.verified = {}, set()
        try:
            OPERATIONS[what][1](lab, step)
        except (HalfError, LostError) as error:
            found[type(error).__name__] += 1
            failures.append(f"{what}, {step}: {error}")
        done[what] += 1
        print(f"\r{number} of {_KILLS} kills, {what}: {step}".ljust(79), end="", flush=True)
    told = ", ".join(f"{count} in a {what}" for what, count in done.most_common())
    print(
        f"\nseed {_SEED}: {done.total()} kills in {time.monotonic() - started:.0f} s, at"
        f" {min(len(steps), _KILLS)} of {len(steps)} steps: {told}"
        f"\n{found['LostError']} lost, {found['HalfError']} half"
    )
    assert failures == []
