"""Reviews in workflow code: the order of their steps, and who is asked how often."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from llm_do_temporal.errors import ApprovalRefusal, DecisionRefused, EffectFailed, LlmDoError
from llm_do_temporal.extensions.review.messages import (
    ChangeCounts,
    CheckResult,
    PreparedReview,
    ReviewSection,
    SettledReview,
    ShownReview,
)
from llm_do_temporal.extensions.review.policy.review import Section
from llm_do_temporal.extensions.review.workflow import MOST_ROUNDS, LayerReview, ReviewOutcome
from llm_do_temporal.messages.activities import ActivityRef
from llm_do_temporal.messages.approvals import DecisionKind, Verdict
from llm_do_temporal.messages.definitions import RunSettings
from llm_do_temporal.messages.layers import CommittedChanges, LayerState
from llm_do_temporal.policy.approvals import ApprovalRules, Mode, Terms
from llm_do_temporal.policy.layers.layer import CarriedLayer
from llm_do_temporal.policy.models import ModelSources
from llm_do_temporal.workflows.runtime.failures import as_failure
from llm_do_temporal.workflows.tools.gated_tool import AskedTool, ToolQuestion
from llm_do_temporal.workflows.tools.working_layer import WorkingLayer
from tests.support.workflow.desk_questions import NOON
from tests.support.workflow.fake_workflow import FakeWorkflow
from tests.support.workflow.invocations import invocation

ALL, PART, OTHER = "a" * 64, "b" * 64, "c" * 64
Answer = tuple[DecisionKind, dict[str, Any]]
APPROVE: Answer = (DecisionKind.APPROVE, {})


def settled(digest: str = ALL, words: str = "", paths: int = 2) -> SettledReview:
    return SettledReview(accepted=digest, digest=digest, accepted_paths=paths, rejected_paths=0, words=words)


@dataclass
class Played:
    """Activities with the results that a test gives them, and the people; both note what they were asked."""

    sections: tuple[Section, ...] = (Section.ORDINARY,)
    settles: list[SettledReview | Exception] = field(default_factory=lambda: [settled()])
    checks: list[int] = field(default_factory=list[int])
    """Exit codes of the checks, one after the other."""
    commits: list[CommittedChanges | Exception] = field(
        default_factory=lambda: [CommittedChanges(committed=True, paths=2)]
    )
    answers: list[Answer] = field(default_factory=lambda: [APPROVE])
    ran: list[tuple[str, Any]] = field(default_factory=list[tuple[str, Any]])
    asked: list[tuple[ToolQuestion, str]] = field(default_factory=list[tuple[ToolQuestion, str]])

    async def run(self, activity: ActivityRef[Any, Any], request: Any, **_more: Any) -> Any:
        self.ran.append((activity.name, request))
        if activity.name == "prepare_review":
            found = tuple(ReviewSection(section=one, digest=ALL, counts=ChangeCounts(added=2)) for one in self.sections)
            layer = CarriedLayer(manifest=ALL)
            return PreparedReview(layer=layer, digest=ALL, review=OTHER if found else None, sections=found)
        if activity.name == "check_changes":
            return CheckResult(command=request.command, exit_code=self.checks.pop(0))
        if activity.name == "commit_changes":
            done = self.commits.pop(0)
            if isinstance(done, Exception):
                raise done
            return done
        result = self.settles.pop(0) if len(self.settles) > 1 else self.settles[0]
        if isinstance(result, LlmDoError):
            raise as_failure(result)
        return result

    async def ask(
        self,
        tool: AskedTool,
        question: ToolQuestion,
        *,
        reason: str,
        terms: Terms,
        diff: str | None = None,
        account: str | None = None,
    ) -> Verdict:
        self.asked.append((question, reason))
        await asyncio.sleep(0)
        kind, args = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return Verdict(decision=kind, args={**question.args, **args}, note="no", by="ada", at=NOON, door="update")

    def report(self, tool: AskedTool, error: Exception) -> None:
        raise error

    async def withdraw_abandoned(self) -> None:
        """See AsksDesk."""

    def requests(self, name: str) -> list[Any]:
        return [request for ran, request in self.ran if ran == name]


def passes(question: ToolQuestion) -> bool:
    """Return whether the check that is shown has passed."""
    assert question.extension is not None
    check = ShownReview.model_validate(question.extension.shown).check
    assert check is not None
    return check.passed


Reviewed = Callable[..., tuple[LayerReview, WorkingLayer]]


@pytest.fixture
def reviewed(monkeypatch: pytest.MonkeyPatch, fake_workflow: FakeWorkflow) -> Reviewed:
    assert fake_workflow.info.first_execution_run_id == "first"

    def made(
        played: Played, *, check: str = "", mode: Mode = Mode.INTERACTIVE, **rules: Any
    ) -> tuple[LayerReview, WorkingLayer]:
        monkeypatch.setattr("llm_do_temporal.extensions.review.workflow.run_activity", played.run)
        approvals = ApprovalRules.model_validate({"rules": rules})
        settings = RunSettings(mode=mode, rules=approvals, models=ModelSources(), check_command=check)
        given = invocation(settings=settings)
        layer = WorkingLayer(LayerState(), given, lambda: 1)
        return LayerReview(given, layer, played, lambda _tool: None), layer

    return made


async def test_what_is_accepted_is_committed_once_and_the_layer_is_what_was_kept(reviewed: Reviewed) -> None:
    played = Played()
    review, layer = reviewed(played)

    assert await review.run() == ReviewOutcome(made=2)
    assert [name for name, _ in played.ran] == ["prepare_review", "settle_review", "commit_changes"]
    assert (layer.state, review.number) == (LayerState(), 1)
    (commit,) = played.requests("commit_changes")
    # A run that was deleted may be started again under its id: its commits are others.
    assert commit.key == f"r#1-{ALL}@first"
    assert (commit.digest, commit.by, commit.sections) == (ALL, "ada", (Section.ORDINARY,))


async def test_without_changes_nobody_is_asked_and_no_review_is_counted(reviewed: Reviewed) -> None:
    played = Played(sections=())
    review, _layer = reviewed(played, check="make test")

    assert await review.run() == ReviewOutcome()
    assert not played.asked
    assert review.number == 0


async def test_all_sections_are_asked_about_and_a_blocked_one_is_answered_by_policy(reviewed: Reviewed) -> None:
    played = Played(sections=(Section.ORDINARY, Section.WORKERS, Section.DEFINITIONS))
    review, _layer = reviewed(played)
    await review.run()

    uses = [use.name for question, _ in played.asked for use in question.uses]
    assert sorted(uses) == ["changes.commit", "worker.create"]
    answers = {one.section: one for one in played.requests("settle_review")[0].answers}
    assert answers[Section.DEFINITIONS].answer is None
    assert "sandbox.write.definitions" in answers[Section.DEFINITIONS].note


async def test_where_policy_refuses_everything_the_worker_is_told_and_not_for_ever(reviewed: Reviewed) -> None:
    played = Played(settles=[settled(words="blocked", paths=0)])
    review, _layer = reviewed(played, mode=Mode.STRICT)

    assert await review.run() == await review.run() == ReviewOutcome(words="blocked")
    with pytest.raises(ApprovalRefusal, match="Strict mode"):
        await review.run()
    assert not played.asked
    assert not played.requests("commit_changes")


async def test_where_no_approval_is_needed_nobody_is_asked(reviewed: Reviewed) -> None:
    played = Played()
    review, _layer = reviewed(played, **{"changes.commit": "pre_approved"})

    assert (await review.run()).made == 2
    assert not played.asked
    assert not played.requests("commit_changes")[0].by


async def test_automation_asks_also_where_ordinary_changes_do_not(reviewed: Reviewed) -> None:
    played = Played(sections=(Section.ORDINARY, Section.AUTOMATION))
    review, _layer = reviewed(played, **{"changes.commit": "pre_approved"})
    await review.run()

    assert [question.uses[0].name for question, _ in played.asked] == ["changes.commit.automation"]


async def test_a_part_that_fails_the_check_is_shown_with_that_and_made_only_where_it_is_accepted_again(
    reviewed: Reviewed,
) -> None:
    part = (DecisionKind.MODIFY, {"accept": ["a.py"]})
    played = Played(settles=[settled(PART, "rest")], checks=[0, 1], answers=[part, part])
    review, _layer = reviewed(played, check="make test")

    assert await review.run() == ReviewOutcome(made=2, words="rest")
    assert [one.manifest for one in played.requests("check_changes")] == [ALL, PART]
    (first, _), (second, reason) = played.asked
    assert [passes(question) for question in (first, second)] == [True, False]
    assert second.args["accept"] == ["a.py"]
    assert "does not pass the check" in reason
    assert first.identity != second.identity


async def test_everything_is_checked_once(reviewed: Reviewed) -> None:
    played = Played(checks=[1])
    review, _layer = reviewed(played, check="make test")

    assert (await review.run()).made == 2
    assert len(played.requests("check_changes")) == 1


@pytest.mark.parametrize("refused", [DecisionRefused("there is no part 'x' of this change"), None])
async def test_an_answer_that_cannot_be_used_is_asked_for_again(
    reviewed: Reviewed, refused: DecisionRefused | None
) -> None:
    wrong: Answer = APPROVE if refused else (DecisionKind.MODIFY, {"changes": OTHER})
    played = Played(settles=[refused, settled()] if refused else [settled()], answers=[wrong, APPROVE])
    review, _layer = reviewed(played)

    assert (await review.run()).made == 2
    assert len(played.asked) == 2
    assert "could not be used" in played.asked[1][1]
    # So no decision that was remembered answers it again, and again.
    assert played.asked[0][0].identity != played.asked[1][0].identity


async def test_a_rejection_makes_nothing_and_its_reason_reaches_those_who_write_the_words(reviewed: Reviewed) -> None:
    played = Played(settles=[settled(PART, "no", paths=0)], answers=[(DecisionKind.REJECT, {})])
    review, _layer = reviewed(played)

    assert await review.run() == ReviewOutcome(words="no")
    (answer,) = played.requests("settle_review")[0].answers
    assert (answer.answer, answer.note, answer.by) == (None, "no", "ada")


async def test_files_that_changed_meanwhile_are_compared_and_asked_about_anew(reviewed: Reviewed) -> None:
    moved = CommittedChanges(committed=False, conflicts=("a.py: it was changed on both sides",))
    played = Played(commits=[moved, CommittedChanges(committed=True, paths=2)])
    review, _layer = reviewed(played)

    assert (await review.run()).made == 2
    assert len(played.requests("prepare_review")) == len(played.asked) == 2
    assert "a.py" in played.asked[1][1]
    assert review.number == 2


async def test_a_path_that_was_changed_in_the_moment_of_the_commit_is_told(reviewed: Reviewed) -> None:
    done = CommittedChanges(committed=True, paths=1, conflicts=("a.py: it was changed on both sides",))
    review, _layer = reviewed(Played(commits=[done]))

    assert "a.py: it was changed on both sides" in (await review.run()).words


async def test_what_could_not_be_made_is_not_lost_but_asked_about_again_with_the_reason(reviewed: Reviewed) -> None:
    full = EffectFailed("the branch 'x' is checked out")
    played = Played(commits=[full, CommittedChanges(committed=True, paths=2)])
    review, _layer = reviewed(played)

    assert (await review.run()).made == 2
    assert "the branch 'x' is checked out" in played.asked[1][1]


async def test_where_nobody_is_asked_the_error_ends_the_review(reviewed: Reviewed) -> None:
    played = Played(commits=[EffectFailed("the disk is full")])
    review, _layer = reviewed(played, **{"changes.commit": "pre_approved"})

    with pytest.raises(EffectFailed, match="the disk is full"):
        await review.run()


async def test_people_are_not_asked_for_ever(reviewed: Reviewed) -> None:
    moved: list[CommittedChanges | Exception] = [
        CommittedChanges(committed=False, conflicts=("a: changed",)) for _ in range(MOST_ROUNDS)
    ]
    played = Played(commits=moved)
    review, _layer = reviewed(played)

    with pytest.raises(EffectFailed, match="not made"):
        await review.run()
    assert len(played.asked) == MOST_ROUNDS
