"""Steps for checks of values that come from outside: as many as one validation may take, for each task of the workflow.

Any number of signals and updates may come in one task, and a task that computes for two seconds is taken for one that
hangs.
"""

from __future__ import annotations

from temporalio import workflow

from llm_do_temporal.json_schema import Steps


class TaskSteps:
    """Steps for the checks of one kind of message."""

    def __init__(self) -> None:
        self._task = -1
        """Length of the history at the start of the task to which the steps belong; -1: there was no task."""
        self._steps = Steps()

    def of_this_task(self) -> Steps:
        """Return the steps that are left in this task."""
        task = workflow.info().get_current_history_length()
        if task != self._task:
            self._task, self._steps = task, Steps()
        return self._steps
