"""Stand-ins for the activities that need the workshop's files, where another worker service has those."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from llm_do_temporal.messages.activities import ActivityRef
from llm_do_temporal.messages.base import FILES_ELSEWHERE


def stand_in(missing: ActivityRef[Any, Any]) -> Callable[..., Any]:
    """Return an activity with the name of the missing one, which fails with FILES_ELSEWHERE.

    Workflows then go to the queue of the files. Without it one that began where the files were could not even be
    replayed: the SDK does not let a local activity begin that it does not know.
    """

    @activity.defn(name=missing.name)
    async def fail(_request: Any) -> None:
        raise ApplicationError(
            "the files of the workshop are elsewhere",
            type=FILES_ELSEWHERE,
            non_retryable=True,
            category=ApplicationErrorCategory.BENIGN,  # nothing to be logged
        )

    return fail
