"""Everything is killed in the middle of a run; the next command finishes it, and no answered turn is asked again."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from tests.e2e.conftest import Desk, eventually, use_provider
from tests.support.answers import Answer, Gate, Gated
from tests.support.pitch_decks import pitch_decks
from tests.support.provider import FakeProvider

JOB = ("start", "pitch_orchestrator", "evaluate every deck", "--model", "openai-chat:gpt-test", "--id", "job")


class Held:
    """The scripted job, whose answers to some requests wait at a gate until they are let through."""

    def __init__(self, part: str) -> None:
        self.part = part
        self.gate = Gate()
        self.held: list[str] = []
        self._script = pitch_decks()

    def __call__(self, request: dict[str, Any], number: int) -> Answer:
        """Answer, or stop at the gate first."""
        answer = self._script(request, number)
        if self._concerns(request):
            self.held.append(identity(request))
            return Gated(self.gate, answer)
        return answer

    def _concerns(self, request: dict[str, Any]) -> bool:
        evaluating = any(tool["function"]["name"] == "final_result" for tool in request["tools"])
        return evaluating == (self.part == "evaluators")


def identity(request: dict[str, Any]) -> str:
    """What a request asks, so that asking again can be seen."""
    return json.dumps([request["messages"], sorted(tool["function"]["name"] for tool in request.get("tools", []))])


def _asked(provider: FakeProvider) -> Counter[str]:
    return Counter(identity(request.body) for request in provider.requests)


def _assert_finished_once(desk: Desk, provider: FakeProvider, *, unanswered: list[str]) -> None:
    assert sorted(desk.evaluations()) == desk.decks
    for identity, times in _asked(provider).items():
        assert times == 1 or identity in unanswered, "a turn that was answered was asked again"


def test_killed_during_a_model_turn(desk: Desk) -> None:
    script = Held("orchestrator")
    with FakeProvider(script) as provider:
        use_provider(desk, provider)
        process = desk.begin(*JOB, "--approve-all")
        script.gate.wait_until_reached()
        desk.kill_group(process)
        script.gate.open()
        desk.type("watch", "job")
        _assert_finished_once(desk, provider, unanswered=script.held[:1])


def test_killed_during_two_children(desk: Desk) -> None:
    script = Held("evaluators")
    with FakeProvider(script) as provider:
        use_provider(desk, provider)
        process = desk.begin(*JOB, "--approve-all")
        eventually(lambda: len(script.held) >= 2, "two children wait for their model")
        desk.kill_group(process)
        unanswered = list(script.held)
        script.gate.open()
        desk.type("watch", "job")
        _assert_finished_once(desk, provider, unanswered=unanswered)


def test_killed_while_parked(desk: Desk) -> None:
    with FakeProvider(pitch_decks()) as provider:
        use_provider(desk, provider)
        process = desk.begin(*JOB, "--detach")
        process.wait()
        before = desk.pending("job", len(desk.decks))
        desk.kill_group(process)
        assert desk.evaluations() == {}
        after = desk.pending("job", len(desk.decks))
        assert after == before
        for approval in after:
            desk.type("approve", "job", approval["id"])
        desk.type("watch", "job")
        _assert_finished_once(desk, provider, unanswered=[])
