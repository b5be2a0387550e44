"""Settings of the page, fixed when it starts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from llm_do_temporal.ui.security.users import Access


@dataclass(frozen=True)
class UiSettings:
    """Settings of the page, fixed when it starts."""

    access: Access
    """Way to know the visitors."""
    hosts: tuple[str, ...]
    """Values of the Host header that are answered: `name:port`, or `name` for any port."""
    workshop: Path | None = None
    """Folder of the workshop, if it is on this machine: for workers to start, blobs, and files to compare with."""
    temporal_ui: str | None = None
    """Address of the Temporal UI, without a slash at its end."""
    namespace: str = "default"
    embedded: bool = False
    """Whether runs go to an embedded worker service, which shares this environment and so its default model."""
    undo_seconds: int = 0
    """Seconds for which a decision is held, so that whoever decided can take it back; 0: it takes effect at once."""
