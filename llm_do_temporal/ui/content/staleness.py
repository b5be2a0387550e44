"""Comparison of a file with its state when a call asked to change it.

Only if the workshop's folder is on the page's machine. Looks with the preview of the file activities, which
leads nowhere outside of the workshop and changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from llm_do_temporal.client import Question
from llm_do_temporal.errors import LlmDoError
from llm_do_temporal.messages.effects import EditFileInput, FileChange, WriteFileInput
from llm_do_temporal.policy.files.sandbox import locate
from llm_do_temporal.sandbox.text_files import TextFiles
from llm_do_temporal.ui.content.call_parts import Part


@dataclass(frozen=True)
class FileNow:
    """State of the file now, against the question."""

    state: Literal["same", "changed", "unknown"]
    diff: str = ""
    """Changes that the call would make now, if they differ from those in the question."""
    problem: str = ""
    """Reason why the call would fail now; empty if it would not."""

    @property
    def part(self) -> Part:
        """Part of the page with the changes."""
        return Part("Changes, as the file is now", "diff", self.diff)


def file_now(question: Question, workshop: Path | None) -> FileNow | None:
    """Compare the file that an open question would change; None for questions about anything else. Reads files."""
    request = question.request
    if not question.is_open or request.diff is None or request.tool not in ("write_file", "edit_file"):
        return None
    if workshop is None or not workshop.is_dir():
        return FileNow("unknown")
    try:
        change = _preview(question, workshop)
    except LlmDoError as error:
        return FileNow("changed", problem=error.message)
    except (OSError, KeyError, ValueError):
        return FileNow("unknown")
    return FileNow("same") if change.diff == request.diff else FileNow("changed", diff=change.diff.rstrip("\n"))


def _preview(question: Question, workshop: Path) -> FileChange:
    files, args = TextFiles(workshop), question.request.args
    place = locate(question.request.tree, str(args["path"]))
    if question.request.tool == "write_file":
        write = WriteFileInput(mount=place.mount, relative=place.relative, path=place.path, content=args["content"])
        return files.preview_write(write)
    edit = EditFileInput(
        mount=place.mount,
        relative=place.relative,
        path=place.path,
        old_text=args["old_text"],
        new_text=args["new_text"],
    )
    return files.preview_edit(edit)
