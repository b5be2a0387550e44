"""Python functions that evaluate cases. They run in a thread, as the functions of `tools.py` do.

What a function raises is a failure of the evaluator, and no score.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

from llm_do_temporal.activities.python_tools import without_host_folders
from llm_do_temporal.activities.runtime.threads import contained, is_interruption
from llm_do_temporal.callers import run_in_thread
from llm_do_temporal.definitions.tools.python_functions import describe_exception
from llm_do_temporal.definitions.tools.python_modules import importable
from llm_do_temporal.definitions.tools.python_tools import evaluator_source, load_callable
from llm_do_temporal.errors import DefinitionError
from llm_do_temporal.policy.evaluations.evaluators import Python
from llm_do_temporal.policy.evaluations.facts import CaseFacts
from llm_do_temporal.policy.evaluations.judgement import failed, python_scores
from llm_do_temporal.policy.evaluations.scores import CaseScores
from llm_do_temporal.policy.evaluations.spec import EvaluationCase


def python_score(evaluator: Python, case: EvaluationCase, facts: CaseFacts, root: Path) -> CaseScores:
    """Return what the function says of a case.

    It is called with the facts as a dictionary, in which the case is as `case`, and with the evaluator's arguments.
    """
    given = {**facts.model_dump(mode="json"), "case": _case(case)}
    try:
        with importable(root):
            name = evaluator.function.rpartition(":")[2].rpartition(".")[2]
            function = load_callable(evaluator_source(evaluator.function, root=root), name)
            with contained():
                made = function(given, **evaluator.arguments)
                returned = run_in_thread(_result_of(made)) if inspect.isawaitable(made) else made
        return python_scores(evaluator, returned)
    except DefinitionError as error:
        return failed(evaluator.metric, str(error))
    except BaseException as error:
        if is_interruption(error):
            raise
        words = without_host_folders(describe_exception(error), error, root)
        return failed(evaluator.metric, f"'{evaluator.function}' failed: {words}")


def _case(case: EvaluationCase) -> dict[str, Any]:
    """Return the case as a dictionary with the keys of the evaluation file, beside our own names for them."""
    inputs = case.prompt if case.input is None else case.input
    return {**case.model_dump(mode="json"), "name": case.id, "inputs": inputs, "expected_output": case.expected}


async def _result_of(made: Awaitable[Any]) -> Any:
    return await made
