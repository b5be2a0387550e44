"""Extensions that are installed for one test."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from llm_do_temporal import extension
from llm_do_temporal.extension import Extension
from llm_do_temporal.messages.runs import InvokeWorkerInput
from llm_do_temporal.workflows.tools.parts import InvocationPart, PartHost, part_makers

GuestMaker = Callable[[InvokeWorkerInput, PartHost], InvocationPart | None]


class Guest(Extension):
    """Extension with a part in runs, made by a function."""

    def __init__(self, maker: GuestMaker, version: int = 1, name: str = "guest") -> None:
        self.name = name
        self._maker = maker
        self.version = version

    def invocation_part(self) -> Callable[[Any, Any], Any]:
        return self._maker


@dataclass
class _Entry:
    """Entry point by which a package would name the guest."""

    guest: Guest
    value: str = "guests:EXTENSION"
    dist: None = None

    @property
    def name(self) -> str:
        return self.guest.name

    def load(self) -> Guest:
        return self.guest


def _entries(entry: _Entry, group: str) -> tuple[_Entry]:
    assert group == extension.GROUP
    return (entry,)


@contextmanager
def with_guest(maker: GuestMaker, version: int = 1, name: str = "guest") -> Generator[None]:
    """Have an extension with this name installed in this process, beside those that are."""
    entry = _Entry(Guest(maker, version, name))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(extension, "entry_points", partial(_entries, entry))
        _forget()
        yield
    _forget()


def _forget() -> None:
    extension.installed.cache_clear()
    part_makers.cache_clear()
