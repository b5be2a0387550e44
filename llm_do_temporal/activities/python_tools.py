"""Calls plain functions of the author's `tools.py`.

Owns the one activity that does so. It runs in a thread, with a loop of its own for an `async` function, so that a
function that blocks holds up nobody else. What the function raises is told to the model as a failed call, without
traceback or folders of the host. A file that is not the one that was pinned is not run at all.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import ApplicationError

from llm_do_temporal.activities.runtime.failures import user_errors
from llm_do_temporal.activities.runtime.threads import contained, is_interruption
from llm_do_temporal.callers import run_in_thread, working_for
from llm_do_temporal.definitions.tools.authors_code import PythonFile, importable
from llm_do_temporal.definitions.tools.python_functions import PythonFunction, as_json, explain_exception
from llm_do_temporal.definitions.tools.python_tools import load_function, read_source
from llm_do_temporal.errors import DefinitionError, EffectFailed
from llm_do_temporal.messages.activities import CALL_PYTHON_TOOL, CallPythonToolInput, PythonToolResult
from llm_do_temporal.messages.sizes import MAX_PYTHON_RESULT_BYTES
from llm_do_temporal.sandbox.os_errors import is_passing

_NEW_RUN = "Tell whoever started this run; a new run uses the file as it is now."


class PythonToolActivities:
    """The Python tools of one workshop."""

    def __init__(self, workshop: Path, client: Client) -> None:
        """`client` is the worker's: by it functions call workers."""
        self._root = workshop.resolve()
        self._client = client

    @activity.defn(name=CALL_PYTHON_TOOL.name)
    def call_python_tool(self, asked: CallPythonToolInput) -> PythonToolResult:
        """Call the function with these arguments, and return its result as JSON.

        Only a function marked idempotent is left to Temporal's retries, and only for errors that pass by themselves.
        """
        with user_errors():
            file = self._pinned_file(asked)
            try:
                function = load_function(file, asked.tool)
            except DefinitionError as error:
                raise EffectFailed(f"'{asked.tool}' cannot be called: {error}") from error
            with importable(file.root), working_for(asked.caller, self._client):
                return PythonToolResult(value=self._called(function, asked, file))

    def _pinned_file(self, asked: CallPythonToolInput) -> PythonFile:
        try:
            file = read_source(asked.source, root=self._root)
        except DefinitionError as error:
            raise EffectFailed(f"'{asked.tool}' cannot be called: {error}", next_step=_NEW_RUN) from error
        if file.sha256 != asked.sha256:
            raise EffectFailed(
                f"'{asked.tool}' cannot be called: '{asked.source}' has changed since this worker was loaded",
                next_step=_NEW_RUN,
            )
        return file

    def _called(self, function: PythonFunction, asked: CallPythonToolInput, file: PythonFile) -> Any:
        try:
            with contained():
                # Types of arguments may run the author's code as well.
                arguments = function.arguments(asked.args, key=asked.idempotency_key)
                made = function.call(**arguments)
                # A result may run the author's code where it is read.
                result = run_in_thread(_result_of(made)) if inspect.isawaitable(made) else made
                return as_json(result, most=MAX_PYTHON_RESULT_BYTES)
        except BaseException as error:
            if isinstance(error, EffectFailed) or is_interruption(error):
                raise
            words = without_host_folders(explain_exception(function.name, error), error, file.root)
            if function.idempotent and isinstance(error, OSError) and is_passing(error):
                raise ApplicationError(words, type=EffectFailed.__name__) from None
            raise EffectFailed(words) from error


def without_host_folders(words: str, error: BaseException, root: Path) -> str:
    """An error's words with the folders of this machine left out: a model must not learn them."""
    for name in (getattr(error, "filename", None), getattr(error, "filename2", None)):
        if isinstance(name, str) and Path(name).is_absolute() and not Path(name).is_relative_to(root):
            words = words.replace(name, Path(name).name)
    words = words.replace(f"{root}/", "")
    folders = {str(root), str(Path.home()), sys.prefix, sys.base_prefix}
    for folder in sorted(folders - {"/", "/usr"}, key=len, reverse=True):
        words = words.replace(folder, "…")
    return words


async def _result_of(made: Awaitable[Any]) -> Any:
    return await made
