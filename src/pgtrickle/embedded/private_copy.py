"""A copy of the server's programs where an unprivileged account can read them.

Needed when root installed the wheel below a directory that only root may enter.  Opening that
directory to everyone would be easier and wrong.  The copy belongs to root and only root can
write to it, so no other user can replace a program.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from pgtrickle.embedded.home import check_own_directory

PLACE = Path("/var/tmp")  # noqa: S108 (survives a reboot; ownership is checked before use)
_LEFT_OUT = shutil.ignore_patterns("include", "pgxs", "pkgconfig", "*.a", "doc", "__pycache__")


def copy_for_everyone(root: Path, parts: Sequence[Path]) -> Path:
    """Copy ``parts`` of the tree ``root`` to a readable place, once, and return the new root."""
    target = PLACE / f"pgtrickle-programs-{_fingerprint(parts)}"
    if not target.exists():
        draft = Path(tempfile.mkdtemp(prefix=".pgtrickle-programs-", dir=PLACE))
        for part in filter(Path.exists, parts):
            shutil.copytree(part, draft / part.relative_to(root), ignore=_LEFT_OUT)
        _let_everyone_read(draft)
        try:
            draft.rename(target)
        except OSError:
            # Another process was faster; its copy is the same, and is checked below.
            shutil.rmtree(draft)
    check_own_directory(target)
    return target


def _fingerprint(parts: Sequence[Path]) -> str:
    seen = hashlib.sha256()
    for part in parts:
        for path in sorted(part.glob("bin/*")) + sorted(part.glob("*.so*")):
            status = path.stat()
            seen.update(f"{path} {status.st_size} {status.st_mtime_ns}\n".encode())
    return seen.hexdigest()[:16]


def _let_everyone_read(root: Path) -> None:
    root.chmod(0o755)
    for path in root.rglob("*"):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)
