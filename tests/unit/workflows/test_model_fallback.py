"""Which model is asked when one fails."""

from __future__ import annotations

import pytest
from temporalio.exceptions import ApplicationError

from llm_do_temporal.errors import ModelFailed
from llm_do_temporal.messages.conversation import OTHER_MODEL
from llm_do_temporal.messages.definitions import PinnedWorker, RunSettings, Turns
from llm_do_temporal.messages.runs import InvokeWorkerInput
from llm_do_temporal.policy.approvals import ApprovalRules, Mode
from llm_do_temporal.policy.files.sandbox import Tree
from llm_do_temporal.policy.models import ModelAlias, ModelSources
from llm_do_temporal.policy.queues import Queues
from llm_do_temporal.workflows.invocation.model_fallback import MOST_HANDOVERS, MOST_TRIES, FallbackChain
from tests.support.workflow.activity_failures import activity_failed
from tests.support.workflow.fake_workflow import FakeWorkflow

ALIASES = {"cool": ModelAlias(model="p:b", settings={"temperature": 0})}


def chain(
    model: str, queues: Queues | None = None, *, own: Turns | None = None, others: Turns | None = None
) -> FallbackChain:
    settings = RunSettings(
        mode=Mode.STRICT,
        rules=ApprovalRules(),
        models=ModelSources(aliases=ALIASES),
        model_settings={"seed": 1},
        queues=queues or Queues(),
        turns=others,
    )
    worker = PinnedWorker(name="w", source="w", sha256="", description="", instructions="", turns=own)
    return FallbackChain(
        InvokeWorkerInput(run="r", path="main", depth=0, worker=worker, settings=settings, tree=Tree(), model=model)
    )


def failure(other: str | None, message: str = "no") -> ApplicationError:
    details = {"code": "ModelFailed", "next_step": "Wait.", **({} if other is None else {OTHER_MODEL: other})}
    return ApplicationError(message, details, type="ModelFailed", non_retryable=True)


def test_one_model_is_asked_until_it_answers() -> None:
    alone = chain("p:a")
    assert alone.tries is None
    for other in ("meanwhile", "instead", None, "unheard of"):
        assert not alone.fall_back(failure(other))
    assert alone.serving_id == "p:a"


@pytest.mark.parametrize(
    ("failures", "asked"),
    [
        (["meanwhile"], "p:b"),
        (["meanwhile", "meanwhile"], "p:c"),
        # after the last comes the first
        (["meanwhile"] * 3, "p:a"),
        # but none that would fail again
        (["instead", "meanwhile", "meanwhile"], "p:b"),
        (["meanwhile", "instead", "meanwhile"], "p:a"),
        (["meanwhile", "meanwhile", "instead"], "p:a"),
    ],
)
def test_the_next_takes_over(failures: list[str], asked: str) -> None:
    models = chain("p:a,p:b,p:c")
    assert all(models.fall_back(failure(other)) for other in failures)
    assert models.current == asked
    models.begin_turn()
    assert (models.current, models.handovers) == ("p:a", 0)


def test_what_no_model_can_mend_stays_as_it_is() -> None:
    models = chain("p:a,p:b")
    assert not models.fall_back(failure(None))
    assert models.current == "p:a"


def test_the_last_one_left_is_asked_without_end_and_its_end_is_everybodys() -> None:
    models = chain("p:a,p:b")
    assert models.fall_back(failure("instead", "a has no key"))
    assert models.tries is None
    with pytest.raises(ModelFailed, match="no model is left: a has no key; b has no quota") as failed:
        models.fall_back(failure("instead", "b has no quota"))
    assert failed.value.next_step == "Wait."


def test_each_round_is_more_patient_than_the_one_before() -> None:
    models = chain("p:a,p:b")
    tries: list[int] = []
    while models.tries is not None:
        tries.append(models.tries)
        assert models.fall_back(failure("meanwhile"))
    assert tries[:8] == [2, 2, 4, 4, 8, 8, 16, 16]
    assert max(tries) == MOST_TRIES
    assert len(tries) == MOST_HANDOVERS


def test_each_model_has_its_own_name_and_settings() -> None:
    models = chain("p:a,cool")
    assert (models.serving_id, models.shown, models.settings) == ("p:a", "p:a", {"seed": 1})
    models.fall_back(failure("meanwhile"))
    assert (models.serving_id, models.shown, models.settings) == (
        "p:b",
        "cool (p:b)",
        {"temperature": 0, "seed": 1},
    )


def test_a_failed_activity_is_judged_by_its_cause() -> None:
    models = chain("p:a,p:b")
    assert models.fall_back(activity_failed(failure("meanwhile")))
    assert models.current == "p:b"
    assert not models.fall_back(activity_failed(failure(None)))
    assert (models.current, models.handovers) == ("p:b", 1)


def test_a_new_turn_asks_again_those_that_failed_and_forgets_their_failures() -> None:
    models = chain("p:a,p:b,p:c")
    assert models.fall_back(failure("instead", "a has no key"))
    assert models.fall_back(failure("instead", "b has no key"))
    assert (models.current, models.tries) == ("p:c", None)
    models.begin_turn()
    assert models.tries == 2
    asked: list[str] = []
    for _ in range(2):
        asked.append(models.current)
        assert models.fall_back(failure("instead", "no quota"))
    with pytest.raises(ModelFailed, match=r"^no model is left: no quota$"):
        models.fall_back(failure("instead", "no quota"))
    assert [*asked, models.current] == ["p:a", "p:b", "p:c"]


def test_the_end_of_the_chain_names_each_failure_once_the_passing_ones_too() -> None:
    models = chain("p:a,p:b")
    for message in ("a is busy", "b is busy", "a is busy"):
        assert models.fall_back(failure("meanwhile", message))
    assert models.fall_back(failure("instead", "b has no key"))
    last = failure("instead", "a has no key")
    with pytest.raises(ModelFailed, match=r"left: a is busy; b is busy; b has no key; a has no key$") as failed:
        models.fall_back(last)
    assert failed.value.__cause__ is last


def test_each_model_has_its_own_queue(fake_workflow: FakeWorkflow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fake_workflow.info, "task_queue", "q", raising=False)
    models = chain("o:a,cool", Queues(models=("p",)))
    assert models.queue is None
    models.fall_back(failure("meanwhile"))
    assert models.queue == "q.models.p"


def test_a_summary_names_the_asked_model_for_people() -> None:
    models = chain("cool,p:c")
    assert models.as_shown(f"ask {models.serving_id}") == "ask cool (p:b)"


@pytest.mark.parametrize(
    ("own", "others", "batched"),
    [
        (None, None, False),
        (None, "batch", True),
        ("batch", None, True),
        # a worker's own word holds
        ("now", "batch", False),
        ("batch", "now", True),
    ],
)
def test_the_worker_or_else_the_run_says_how_its_model_is_asked(
    own: Turns | None, others: Turns | None, batched: bool
) -> None:
    assert chain("p:a", own=own, others=others).batched is batched
