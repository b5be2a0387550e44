"""Everything is killed in the middle of a run; the next command finishes it, and no answered turn is asked again."""

from __future__ import annotations

from collections import Counter

from tests.support.patience import eventually
from tests.support.people.desk import Desk, use_provider
from tests.support.providers.held_job import HeldJob, request_identity
from tests.support.providers.pitch_decks import pitch_decks
from tests.support.providers.provider import FakeProvider

JOB = ("start", "pitch_orchestrator", "evaluate every deck", "--model", "openai-chat:gpt-test", "--id", "job")


def _asked(provider: FakeProvider) -> Counter[str]:
    return Counter(request_identity(request.body) for request in provider.requests)


def _assert_finished_once(desk: Desk, provider: FakeProvider, *, unanswered: list[str]) -> None:
    assert sorted(desk.evaluations()) == desk.decks
    for identity, times in _asked(provider).items():
        assert times == 1 or identity in unanswered, "a turn that was answered was asked again"


def test_killed_during_a_model_turn(desk: Desk) -> None:
    script = HeldJob("orchestrator")
    with FakeProvider(script) as provider:
        use_provider(desk, provider)
        process = desk.begin(*JOB, "--approve-all")
        script.gate.wait_until_reached()
        desk.kill_group(process)
        script.gate.open()
        desk.type("watch", "job")
        _assert_finished_once(desk, provider, unanswered=script.held[:1])


def test_killed_during_several_children(desk: Desk) -> None:
    script = HeldJob("evaluators")
    with FakeProvider(script) as provider:
        use_provider(desk, provider)
        process = desk.begin(*JOB, "--approve-all")
        # All of them: what one more had asked might be heard after the kill only.
        eventually(lambda: len(script.held) == len(desk.decks), "all children wait for their model")
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
