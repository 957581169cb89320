"""The verbs on capture: whether changes of sources are recorded, how, and how well."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgtrickle.catalog.figures.summaries import list_capture_lag
from pgtrickle.catalog.overview import list_buffer_sizes
from pgtrickle.model.status_report import BufferSize, CaptureLag
from pgtrickle.model.text.shown import Listing
from pgtrickle.model.words import AnyDurability
from pgtrickle.service.naming import Naming

if TYPE_CHECKING:  # each verb imports its use case when it is called
    from pgtrickle.catalog.capture.health import CaptureHealth
    from pgtrickle.service.capturing.wal_slot import SlotHealth
    from pgtrickle.service.lifecycle.repair.rebind import Mended


class CaptureVerbs(Naming):
    """See how changes of the sources are captured, pause it, and repair it.

    It is ``trickle.capture``.
    """

    def check_cdc_health(self) -> Listing[CaptureHealth]:
        """Return every captured source, with a row for each thing that is wrong."""
        from pgtrickle.service.capturing.pause_and_repair import show_cdc_health

        return Listing(show_cdc_health(self._runtime))

    def rebuild_cdc_triggers(self) -> Listing[Mended]:
        """Create the capture triggers of every source again."""
        from pgtrickle.service.capturing.pause_and_repair import rebuild_cdc_triggers

        return Listing(rebuild_cdc_triggers(self._runtime))

    def pause_cdc(self, *sources: str) -> list[str]:
        """Stop capturing these sources, or all, until ``resume_cdc``."""
        from pgtrickle.service.capturing.pause_and_repair import pause_cdc

        return pause_cdc(self._runtime, [self._name(one) for one in sources])

    def resume_cdc(self, *sources: str) -> list[str]:
        """Capture changes again; the next refresh reloads the stream tables."""
        from pgtrickle.service.capturing.pause_and_repair import resume_cdc

        return resume_cdc(self._runtime, [self._name(one) for one in sources])

    def set_buffer_durability(self, durability: AnyDurability) -> list[str]:
        """Store every change buffer ``unlogged``, ``logged`` or ``sync``; writers wait for it."""
        from pgtrickle.service.capturing.pause_and_repair import change_durability

        return change_durability(self._runtime, durability)

    def slot_health(self) -> SlotHealth | None:
        """Return how much log the slot retains; None if nothing is captured from the log."""
        from pgtrickle.service.capturing.wal_slot import find_slot_health

        with self._runtime.connection() as connection:
            return find_slot_health(connection, self._runtime.settings)

    def capture_lag(self) -> Listing[CaptureLag]:
        """Return how many changes of each source wait, about, and for how long at most."""
        with self._runtime.connection() as connection:
            return Listing(list_capture_lag(connection))

    def change_buffer_sizes(self) -> Listing[BufferSize]:
        """Return the number of captured changes per source; reads the buffers to count them."""
        with self._runtime.connection() as connection:
            return Listing(list_buffer_sizes(connection))
