"""The Nexus service `llm-do`: `run`, `pending` and `decide`, for the endpoints that an operator names.

A thin translation, on the worker service. Temporal itself says which namespaces may use an endpoint; whoever calls is
known by the endpoint's name, as a program. A decision is the word of a person whom the caller names.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Generator
from contextlib import contextmanager
from typing import Annotated, Any

from nexusrpc import HandlerError, HandlerErrorType, Operation, service
from nexusrpc.handler import StartOperationContext, service_handler, sync_operation
from pydantic import AfterValidator, Field
from temporalio import nexus
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError

from llm_do_temporal.client.client import start_options
from llm_do_temporal.doors.principal import NEXUS_PREFIX, Principal, TokenScope, check_named_person
from llm_do_temporal.doors.service import DoorService
from llm_do_temporal.doors.values import (
    MAX_NOTE_CHARS,
    MAX_QUESTION_ID_CHARS,
    Answer,
    AskedQuestion,
    Failure,
    RequestBody,
    Start,
)
from llm_do_temporal.errors import AccessRefused, DecisionRefused, LlmDoError, UnknownHere
from llm_do_temporal.messages.approvals import PROGRAM, DecisionKind
from llm_do_temporal.messages.base import RUN_WORKFLOW, Message
from llm_do_temporal.messages.runs import RunResult
from llm_do_temporal.redaction.hidden_characters import made_visible

VIA = "nexus"
SERVICE = "llm-do"
_ERRORS: tuple[tuple[type[LlmDoError], HandlerErrorType], ...] = (
    (UnknownHere, HandlerErrorType.NOT_FOUND),
    (AccessRefused, HandlerErrorType.UNAUTHORIZED),
    (DecisionRefused, HandlerErrorType.CONFLICT),
)
_PASSING = (HandlerError, RPCError, ConnectionError, TimeoutError)
"""Errors that are told already, or that may be over at the next try."""
_log = logging.getLogger(__name__)


def _plain(name: str) -> str:
    if made_visible(name, keep="") != name:
        raise ValueError("it has characters that nobody sees")
    return name


PlainName = Annotated[str, AfterValidator(_plain)]
"""Name that shows as it is."""


class NamedRun(Message):
    """Run about which a caller asks."""

    run: str = Field(min_length=1)
    """Name that the caller gave it."""


class PersonsAnswer(RequestBody):
    """Decision of a person about this one call, handed on by a workflow."""

    decision: DecisionKind
    args: dict[str, Any] | None = None
    """The new arguments, for `modify`."""
    note: str = Field(default="", max_length=MAX_NOTE_CHARS)
    """Reason that the model is told, for `reject`."""
    run: str = Field(min_length=1)
    question: str = Field(min_length=1, max_length=MAX_QUESTION_ID_CHARS)
    digest: str
    """Digest of what the person saw."""
    by: PlainName = Field(min_length=1, max_length=100)
    """Name of the person."""


class NamedStart(Start):
    """A run to be started, under an id that its caller can ask about."""

    run: PlainName = Field(default="", max_length=100, pattern=r"^[^/]*$")
    """Name by which the caller asks about the run; its id is `nexus-ENDPOINT:NAME`. Empty: made from the request."""


@service(name=SERVICE)
class LlmDo:
    """Contract of the service, for callers that have this package; others name the operations."""

    run: Operation[NamedStart, RunResult]
    """Runs a worker to its end. The result of the operation is the result of the run."""
    pending: Operation[NamedRun, list[AskedQuestion]]
    """Returns what a run asks people at this moment."""
    decide: Operation[PersonsAnswer, AskedQuestion]
    """Hands on the decision of a person; the first answer of all doors wins."""


@service_handler(service=LlmDo)
class LlmDoHandler:
    """Handler of the service's operations on a worker."""

    def __init__(self, doors: DoorService, endpoints: Collection[str], *, sets_attributes: bool = True) -> None:
        """Answer those who call through one of these endpoints, and nobody else.

        `sets_attributes` says whether the namespace knows our search attributes.
        """
        self._doors = doors
        self._endpoints = frozenset(endpoints)
        self._sets_attributes = sets_attributes

    @nexus.workflow_run_operation
    async def run(self, ctx: nexus.WorkflowRunOperationContext, given: NamedStart) -> nexus.WorkflowHandle[RunResult]:
        """Start the run; one request starts one, however often it is tried."""
        who = self._caller()
        with _refusals():
            start = Start.model_validate(given.model_dump(exclude={"run"}))
            prepared = await self._doors.prepare(who, start, [])
            run = _run_id(who, given.run or ctx.request_id)
            options = start_options(prepared, run, sets_attributes=self._sets_attributes)
            queue = self._doors.client.task_queue
            return await ctx.start_workflow(
                RUN_WORKFLOW, prepared, id=run, task_queue=queue, result_type=RunResult, **options
            )

    @sync_operation
    async def pending(self, _ctx: StartOperationContext, given: NamedRun) -> list[AskedQuestion]:
        """Return the questions of a run that wait."""
        who = self._caller()
        with _refusals():
            return await self._doors.questions(who, _run_id(who, given.run))

    @sync_operation
    async def decide(self, _ctx: StartOperationContext, given: PersonsAnswer) -> AskedQuestion:
        """Take the decision of the person whom the caller names, in a run that it started."""
        who = self._caller()
        answer = Answer(decision=given.decision, args=given.args, note=given.note)
        with _refusals():
            check_named_person(who, given.by)
            decider = Principal(given.by, frozenset({TokenScope.DECIDE, TokenScope.READ}), is_person=True, via=VIA)
            run = _run_id(who, given.run)
            await self._doors.run(who, run)
            return await self._doors.decide(decider, run, given.question, answer, digest=given.digest)

    def _caller(self) -> Principal:
        """Return who calls: the endpoint. Raises HandlerError for one that the operator has not named."""
        endpoint = nexus.info().endpoint
        if endpoint not in self._endpoints:
            raise HandlerError("this endpoint is not served", type=HandlerErrorType.NOT_FOUND)
        return Principal.program(f"{NEXUS_PREFIX}{endpoint}", (TokenScope.START, TokenScope.READ), VIA)


def _run_id(who: Principal, name: str) -> str:
    """Return the id of the run that a caller calls so. Names of endpoints have no colon."""
    return f"{who.name.removeprefix(PROGRAM)}:{name}"


@contextmanager
def _refusals() -> Generator[None]:
    """Tell the caller in words what goes wrong; what a further try would not change is not tried again."""
    try:
        yield
    except LlmDoError as error:
        raise _refused(error) from error
    except WorkflowAlreadyStartedError:
        told = "a run of this name was started before: use another name"
        raise HandlerError(told, type=HandlerErrorType.CONFLICT, retryable_override=False) from None
    except _PASSING:
        raise
    except Exception:
        _log.exception("an operation of the service '%s' failed", SERVICE)
        told = "the service failed at this call; its log says at what"
        raise HandlerError(told, type=HandlerErrorType.INTERNAL, retryable_override=False) from None


def _refused(error: LlmDoError) -> HandlerError:
    kind = next((kind for known, kind in _ERRORS if isinstance(error, known)), HandlerErrorType.BAD_REQUEST)
    return HandlerError(Failure.of(error).message, type=kind, retryable_override=False)
