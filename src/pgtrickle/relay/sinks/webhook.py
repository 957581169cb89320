"""HTTP: each message is POSTed, signed as standardwebhooks.com describes it.

The signature covers id, time and body; the id is also the ``Idempotency-Key``.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import ssl
import time
from collections.abc import Sequence
from typing import Any, ClassVar, Final
from urllib.parse import urlsplit

import urllib3

from pgtrickle.errors import SinkSetupError
from pgtrickle.relay.definitions import Definition
from pgtrickle.relay.envelopes import CONTENT_TYPES, encode
from pgtrickle.relay.messages import Message, Place, Schema, Stream
from pgtrickle.relay.sinks.sink import Guarantee, Options, refusal, unavailable

_NOT_NOW: Final = frozenset({408, 425, 429})
_ABOUT_ONE: Final = frozenset({400, 409, 411, 413, 415, 422})


def sign(secret: str, id_: str, timestamp: int, body: bytes) -> str:
    """Return the signature of a message.

    >>> sign("secret", "12:7:3", 1700000000, b"{}")[:3]
    'v1,'
    """
    signed = f"{id_}.{timestamp}.".encode() + body
    digest = hmac.new(secret.encode(), signed, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(digest).decode()}"


class WebhookSink:
    """A service that takes messages by HTTP, and acknowledges each with a status of 2xx."""

    guarantee: ClassVar[Guarantee] = Guarantee.AT_LEAST_ONCE

    def __init__(self, definition: Definition, options: dict[str, Any]) -> None:
        taken = Options(definition, options)
        self._url = taken.text("url")
        self._secret = taken.optional("secret")
        self._headers = taken.texts("headers")
        seconds = taken.number("timeout_seconds", 10, 0.1, 300)
        authority, certificate = taken.optional("ca_file"), taken.optional("cert_file")
        key = taken.optional("key_file")
        taken.end()
        parts = urlsplit(self._url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise taken.wrong("url", "a URL with http or https")
        self._where = f"{parts.scheme}://{parts.hostname}"  # the rest may hold a token
        self._envelope = definition.envelope
        try:
            context = ssl.create_default_context(cafile=authority)
            if certificate:
                context.load_cert_chain(certificate, key)
        except (OSError, ssl.SSLError) as error:
            raise taken.wrong("ca_file", "a readable certificate, as cert_file") from error
        self._pool = urllib3.PoolManager(
            ssl_context=context,
            retries=False,
            timeout=urllib3.Timeout(connect=seconds, read=seconds),
        )

    def open(self, stream: Stream, schema: Schema) -> Place | None:
        """Reach nothing: connections are made with the first message."""

    def send(self, messages: Sequence[Message]) -> None:
        """POST messages one by one."""
        for number, message in enumerate(messages):
            self._post(number, message)

    def _post(self, number: int, message: Message) -> None:
        body, now = encode(message, self._envelope).encode(), int(time.time())
        headers = {
            **self._headers,
            "Content-Type": CONTENT_TYPES[self._envelope],
            "Idempotency-Key": message.id,
            "webhook-id": message.id,
            "webhook-timestamp": str(now),
        }
        if self._secret:
            headers["webhook-signature"] = sign(self._secret, message.id, now, body)
        try:
            answer = self._pool.request(
                "POST", self._url, body=body, headers=headers, redirect=False, preload_content=False
            )
            status = answer.status
            answer.drain_conn()
            answer.release_conn()
        except urllib3.exceptions.HTTPError as error:
            told = f"{self._where} cannot be reached: {type(error).__name__}"
            raise unavailable(number, told) from error
        if 200 <= status < 300:
            return
        if status in _NOT_NOW or status >= 500:
            raise unavailable(number, f"{self._where} cannot take messages now: status {status}")
        if status in _ABOUT_ONE:
            raise refusal(number, f"{self._where} refuses the message {message.id}: {status}")
        raise SinkSetupError(
            f"{self._where} refuses all messages: status {status}",
            hint="Check the URL, the secret and the headers of the pipeline.",
        )

    def close(self) -> None:
        """Close all connections."""
        self._pool.clear()
