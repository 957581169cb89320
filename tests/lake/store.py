"""A store that speaks S3, over HTTP on the loopback, whose answers may be made to fail."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.request import Request, urlopen

import boto3
from botocore.config import Config
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import BaseWSGIServer, make_server

KEY, SECRET, REGION = "lake-key", "hush-this-is-the-secret", "us-east-1"
_Answer = Iterable[bytes]


@dataclass(slots=True)
class Store:
    """A bucket called ``lake``, and how many of the next requests of a kind fail."""

    application: Any
    failing: dict[str, int] = field(default_factory=dict)  # by HTTP method
    requests: list[tuple[str, str]] = field(default_factory=list)  # method and path with query
    server: BaseWSGIServer | None = None
    _thread: threading.Thread | None = None

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> _Answer:
        """Answer a request, or fail as a store in trouble does."""
        method = environ["REQUEST_METHOD"]
        self.requests.append((method, f"{environ['PATH_INFO']}?{environ['QUERY_STRING']}"))
        if self.failing.get(method, 0) > 0:
            self.failing[method] -= 1
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            start("503 Service Unavailable", [("Content-Type", "application/xml")])
            return [b"<Error><Code>ServiceUnavailable</Code><Message>busy</Message></Error>"]
        answered: _Answer = self.application(environ, start)
        return answered

    def start(self) -> None:
        """Listen, on a port that is free."""
        self.server = make_server("127.0.0.1", 0, self, threaded=True)
        self._thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Listen no more."""
        assert self.server is not None
        self.server.shutdown()
        self.server.server_close()

    @property
    def address(self) -> str:
        """Host and port."""
        assert self.server is not None
        return f"127.0.0.1:{self.server.port}"

    def list_keys(self) -> list[str]:
        """Return the names of all objects in the bucket."""
        listed = client_of(self.address).list_objects_v2(Bucket="lake").get("Contents", [])
        return sorted(one["Key"] for one in listed if not one["Key"].endswith("/"))

    def put(self, key: str, content: bytes) -> None:
        """Put an object into the bucket."""
        client_of(self.address).put_object(Bucket="lake", Key=key, Body=content)


def client_of(address: str) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=f"http://{address}",
        aws_access_key_id=KEY,
        aws_secret_access_key=SECRET,
        region_name=REGION,
        config=Config(retries={"max_attempts": 1}, s3={"addressing_style": "path"}),
    )


def start_store() -> Store:
    """Start a store with an empty bucket."""
    store = Store(DomainDispatcherApplication(create_backend_app))
    store.start()
    # What moto stores belongs to the process, not to the server.
    urlopen(Request(f"http://{store.address}/moto-api/reset", method="POST")).close()
    client_of(store.address).create_bucket(Bucket="lake")
    store.requests.clear()
    return store
