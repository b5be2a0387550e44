"""Restrictions of authors' functions that run in workflow code: no clock, no chance, no files.

Workflow code of ours runs without the SDK's sandbox, which takes a third of a turn's processor time: import contracts
and replays of recorded histories hold it to what a replay can do again. An author's function has neither, so it runs
inside the sandbox's importer, one step after the other.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Any, TypeVar

from temporalio.worker.workflow_sandbox import SandboxRestrictions
from temporalio.worker.workflow_sandbox._importer import Importer
from temporalio.worker.workflow_sandbox._restrictions import RestrictionContext

T = TypeVar("T")

_RESTRICTIONS = SandboxRestrictions.default.with_passthrough_all_modules()
"""Libraries are those of the process, not loaded once a workflow; what they offer of clocks and chance is forbidden."""


class Restrictions:
    """Restrictions of the functions of one invocation.

    Code in them raises `RestrictedWorkflowAccessError` where it uses what gives something else on each replay.
    """

    def __init__(self) -> None:
        context = RestrictionContext()
        context.is_runtime = True
        self._importer = Importer(_RESTRICTIONS, context)

    @contextmanager
    def applied(self) -> Generator[None]:
        """Hold the code that runs in the block to the restrictions."""
        with self._importer.applied():
            yield

    def awaited(self, begin: Callable[[], Awaitable[T]]) -> Awaitable[T]:
        """Return an awaitable that begins and runs code under the restrictions, each of its steps for itself.

        Other code of the workflow that runs between the steps is not restricted.
        """
        return _Steps(self, begin)


class _Steps(Awaitable[T]):
    def __init__(self, restrictions: Restrictions, begin: Callable[[], Awaitable[T]]) -> None:
        self._restrictions = restrictions
        self._begin = begin

    def __await__(self) -> Generator[Any, Any, T]:
        with self._restrictions.applied():
            steps = self._begin().__await__()
        sent: Any = None
        raised: BaseException | None = None
        while True:
            try:
                with self._restrictions.applied():
                    waited = steps.send(sent) if raised is None else steps.throw(raised)
            except StopIteration as end:
                return end.value
            try:
                sent, raised = (yield waited), None
            except BaseException as error:
                sent, raised = None, error
