"""What a panel is drawn from: the picture, and what else a console has heard and asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pgtrickle.catalog.console.picture import Picture
from pgtrickle.service.insight.channels import Notice


@dataclass(frozen=True, slots=True)
class Explained:
    """The plan of a stream table, or why it cannot be shown."""

    name: str
    document: Mapping[str, Any] | None
    refusal: str = ""
    figures: Mapping[str, Any] = field(default_factory=dict)  # what flowed: of closer.edge_figures


@dataclass(frozen=True, slots=True)
class View:
    """Everything that a sheet may show."""

    picture: Picture
    subject: str | None = None  # the stream table that is looked at
    explained: Explained | None = None
    notices: tuple[Notice, ...] = ()  # the newest last
    deaf: str = ""  # why no notices are heard
    log: tuple[str, ...] = ()  # the end of the log file
    log_path: str = ""
