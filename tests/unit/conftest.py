"""Workshops, a run and a question, for tests of one module."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from llm_do_temporal.client.client import Question
from llm_do_temporal.client.views.run_view import Node, RunView
from llm_do_temporal.messages.approvals import RequestApprovalInput
from llm_do_temporal.messages.budget import Usage
from llm_do_temporal.sandbox.safe_open import OpenBelow, best_way_to_open, open_by_component
from tests.support.servers.authorities import trust_nobody
from tests.support.workflow.moments import START, after
from tests.support.workshops.file_tree import Files
from tests.support.workshops.workshop_folder import WorkshopFolder

trust_nobody()


@pytest.fixture(params=list(dict.fromkeys([best_way_to_open(), open_by_component])))
def open_below(request: pytest.FixtureRequest) -> OpenBelow:
    return request.param


@pytest.fixture
def files(tmp_path: Path, open_below: OpenBelow) -> Files:
    workshop = tmp_path / "workshop"
    workshop.mkdir()
    return Files(workshop, open_below=open_below)


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder beside the workshop, with a secret in it."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret.txt").write_text("secret")
    return folder


@pytest.fixture
def workshop(tmp_path: Path) -> WorkshopFolder:
    root = tmp_path / "workshop"
    root.mkdir()
    return WorkshopFolder(root)


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
