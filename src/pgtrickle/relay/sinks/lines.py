"""JSON lines: in a file, which holds each message exactly once, and on standard output."""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Final

from pgtrickle.errors import EnvelopeError, PipelineError, SinkSetupError, SinkUnavailableError
from pgtrickle.relay.definitions import Definition
from pgtrickle.relay.envelopes import Received, decode, encode
from pgtrickle.relay.messages import Message, Place, Schema, Stream
from pgtrickle.relay.sinks.sink import Guarantee, Options

FILES_FOLDER: Final = "PGTRICKLE_RELAY_FILES"  # where pipelines of the catalog may write
_BLOCK: Final = 1 << 16


class FileSink:
    """A file of JSON lines; its last line says how far it got."""

    guarantee: ClassVar[Guarantee] = Guarantee.EXACTLY_ONCE

    def __init__(self, definition: Definition, options: dict[str, Any]) -> None:
        taken = Options(definition, options)
        self._path = Path(taken.text("path"))
        self._sync = taken.flag("sync", default=True)
        taken.end()
        self._envelope = definition.envelope
        self._file: BinaryIO | None = None
        folder = os.environ.get(FILES_FOLDER)
        inside = folder is not None and self._path.resolve().is_relative_to(Path(folder).resolve())
        if not (definition.from_file or inside):
            raise PipelineError(
                f"the pipeline {definition.name} of the catalog may not write this file",
                hint=f"Let {FILES_FOLDER} name its folder where the relay runs, or define the"
                " pipeline in a file.",
            )

    def open(self, stream: Stream, schema: Schema) -> Place | None:  # noqa: ARG002 - a sink's
        """Open the file for itself alone, and cut off a line that was not finished."""
        try:
            handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            self._file = os.fdopen(handle, "r+b")
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            received = self._find_last(self._file)
        except BlockingIOError as error:
            raise SinkUnavailableError(f"another process writes {self._path}") from error
        except OSError as error:
            raise SinkSetupError(
                f"the file {self._path} cannot be written: {error.strerror}"
            ) from error
        if received is None:
            return None
        if received.pgt_id != stream.pgt_id:
            raise EnvelopeError(
                f"the file {self._path} holds messages of another stream table",
                hint="Give the pipeline a file of its own.",
            )
        return received.place

    def _find_last(self, file: BinaryIO) -> Received | None:
        """Return the last message that is no dead letter; those tell no place."""
        for line in _last_lines(file, _cut_to_last_line(file)):
            received = decode(line, self._envelope)
            if not received.replayed:
                return received
        return None

    def send(self, messages: Sequence[Message]) -> None:
        """Append messages, and wait for the disk."""
        if self._file is None:
            raise SinkUnavailableError(f"the file {self._path} is not open")
        lines = "".join(f"{encode(one, self._envelope)}\n" for one in messages)
        try:
            self._file.write(lines.encode())
            self._file.flush()
            if self._sync:
                os.fsync(self._file.fileno())
        except OSError as error:
            raise SinkUnavailableError(
                f"the file {self._path} cannot be written now: {error.strerror}",
                hint="Free space on its disk.",
            ) from error

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            with suppress(OSError):  # what did not arrive was not counted as delivered
                self._file.close()
            self._file = None


def _cut_to_last_line(file: BinaryIO) -> int:
    """Return where the last whole line ends; the file then ends there too."""
    start = file.seek(0, os.SEEK_END)
    while start > 0:
        block, start = start, max(0, start - _BLOCK)
        file.seek(start)
        found = file.read(block - start).rfind(b"\n")
        if found >= 0:
            start += found + 1
            break
    file.truncate(start)
    file.seek(start)
    return start


def _last_lines(file: BinaryIO, end: int) -> Iterator[bytes]:
    """Yield whole lines, the last one first; the file stays at its end."""
    tail, start = b"", end
    while start > 0:
        block, start = start, max(0, start - _BLOCK)
        file.seek(start)
        first, *lines = (file.read(block - start) + tail).split(b"\n")
        file.seek(end)
        yield from (one for one in reversed(lines) if one)
        tail = first
    if tail:
        yield tail


class StdoutSink:
    """JSON lines on standard output."""

    guarantee: ClassVar[Guarantee] = Guarantee.AT_LEAST_ONCE

    def __init__(self, definition: Definition, options: dict[str, Any]) -> None:
        Options(definition, options).end()
        self._envelope = definition.envelope

    def open(self, stream: Stream, schema: Schema) -> Place | None:
        """Nothing is to be reached."""

    def send(self, messages: Sequence[Message]) -> None:
        """Print messages."""
        sys.stdout.write("".join(f"{encode(one, self._envelope)}\n" for one in messages))
        sys.stdout.flush()

    def close(self) -> None:
        """Nothing is open."""
