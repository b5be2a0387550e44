"""Everything is killed in the middle of a run; the next command finishes it, and no answered turn is asked again."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

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


@pytest.mark.thorough
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


@pytest.mark.thorough
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


def _keyless(desk: Desk) -> Desk:
    """The same workshop in a shell that has no key."""
    hidden = ("OPENAI_API_KEY", "OPENAI_BASE_URL")
    return Desk(desk.workshop, {name: value for name, value in desk.environment.items() if name not in hidden})


def _killed_while_parked(desk: Desk) -> list[dict[str, Any]]:
    """Start the job, kill its host once all its requests wait, and return these."""
    process = desk.begin(*JOB, "--detach")
    process.wait()
    pending = desk.pending("job", len(desk.decks))
    desk.kill_group(process)
    return pending


@pytest.mark.thorough
def test_killed_and_gone_on_with_from_a_shell_without_the_key(desk: Desk) -> None:
    with FakeProvider(pitch_decks()) as provider:
        use_provider(desk, provider)
        before = _killed_while_parked(desk)

        other = _keyless(desk)
        listed = other.type("approvals", "job")
        assert "not set here: OPENAI_API_KEY" in listed.stderr
        assert "no worker service is started" in listed.stderr
        assert desk.host.use == "reading"
        assert other.type("list").stderr == ""  # its host is there still
        for approval in before:
            other.type("approve", "job", approval["id"])
        stayed = other.type("watch", "job", "--timeout", "20", code=6)
        assert "waits for the key OPENAI_API_KEY: start the worker service where it is set" in stayed.stderr

        desk.type("watch", "job")
        _assert_finished_once(desk, provider, unanswered=[])


def test_killed_while_parked(desk: Desk) -> None:
    with FakeProvider(pitch_decks()) as provider:
        use_provider(desk, provider)
        before = _killed_while_parked(desk)
        assert desk.evaluations() == {}
        after = desk.pending("job", len(desk.decks))
        assert after == before
        for approval in after:
            desk.type("approve", "job", approval["id"])
        desk.type("watch", "job")
        _assert_finished_once(desk, provider, unanswered=[])
