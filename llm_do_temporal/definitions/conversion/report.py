"""What an import did, and what it could not do."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Note:
    """Something that was not carried over as it was, and why."""

    file: str
    """Path in the source."""
    message: str

    def __str__(self) -> str:
        return f"{self.file}: {self.message}"


@dataclass
class ImportReport:
    """What came of an import."""

    target: Path
    """The new workshop."""
    workers: dict[str, str] = field(default_factory=dict[str, str])
    """The workers that were written: name to the file in the source."""
    notes: list[Note] = field(default_factory=list[Note])

    def note(self, file: str, message: str) -> None:
        """Add a note, once."""
        said = Note(file, message)
        if said not in self.notes:
            self.notes.append(said)
