"""Report of an import: the workers that were written, and the settings that could not be carried over."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Note:
    """Remark on a setting that was not carried over unchanged, with the reason."""

    file: str
    """Path in the source."""
    message: str

    def __str__(self) -> str:
        return f"{self.file}: {self.message}"


@dataclass
class ImportReport:
    """Result of an import."""

    target: Path
    """The new workshop."""
    workers: dict[str, str] = field(default_factory=dict[str, str])
    """Workers that were written: the name, and the path of its file in the source."""
    notes: list[Note] = field(default_factory=list[Note])

    def note(self, file: str, message: str) -> None:
        """Add a note, once."""
        said = Note(file, message)
        if said not in self.notes:
            self.notes.append(said)
