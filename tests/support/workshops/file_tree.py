"""A workshop on disk and its file activities, called the way the worker service calls them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from llm_do_temporal.activities.files import FileActivities
from llm_do_temporal.messages.activities import (
    EditFileInput,
    FileChange,
    FileListing,
    FileText,
    ListFilesInput,
    ReadFileInput,
    WriteFileInput,
)
from llm_do_temporal.policy.files.sandbox import Mount, Place, Tree, locate
from llm_do_temporal.sandbox.safe_open import OpenBelow
from tests.support.workshops.layered import MemoryBlobs

WHOLE = Tree(mounts=(Mount(at="/", root="."),))


@dataclass
class Files:
    """The files of one workshop, seen through `tree`."""

    workshop: Path
    tree: Tree = WHOLE
    open_below: OpenBelow | None = None
    attempt: int = 1
    activities: FileActivities = field(init=False)

    def __post_init__(self) -> None:
        self.activities = FileActivities(self.workshop, MemoryBlobs(), self.open_below)

    def seen_through(self, *mounts: Mount) -> Files:
        """The same workshop through another tree."""
        return dataclasses.replace(self, tree=Tree(mounts=mounts))

    def put(self, path: str, content: str | bytes = "x") -> Path:
        """Make a file, and the folders it needs, as somebody outside of any run would."""
        file = self.workshop / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        return file

    def read(self, path: str, max_chars: int = 20_000, offset: int = 0) -> FileText:
        return self.run(self.activities.read_file, ReadFileInput(**self._at(path), max_chars=max_chars, offset=offset))

    def write(self, path: str, content: str) -> FileChange:
        return self.run(self.activities.write_file, WriteFileInput(**self._at(path), content=content))

    def preview_write(self, path: str, content: str) -> FileChange:
        return self.run(self.activities.preview_write, WriteFileInput(**self._at(path), content=content))

    def edit(self, path: str, old: str, new: str) -> FileChange:
        return self.run(self.activities.edit_file, EditFileInput(**self._at(path), old_text=old, new_text=new))

    def preview_edit(self, path: str, old: str, new: str) -> FileChange:
        return self.run(self.activities.preview_edit, EditFileInput(**self._at(path), old_text=old, new_text=new))

    def list(self, path: str = ".", pattern: str = "**/*") -> FileListing:
        return self.run(self.activities.list_files, ListFilesInput(tree=self.tree, path=path, pattern=pattern))

    def names(self, path: str = ".", pattern: str = "**/*") -> list[str]:
        return [entry.path for entry in self.list(path, pattern).files]

    def place(self, path: str) -> Place:
        return locate(self.tree, path)

    def _at(self, path: str) -> dict[str, Any]:
        place = self.place(path)
        return {"mount": place.mount, "relative": place.relative, "path": place.path}

    def run(self, activity: Callable[[Any], Any], asked: Any) -> Any:
        environment = ActivityEnvironment()
        environment.info = dataclasses.replace(ActivityEnvironment.default_info(), attempt=self.attempt)
        return environment.run(activity, asked)


def failure_of(call: Callable[..., object], *args: object) -> ApplicationError:
    """The final failure that a call ends with; it carries code, message and next step."""
    with pytest.raises(ApplicationError) as caught:
        call(*args)
    failure = caught.value
    assert failure.non_retryable
    assert failure.__cause__ is None
    (detail,) = failure.details
    assert detail["code"] == failure.type
    assert detail["message"] == failure.message
    return failure


def assert_refused(call: Callable[..., object], *args: object, says: str) -> None:
    """The call ends in a SandboxRefusal."""
    failure = failure_of(call, *args)
    assert (failure.type, says in failure.message) == ("SandboxRefusal", True), failure.message


def assert_failed(call: Callable[..., object], *args: object, says: str) -> None:
    """The call ends in an EffectFailed."""
    failure = failure_of(call, *args)
    assert (failure.type, says in failure.message) == ("EffectFailed", True), failure.message
