"""Failures change shape in one place, and lose nothing that somebody has to be told."""

from __future__ import annotations

import pytest
from pydantic_ai.exceptions import (
    ContentFilterError,
    IncompleteToolCall,
    ModelHTTPError,
    UnexpectedModelBehavior,
    UsageLimitExceeded,
    UserError,
)
from temporalio.exceptions import ApplicationError, CancelledError, FailureError, TerminatedError, TimeoutType
from temporalio.exceptions import TimeoutError as LateError

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
from llm_do_temporal.workflows.runtime.failures import as_failure, explain, explain_agent, spent_before
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
