"""Who calls, when a Python tool of a run calls a worker: read from the history of the invocation it works for.

Owns what a nested run takes over from its caller. Called by `call_worker`. Must not guess: outside an
activity of an invocation there is no caller.
"""

from __future__ import annotations

import hashlib
from collections import Counter, OrderedDict
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from temporalio import activity
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client

from llm_do_temporal.client.runs import LlmDoClient
from llm_do_temporal.messages import WORKER_WORKFLOW, InvokeWorkerInput, StartRunInput
from llm_do_temporal.policy.approvals import Mode
from llm_do_temporal.policy.delegation import check_depth
from llm_do_temporal.policy.models import ModelSources


@dataclass(frozen=True)
class CallerContext:
    """An invocation on whose behalf Python code runs."""

    run: str
    """Id of the calling run."""
    path: str
    """Position of the invocation in its run, like `main/evaluator-2`."""
    worker: str
    depth: int
    max_depth: int
    mode: Mode
    model: str
    """The invocation's effective model, as `provider:name`."""
    models: ModelSources
    client: LlmDoClient
    workshop: Path | None
    """The workshop that is served, where this process serves one."""
    scope: str
    """Names the activity: a second attempt of it has the same."""
    attempt: int

    def nested(self, request: StartRunInput) -> StartRunInput:
        """The request with everything that the caller hands down. Raises DepthExceeded."""
        depth = self.depth + 1
        check_depth(depth, self.max_depth, worker=request.worker)
        inherited = None if self.models.isolated else self.model
        return request.model_copy(
            update={
                "model": request.model or inherited,
                "force_model": self.models.force_model,
                "environment_model": self.models.environment_model,
                "mode": request.mode or self.mode,
                "started_by": f"run {self.run} ({self.path})",
                "depth": depth,
            }
        )

    def run_id(self, request: StartRunInput) -> str:
        """The id of the run that answers the next call with this request.

        It depends on the activity, the request and how often this attempt made it, and on nothing else, so
        when the tool is tried again it finds the run that it started before.
        """
        said = request.model_dump_json()
        number = _count(f"{self.scope}/{self.attempt}", said)
        facts = f"{self.scope}\n{number}\n{said}"
        return f"{self.run}.{request.worker.replace(':', '-')}-{hashlib.sha256(facts.encode()).hexdigest()[:10]}"


@dataclass(frozen=True)
class Service:
    """What a worker service in this process serves."""

    workshop: Path
    client: Client
    task_queue: str
    """Where runs are started."""


_MAX_ATTEMPTS = 1_000
"""Attempts whose calls are counted; far more than a process works on at a time."""
_calls: OrderedDict[str, Counter[str]] = OrderedDict()


def _count(attempt: str, said: str) -> int:
    """How often this attempt has made this very call, this one included."""
    calls = _calls.setdefault(attempt, Counter())
    _calls.move_to_end(attempt)
    if len(_calls) > _MAX_ATTEMPTS:
        _calls.popitem(last=False)
    calls[said] += 1
    return calls[said]


_services: dict[str, Service] = {}
"""By the task queues that they poll."""


def install_service(service: Service, polled: Iterable[str]) -> None:
    """Tell this process what it serves, and at which task queues. Called by the worker service before it polls."""
    for task_queue in polled:
        _services[task_queue] = service


async def current_caller() -> CallerContext | None:
    """The invocation whose Python tool this is; None anywhere else."""
    if not activity.in_activity():
        return None
    info = activity.info()
    service = _services.get(info.task_queue)
    if info.workflow_id is None or info.workflow_type != WORKER_WORKFLOW or service is None:
        return None
    handle = service.client.get_workflow_handle(info.workflow_id, run_id=info.workflow_run_id)
    async for event in handle.fetch_history_events(page_size=1):
        invocation = await _input(service.client, event)
        return CallerContext(
            run=invocation.run,
            path=invocation.path,
            worker=invocation.worker.name,
            depth=invocation.depth,
            max_depth=invocation.settings.max_depth,
            mode=invocation.settings.mode,
            model=invocation.model,
            models=invocation.settings.models,
            client=LlmDoClient(service.client, task_queue=service.task_queue),
            workshop=service.workshop,
            scope=f"{info.workflow_run_id}/{info.activity_id}",
            attempt=info.attempt,
        )
    return None


def asked_to_stop() -> bool:
    """Whether the tool is being cancelled because its run is, not because its worker service stops."""
    with suppress(RuntimeError):
        details = activity.cancellation_details()
        return details is not None and details.cancel_requested
    return False


async def _input(client: Client, event: HistoryEvent) -> InvokeWorkerInput:
    payloads = event.workflow_execution_started_event_attributes.input.payloads
    (given,) = await client.data_converter.decode(payloads, [InvokeWorkerInput])
    return InvokeWorkerInput.model_validate(given)
