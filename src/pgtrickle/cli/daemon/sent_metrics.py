"""Send the metrics of a daemon to a collector, again and again, if the settings name one."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pgtrickle.settings import Settings

if TYPE_CHECKING:
    from pgtrickle.cli.daemon.metrics import Metrics

logger = logging.getLogger(__name__)

_CLOSING_SECONDS = 2.0


@contextmanager
def sending_metrics(settings: Settings, metrics: Metrics) -> Iterator[None]:
    """Send them for the length of a block, and once more at its end.

    The end does not wait for a collector that is away.
    """
    every = settings.otel_metrics_seconds
    if not settings.otel_endpoint or not every:
        yield
        return
    from pgtrickle.cli.daemon.otlp_metrics import MetricSender  # noqa: PLC0415 - an extra

    sender, done = MetricSender(settings.otel_endpoint, metrics.database), threading.Event()

    def work() -> None:
        failing = last = False
        while not last:
            last = done.wait(every)
            sent = sender.send(metrics.families())
            if not sent and not failing:
                logger.warning("metrics cannot be sent to otel_endpoint")
            failing = not sent

    thread = threading.Thread(target=work, name="pgtrickle: sent metrics", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(_CLOSING_SECONDS)
        sender.close()
