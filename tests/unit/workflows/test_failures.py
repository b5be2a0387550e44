"""Failures change shape in one place, and lose nothing that somebody has to be told."""

from __future__ import annotations

from decimal import Decimal

import pytest
from pydantic_ai.exceptions import (
    ContentFilterError,
    IncompleteToolCall,
    ModelHTTPError,
    UnexpectedModelBehavior,
    UsageLimitExceeded,
    UserError,
)
from pydantic_ai.messages import ModelResponse
from pydantic_ai.usage import RequestUsage
from temporalio import workflow
from temporalio.exceptions import ApplicationError, CancelledError, FailureError, TerminatedError, TimeoutType
from temporalio.exceptions import TimeoutError as LateError
from temporalio.runtime import MetricBuffer, Runtime, TelemetryConfig

from llm_do_temporal.errors import (
    BudgetExceeded,
    DefinitionError,
    EffectFailed,
    LlmDoError,
    ModelFailed,
    RunFailed,
    SandboxRefusal,
)
from llm_do_temporal.messages.budget import Usage
from llm_do_temporal.messages.definitions import PinnedWorker
from llm_do_temporal.workflows.runtime.failures import as_failure, explain, explain_agent, spent_before
from llm_do_temporal.workflows.runtime.spans import COST, TOKENS, count_turn, is_generated, worker_label
from tests.support.workflow.activity_failures import activity_failed

TIMED_OUT = LateError("late", type=TimeoutType.HEARTBEAT, last_heartbeat_details=[])


def test_an_error_of_ours_comes_back_as_it_left() -> None:
    left = as_failure(DefinitionError("no instructions", next_step="Write some."))
    back = explain(activity_failed(left))
    assert isinstance(back, DefinitionError)
    assert (str(back), back.next_step) == ("no instructions", "Write some.")


@pytest.mark.parametrize(
    ("failure", "kind", "message"),
    [
        (activity_failed(ApplicationError("out", type="SandboxRefusal")), SandboxRefusal, "out"),
        # types and details that are not ours
        (activity_failed(ApplicationError("odd", type="Odd")), EffectFailed, "Odd: odd"),
        (activity_failed(ApplicationError("odd")), EffectFailed, "odd"),
        (activity_failed(ApplicationError("odd", "text", type="ModelFailed")), ModelFailed, "odd"),
        (activity_failed(ApplicationError("odd", {"next_step": 7}, type="ModelFailed")), ModelFailed, "odd"),
        (activity_failed(TIMED_OUT), EffectFailed, "it did not finish in time and was given up"),
        (activity_failed(CancelledError("stop")), RunFailed, "it was cancelled"),
        (activity_failed(TerminatedError("enough")), RunFailed, "it was terminated"),
        (FailureError("whatever"), RunFailed, "whatever"),
    ],
)
def test_what_a_failed_activity_means(failure: FailureError, kind: type[LlmDoError], message: str) -> None:
    found = explain(failure)
    assert type(found) is kind
    assert str(found) == message
    assert found.next_step is None


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (SandboxRefusal("out"), SandboxRefusal, "out"),
        (ModelHTTPError(401, "gpt", {"error": "key"}), ModelFailed, "the model request failed: "),
        (UnexpectedModelBehavior("odd"), ModelFailed, "the model's answers could not be used: odd"),
        (UsageLimitExceeded("too much"), BudgetExceeded, "too much"),
        (UserError("odd"), RunFailed, "odd"),
        # an activity that fails under the agent itself is a model turn
        (activity_failed(ApplicationError("odd", type="Odd")), ModelFailed, "the model turn failed: Odd: odd"),
        (activity_failed(ApplicationError("no key", type="ModelFailed")), ModelFailed, "no key"),
    ],
)
def test_what_ended_an_agent(error: Exception, kind: type[LlmDoError], message: str) -> None:
    found = explain_agent(error)
    assert type(found) is kind
    assert str(found).startswith(message)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ContentFilterError("Refusal: 'No.'", body="[1]"), "the model refused to answer: Refusal: 'No.'"),
        (ContentFilterError("x" * 1_000), f"the model refused to answer: {'x' * 500}"),
        (IncompleteToolCall("Token limit."), "the model's answer was cut off: Token limit."),
    ],
)
def test_an_answer_that_is_none_is_named(error: Exception, message: str) -> None:
    found = explain_agent(error)
    assert str(found) == message
    assert found.next_step


@pytest.mark.parametrize(
    ("error", "message"),
    [
        # some providers make whole JSON of what was cut off, so it fails as arguments that are wrong
        (UnexpectedModelBehavior("odd"), "the model's answer was cut off: odd"),
        (UsageLimitExceeded("too much"), "too much"),
    ],
)
def test_an_answer_that_was_cut_off_is_the_reason_for_what_it_led_to(error: Exception, message: str) -> None:
    assert str(explain_agent(error, cut_off=True)).startswith(message)


def test_a_failed_child_says_what_it_had_spent() -> None:
    spent = Usage(requests=2, tool_calls=1, input_tokens=30, output_tokens=4)
    error = RunFailed("ended")
    error.__cause__ = activity_failed(as_failure(ModelFailed("no"), spent))
    assert spent_before(error) == spent


@pytest.mark.parametrize(
    "cause", [None, CancelledError("stop"), ApplicationError("odd"), ApplicationError("o", {"usage": None})]
)
def test_a_child_that_cannot_say_has_spent_nothing_we_know_of(cause: Exception | None) -> None:
    error = RunFailed("ended")
    error.__cause__ = cause
    assert spent_before(error) == Usage()


MOST = 1_000_000_000


@pytest.mark.parametrize(
    ("source", "label"),
    [
        ("workers/main.worker", "main"),
        ("pkg:main", "main"),
        ("workers/generated-ones/main.worker", "main"),
        # A model calls what it makes as it likes, and makes as many as it likes.
        ("workers/generated/main.worker", "workers/generated"),
    ],
)
def test_only_names_that_people_gave_are_labels(source: str, label: str) -> None:
    worker = PinnedWorker(name="main", source=source, sha256="0", instructions="")
    assert worker_label(worker.name, generated=is_generated(worker)) == label


@pytest.mark.parametrize(
    ("said", "counted"),
    [((7, 2, Decimal("0.5")), (7, 2, 0.5)), ((-1, 2**70, Decimal(-1)), (0, MOST, 0)), ((1, 1, None), (1, 1, None))],
)
def test_a_turn_is_counted_as_far_as_it_can_be(
    said: tuple[int, int, Decimal | None], counted: tuple[int, int, float | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = MetricBuffer(100)
    runtime = Runtime(telemetry=TelemetryConfig(metrics=told))
    monkeypatch.setattr(workflow, "metric_meter", lambda: runtime.metric_meter)
    usage = RequestUsage(input_tokens=said[0], output_tokens=said[1], cost=said[2])
    count_turn(ModelResponse(parts=[], usage=usage), worker="main", model="openai:m")
    found = [(one.metric.name, one.attributes.get("direction"), one.value) for one in told.retrieve_updates()]
    tokens = [(TOKENS, "input", counted[0]), (TOKENS, "output", counted[1])]
    assert [one for one in found if one[0] in (TOKENS, COST)] == [
        *tokens,
        *([] if counted[2] is None else [(COST, None, counted[2])]),
    ]
