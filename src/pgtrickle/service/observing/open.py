"""Open the observers that the settings ask for; without any, nothing of them is imported."""

from __future__ import annotations

from urllib.parse import urlsplit

from pgtrickle.errors import SettingError
from pgtrickle.extras import explain_missing
from pgtrickle.service.observing.observer import Observer
from pgtrickle.settings import Settings


def open_observers(settings: Settings, dsn: str, database: str) -> tuple[Observer, ...]:
    """Return those who are told of the refreshes of this process."""
    found: list[Observer] = []
    try:
        if endpoint := settings.otel_endpoint:
            check_url("otel_endpoint", endpoint)
            from pgtrickle.service.observing.otlp_spans import SpanSender  # noqa: PLC0415

            found.append(SpanSender(endpoint, database))
        if url := settings.openlineage_url:
            check_url("openlineage_url", url)
            from pgtrickle.service.observing.lineage import LineageSender  # noqa: PLC0415

            found.append(LineageSender(url, dsn))
    except ModuleNotFoundError as error:
        if (missing := explain_missing(error)) is None:
            raise
        raise missing from error
    return tuple(found)


def check_url(setting: str, url: str) -> None:
    """Raise ST501 unless the address is one of HTTP; the message does not repeat it."""
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise SettingError(
            f"{setting} is not an address such as http://127.0.0.1:4317",
            hint="Begin it with http:// or https://.",
        )
