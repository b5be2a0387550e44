"""Checks of an agent's structured output: its worker's schema here, validators of the author's class in an activity."""

from __future__ import annotations

from typing import Any, cast

from pydantic_ai import ModelRetry
from temporalio.exceptions import FailureError

from llm_do_temporal.errors import DefinitionError
from llm_do_temporal.json_schema import UnusableSchema, find_problems
from llm_do_temporal.messages.activities import CHECK_OUTPUT, CheckedOutput, CheckOutputInput
from llm_do_temporal.messages.runs import InvokeWorkerInput
from llm_do_temporal.policy.models import CUT, cut_words
from llm_do_temporal.workflows.runtime.activities import run_local_first
from llm_do_temporal.workflows.runtime.failures import explain

_MOST_PROBLEMS = 8


async def checked_output(invocation: InvokeWorkerInput, output: Any) -> Any:
    """Return the output, as the class makes it where its worker names one with validators.

    Raises ModelRetry with the problems of an output that does not fit, and DefinitionError where the schema cannot be
    used or the author's code breaks.
    """
    schema = invocation.worker.output_schema
    if schema is None:
        return output
    reason = _marked(output, CUT)
    if reason is not None:
        raise ModelRetry(f"{cut_words(reason).capitalize()} within the result. Give it again, shorter.")
    _hold_against(schema, output, invocation.worker.name)
    if invocation.worker.output_ref is None:
        return output
    checked = await _by_class(invocation, invocation.worker.output_ref, output)
    if checked.problems:
        raise ModelRetry(f"The result is not valid: {'; '.join(checked.problems)}")
    # The class may write values in a form that its own schema does not describe; callers rely on the schema.
    return output if find_problems(schema, checked.value) else checked.value


def _marked(output: Any, mark: str) -> Any:
    """Return the value of a key that stands for arguments which were not kept; None: it is not there."""
    return cast("dict[str, Any]", output).get(mark) if isinstance(output, dict) else None


def _hold_against(schema: dict[str, Any], output: Any, worker: str) -> None:
    try:
        problems = find_problems(schema, output)
    except UnusableSchema as error:
        # A schema can be valid and still be of no use: a pattern that is refused, a reference that leads nowhere.
        raise DefinitionError(f"the output schema of worker '{worker}' cannot be used: {error}") from error
    if problems:
        raise ModelRetry(f"The result does not fit its schema: {'; '.join(problems[:_MOST_PROBLEMS])}")


async def _by_class(invocation: InvokeWorkerInput, reference: str, output: Any) -> CheckedOutput:
    worker, template = invocation.worker, invocation.template
    name = worker.source if worker.source.startswith("pkg:") else worker.name
    request = CheckOutputInput(
        worker=name if template is None else template.name,
        is_template=template is not None,
        reference=reference,
        value=output,
    )
    try:
        return await run_local_first(CHECK_OUTPUT, request, summary=f"check the result of {worker.name}")
    except FailureError as failure:
        raise explain(failure) from failure
