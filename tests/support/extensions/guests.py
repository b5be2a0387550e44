"""Capabilities that are installed for one test."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import pytest

from llm_do_temporal import extension
from llm_do_temporal.extension import Extension
from llm_do_temporal.messages.runs import InvokeWorkerInput
from llm_do_temporal.workflows.tools.parts import InvocationPart, PartHost, part_makers

GuestMaker = Callable[[InvokeWorkerInput, PartHost], InvocationPart | None]


class Guest(Extension):
    """Capability with a part in runs, made by a function."""

    def __init__(self, maker: GuestMaker, version: int = 1, name: str = "guest") -> None:
        self.name = name
        self._maker = maker
        self.version = version

    def invocation_part(self) -> Callable[[Any, Any], Any]:
        return self._maker


@contextmanager
def with_guest(maker: GuestMaker, version: int = 1, name: str = "guest") -> Generator[None]:
    """Have a capability with this name installed in this process, beside those that are."""
    own = tuple(extension.installed())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(extension, "_own", lambda: (*own, Guest(maker, version, name)))
        patch.setattr(extension, "entry_points", _no_entry_points)
        _forget()
        yield
    _forget()


def _no_entry_points(group: str) -> tuple[()]:
    assert group == extension.GROUP
    return ()


def _forget() -> None:
    extension.installed.cache_clear()
    part_makers.cache_clear()
