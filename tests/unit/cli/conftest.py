"""A person who types at prompts."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from llm_do_temporal.cli.terminal import ask, prompts


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return the way to say which lines a person will type, one at each prompt; None: the end of input."""
    monkeypatch.delenv("PAGER", raising=False)
    monkeypatch.setattr(ask, "forget_typed", lambda: None)

    def type_lines(*lines: str | None) -> None:
        left: Iterator[str | None] = iter(lines)

        async def read(prompt: str) -> str | None:
            assert prompt
            return next(left)

        monkeypatch.setattr(prompts, "read_line", read)

    return type_lines
