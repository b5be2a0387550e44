"""Checks of what a model gives: its structured output, and its calls, which it may correct so often.

A call that stays wrong fails, and the model goes on. An invocation ends only where its model does nothing else.
"""

from __future__ import annotations

from typing import Any, cast

from pydantic_ai import ModelRetry, RunContext, ToolFailed
from pydantic_ai.messages import ModelResponse, ToolCallPart
from pydantic_core import ValidationError, from_json
from temporalio.exceptions import FailureError

from llm_do_temporal.errors import DefinitionError, ModelFailed
from llm_do_temporal.json_schema import UnusableSchema, find_problems
from llm_do_temporal.messages.activities import CHECK_OUTPUT, CheckOutputInput
from llm_do_temporal.messages.runs import InvokeWorkerInput
from llm_do_temporal.policy.models import CUT, cut_reason, cut_words
from llm_do_temporal.workflows.runtime.activities import run_local_first
from llm_do_temporal.workflows.runtime.failures import explain

_MOST_PROBLEMS = 8


async def checked_output(invocation: InvokeWorkerInput, output: Any) -> Any:
    """Return the output, as the class makes it where its worker names one with validators.

    Raises ModelRetry with the problems of an output that does not fit, and DefinitionError where the schema cannot be
    used or the author's code breaks.
    """
    worker, template = invocation.worker, invocation.template
    schema = worker.output_schema
    if schema is None:
        return output
    given: object = output
    reason = cast("dict[str, Any]", given).get(CUT) if isinstance(given, dict) else None
    if reason is not None:
        raise ModelRetry(f"{cut_words(reason).capitalize()} within the result. Give it again, shorter.")
    try:
        problems = find_problems(schema, output)
    except UnusableSchema as error:
        # A schema can be valid and still be of no use: a pattern that is refused, a reference that leads nowhere.
        raise DefinitionError(f"the output schema of worker '{worker.name}' cannot be used: {error}") from error
    if problems:
        raise ModelRetry(f"The result does not fit its schema: {'; '.join(problems[:_MOST_PROBLEMS])}")
    if worker.output_ref is None:
        return output
    name = worker.source if worker.source.startswith("pkg:") else worker.name
    request = CheckOutputInput(
        worker=name if template is None else template.name,
        is_template=template is not None,
        reference=worker.output_ref,
        value=output,
    )
    try:
        checked = await run_local_first(CHECK_OUTPUT, request, summary=f"check the result of {worker.name}")
    except FailureError as failure:
        raise explain(failure) from failure
    if checked.problems:
        raise ModelRetry(f"The result is not valid: {'; '.join(checked.problems)}")
    # The class may write values in a form that its own schema does not describe; callers rely on the schema.
    return output if find_problems(schema, checked.value) else checked.value


TOOL_RETRIES = 3
"""Largest number of times in a row that a model is asked to correct its call of one tool."""
MOST_CUT_CALLS = 3
"""Largest number of answers in a row that are cut within a call: the next one has the same limit."""
MOST_USELESS_ANSWERS = 20
"""Largest number of answers in a row whose calls are all wrong."""


class Slips:
    """Wrong calls of one invocation's model so far, in a row."""

    def __init__(self) -> None:
        self._cut = self._useless = 0
        self._called = False

    def check(self, *, has_accepted: bool) -> None:
        """Raise ModelFailed before a turn where the model does nothing but wrong calls.

        `has_accepted`: arguments of a call of the newest answer were accepted.
        """
        if self._called:
            self._useless = 0 if has_accepted else self._useless + 1
        self._called = False
        if self._useless >= MOST_USELESS_ANSWERS:
            raise ModelFailed(
                f"the calls of the model's last {self._useless} answers were all wrong, so it was not asked again",
                next_step="See the answers with `show`, and choose another model or describe the tools otherwise.",
            )

    def take(self, response: ModelResponse) -> None:
        """Take in the next answer. Raises ModelFailed where it and those before it were cut within a call."""
        self._called = bool(response.tool_calls)
        self._cut = self._cut + 1 if any(is_cut(call) for call in response.tool_calls) else 0
        if self._cut > MOST_CUT_CALLS:
            raise ModelFailed(
                f"the model's answer was cut off: {cut_words(cut_reason(response.finish_reason))} "
                f"within a call, {self._cut} times in a row",
                next_step="Set a larger `max_tokens` in `model_settings`, or have it answer in smaller parts.",
            )


def is_cut(call: ToolCallPart) -> bool:
    """Whether the answer was cut within the call."""
    return isinstance(call.args, dict) and CUT in call.args


def failed_if_used_up(context: RunContext[Any], problem: str) -> None:
    """Raise ToolFailed where the model may not correct the call once more."""
    if context.retry < context.max_retries:
        return
    raise ToolFailed(
        f"{problem}\nThis was wrong {context.retry + 1} times in a row. Do it in another way, or go on without it."
    )


def read_again(args: str | dict[str, Any], error: ValidationError | ModelRetry) -> dict[str, Any]:
    """Return arguments that are a JSON object written as a text within JSON. Raises the error for all others."""
    inner: Any = None
    try:
        outer = from_json(args) if isinstance(args, str) else None
        inner = from_json(outer, allow_inf_nan=False) if isinstance(outer, str) else None
    except ValueError:
        raise error from None
    if not isinstance(inner, dict):
        raise error
    return cast("dict[str, Any]", inner)


def words_of(error: ValidationError | ModelRetry) -> str:
    """Return what an error says, without an address."""
    if isinstance(error, ModelRetry):
        return error.message
    problems = error.errors(include_url=False, include_context=False, include_input=False)[:5]
    return f"The arguments are not valid: {'; '.join(problem['msg'] for problem in problems)}"
