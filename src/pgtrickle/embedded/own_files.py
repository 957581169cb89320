"""Write files so that a link planted in their place is replaced, never followed.

Root may work in a directory that belongs to another user, who could otherwise make root
overwrite or give away any file of the system.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_whole(path: Path, text: str, *, mode: int = 0o600) -> None:
    """Write a file so that a reader, or a crash, sees the old text or the new, never a part."""
    descriptor, draft = tempfile.mkstemp(prefix=f"{path.name}.", dir=path.parent)
    with os.fdopen(descriptor, "w") as file:
        os.fchmod(file.fileno(), mode)
        hand_to_owner(file.fileno(), path.parent)
        file.write(text)
    Path(draft).replace(path)


def open_own(path: Path, flags: int) -> int:
    """Open a private file, creating it if needed, and return its descriptor."""
    descriptor = os.open(path, flags | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    hand_to_owner(descriptor, path.parent)
    return descriptor


def hand_to_owner(descriptor: int, directory: Path) -> None:
    """Give a file that root creates in a user's directory to that user, who needs it too."""
    owner = directory.stat()
    if os.geteuid() == 0 and owner.st_uid != 0:
        os.fchown(descriptor, owner.st_uid, owner.st_gid)
