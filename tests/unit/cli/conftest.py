"""A run and a question that the tests of this folder look at, and a person who types at prompts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from llm_do_temporal.cli.terminal import ask, prompts
from llm_do_temporal.client.client import Question
from llm_do_temporal.client.views.run_view import Node, RunView
from llm_do_temporal.messages.approvals import RequestApprovalInput
from llm_do_temporal.messages.budget import Usage
from tests.support.workflow.moments import START, after


@pytest.fixture
def view() -> RunView:
    """A run that has been going for 75 seconds: one delegation has ended, one waits for a person, one works."""
    main = Node("r", path="main", worker="boss", model="test", started_at=START)
    main.usage = Usage(requests=2, unpriced=("test",))
    main.children = ["c1", "c2", "c3"]
    done = Node("c1", path="main/scout-1", worker="scout", model="x:big", depth=1, status="completed", started_at=START)
    done.ended_at = after(5)
    done.usage = Usage(requests=1, tool_calls=1, input_tokens=1200, output_tokens=34, cost_usd=Decimal("0.0125"))
    waiting = Node("c2", path="main/scout-2", worker="scout", depth=1, started_at=START)
    waiting.waiting = {"k": "write /a.txt"}
    working = Node("c3", path="main/scout-3", worker="scout", depth=1, started_at=START)
    working.doing = {7: "LLM turn"}
    return RunView("run-1", nodes={"r": main, "c1": done, "c2": waiting, "c3": working}, started_at=START)


@pytest.fixture
def pending() -> Question:
    """A question about a new file."""
    request = RequestApprovalInput(
        invocation="run-1/main",
        key="k",
        worker="boss",
        path="main",
        tool="write_file",
        args={"path": "/a.txt", "content": "one\ntwo\n"},
        args_schema={"type": "object"},
        capabilities=(),
        summary="write_file /a.txt (8 bytes)",
        diff="--- /dev/null\n+++ /a.txt\n@@ -0,0 +1,2 @@\n+one\n+two\n",
        reason="sandbox.write needs approval",
    )
    return Question(id="a1", run="run-1", request=request, asked_at=datetime(2026, 1, 2, tzinfo=UTC))


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
