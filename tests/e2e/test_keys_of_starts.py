"""Keys that an open run needs are missed in a shell without them, whatever has started the run."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.support.patience import eventually
from tests.support.people.desk import Desk, use_provider
from tests.support.ports import unused_port
from tests.support.providers.pitch_decks import pitch_decks
from tests.support.providers.provider import FakeProvider

MODEL = "openai-chat:gpt-test"


def by_plain_temporal(desk: Desk) -> str:
    """Start the run with the `temporal` CLI."""
    given = json.dumps({"worker": "pitch_orchestrator", "prompt": "evaluate every deck", "model": MODEL})
    start = ("workflow", "start", "--type", "LlmDoRun", "--task-queue", "llm-do")
    desk.temporal(*start, "--workflow-id", "job", "--input", given)
    return "job"


def by_a_schedule(desk: Desk) -> str:
    """Start the run by a schedule, which is triggered."""
    about = ("weekly", "pitch_orchestrator", "evaluate every deck", "--model", MODEL)
    desk.type("schedule", "create", *about, "--every", "30d")
    desk.type("schedule", "trigger", "weekly")

    def begun() -> list[str]:
        found: list[str] = json.loads(desk.type("schedule", "show", "weekly", "--json").stdout)["recent"]
        return found

    return eventually(begun, "a run has begun")[0]


@pytest.mark.thorough
@pytest.mark.parametrize("start", [by_plain_temporal, by_a_schedule])
def test_a_run_that_no_start_command_began_is_known_to_need_its_key(desk: Desk, start: Callable[[Desk], str]) -> None:
    with FakeProvider(pitch_decks()) as provider:
        use_provider(desk, provider)
        dev = desk.begin("dev", "--no-page", "--port", str(unused_port()))
        assert desk.host.kind == "dev"
        run = start(desk)
        desk.pending(run, len(desk.decks))
        desk.kill_group(dev)
        for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
            del desk.environment[name]
        assert "not set here: OPENAI_API_KEY" in desk.type("approvals", run).stderr
        assert desk.host.use == "reading"
