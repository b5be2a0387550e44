"""A decision that names what its person saw counts for that question alone, however the name is spelled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from llm_do_temporal.desk import state as desk
from llm_do_temporal.errors import DecisionRefused
from llm_do_temporal.messages.approvals import Decision, DeskState
from llm_do_temporal.policy.identity import IDENTITY_VERSION
from tests.support.workflow.desk_questions import LATER, asked, decided, withdrawn, write


def question(**more: Any) -> Any:
    keys: dict[str, Any] = {"identity_version": IDENTITY_VERSION, "diff": "+hi", **more}
    return write(**keys)


QUESTION = question()
STALE: dict[str, Callable[[str], str]] = {
    "empty": lambda _: "",
    "a space": lambda _: " ",
    "zeros": lambda _: "0" * 64,
    "in capitals": str.upper,
    "its beginning": lambda digest: digest[:12],
    "all but the last digit": lambda digest: digest[:-1],
    "one digit more": lambda digest: digest + "0",
    "another last digit": lambda digest: digest[:-1] + ("0" if digest[-1] != "0" else "1"),
    "a line end behind it": lambda digest: digest + "\n",
    "a space before it": lambda digest: " " + digest,
    "with the name of the algorithm": lambda digest: "sha256:" + digest,
    "in quotes": lambda digest: f'"{digest}"',
    "an invisible character in it": lambda digest: digest[:5] + "\u200b" + digest[5:],
    "full-width digits": lambda digest: "".join(chr(0xFEE0 + ord(one)) for one in digest),
    "a NUL behind it": lambda digest: digest + "\0",
    "backwards": lambda digest: digest[::-1],
    "a pattern": lambda _: ".*",
    "a wildcard": lambda _: "*",
    "null": lambda _: "null",
    "twice": lambda digest: digest * 2,
    "very long": lambda digest: digest * 10_000,
    "of other arguments": lambda _: question(content="ho").digest,
    "of another path": lambda _: question(path="/b.txt").digest,
    "of another preview": lambda _: question(diff="-all\n+hi").digest,
    "of another summary": lambda _: question(summary="write something").digest,
    "of another worker": lambda _: question(worker="other").digest,
    "of the same call, asked before": lambda _: question(key="0").digest,
    "of the same call in another run": lambda _: question(invocation="other").digest,
    "of the same call of another version": lambda _: question(identity_version=IDENTITY_VERSION + 1).digest,
}


def refused(state: DeskState, **decision: Any) -> str:
    with pytest.raises(DecisionRefused) as problem:
        decided(state, **decision)
    return str(problem.value)


@pytest.mark.parametrize("spelled", STALE)
def test_an_approval_of_something_else_is_refused(spelled: str) -> None:
    digest = STALE[spelled](QUESTION.digest)
    told = refused(asked(QUESTION), id="a1", digest=digest)
    assert "the decision is about something else than approval 'a1'" in told
    assert len(told) < 600


@pytest.mark.parametrize("spelled", STALE)
def test_a_change_of_something_else_without_an_id_is_refused(spelled: str) -> None:
    args = {"path": "/c.txt", "content": "c"}
    refused(asked(QUESTION), decision="modify", args=args, digest=STALE[spelled](QUESTION.digest))


@pytest.mark.parametrize("spelled", STALE)
def test_of_several_none_is_taken_for_what_none_of_them_is(spelled: str) -> None:
    both = asked(QUESTION, question(path="/z.txt", key="2"))
    told = refused(both, decision="reject", digest=STALE[spelled](QUESTION.digest))
    assert "say which approval: 2 are pending" in told


@pytest.mark.parametrize("decision", ["approve", "reject", "modify"])
@pytest.mark.parametrize("named", ["a1", "a2"])
def test_an_id_and_the_digest_of_another_question_are_no_decision(named: str, decision: str) -> None:
    other = question(path="/b.txt", key="2")
    both = asked(QUESTION, other)
    digest = other.digest if named == "a1" else QUESTION.digest
    args = {"path": "/c.txt", "content": "c"} if decision == "modify" else None
    assert "something else" in refused(both, id=named, decision=decision, args=args, digest=digest)


@pytest.mark.parametrize("state", ["decided", "withdrawn"])
def test_a_digest_opens_no_question_that_is_closed(state: str) -> None:
    closed = asked(QUESTION)
    closed = decided(closed)[0] if state == "decided" else withdrawn(closed, "1")
    refused(closed, id="a1", digest=QUESTION.digest)
    refused(closed, digest=QUESTION.digest)


@pytest.mark.parametrize("spelled", STALE)
def test_a_vote_counts_only_for_what_its_person_saw(spelled: str) -> None:
    shared = question(quorum=2)
    state, _ = decided(asked(shared), id="a1", by="ann", digest=shared.digest)
    refused(state, id="a1", by="bob", digest=STALE[spelled](shared.digest))
    (one,) = desk.pending(state)
    assert [vote.by for vote in one.votes] == ["ann"]


def test_a_vote_for_the_question_as_it_was_is_none_for_the_one_that_is_asked_again() -> None:
    first, again = question(quorum=2), question(quorum=2, key="2", diff="-all\n+hi")
    state, _ = decided(asked(first), id="a1", by="ann", digest=first.digest)
    state = withdrawn(state, "1")
    state, _ = desk.with_request(state, again, now=LATER)
    refused(state, id="a2", by="bob", digest=first.digest)
    state, (taken,) = decided(state, id="a2", by="bob", digest=again.digest)
    assert (taken.verdict, [vote.by for vote in taken.votes]) == (None, ["bob"])


@pytest.mark.control
@pytest.mark.parametrize("names", [{"id": "a1"}, {}])
@pytest.mark.parametrize("digest", [QUESTION.digest, None])
def test_a_decision_about_what_is_asked_is_taken(names: dict[str, str], digest: str | None) -> None:
    state, (taken,) = decided(asked(QUESTION), **names, digest=digest)
    assert taken.verdict is not None
    assert (taken.verdict.digest, desk.pending(state)) == (digest, ())


@pytest.mark.control
def test_a_digest_names_one_of_several() -> None:
    other = question(path="/b.txt", key="2")
    _, (taken,) = decided(asked(QUESTION, other), digest=other.digest)
    assert taken.id == "a2"


@pytest.mark.control
def test_a_decision_of_an_earlier_client_has_no_digest() -> None:
    assert Decision.model_validate({"decision": "approve"}).digest is None
