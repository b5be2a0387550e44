"""Values that doors take and give, as JSON, the same at every door: starts, runs, files, questions and decisions.

Models only; `doors.service` fills them. The words below their fields stand in the OpenAPI document and on its page.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Annotated, Any, Literal, Self, cast

from pydantic import (
    AfterValidator,
    AwareDatetime,
    Base64Encoder,
    ConfigDict,
    EncodedBytes,
    Field,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    field_validator,
    model_validator,
)

from llm_do_temporal.client import Question, RunSummary
from llm_do_temporal.client.question_document import State, document_of
from llm_do_temporal.errors import BlobsUnreachable, KeyMismatch, LlmDoError, UsageError
from llm_do_temporal.messages.approvals import Decision, DecisionKind, Remember
from llm_do_temporal.messages.base import Json, Message, Strict, check_json
from llm_do_temporal.messages.budget import Usage
from llm_do_temporal.messages.definitions import ReviewMode
from llm_do_temporal.messages.runs import DEFAULT_CONCURRENCY, MAX_CONCURRENCY, ItemCounts, RunResult
from llm_do_temporal.policy.approvals import Mode
from llm_do_temporal.policy.budget import Limits
from llm_do_temporal.policy.kinds.kind import KindGrant
from llm_do_temporal.policy.models import CutReason
from llm_do_temporal.policy.run_filter import STATES
from llm_do_temporal.redaction.configured_keys import without_keys
from llm_do_temporal.redaction.hidden_characters import made_visible

_MAX_MISTAKES = 20
_MAX_MISTAKE_CHARS = 4_000


class ResponseValue(Message):
    """Value of a response, or a part of one."""

    model_config = ConfigDict(use_attribute_docstrings=True)


class RequestValue(Strict):
    """Value of a request, or a part of one; an unknown field is a mistake."""

    model_config = ConfigDict(use_attribute_docstrings=True)


class RequestBody(RequestValue):
    """Body of a request: all of it is JSON that everybody reads alike."""

    @model_validator(mode="before")
    @classmethod
    def _check_json(cls, value: Any) -> Any:
        check_json(value)
        return value

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """Return the value that a program describes. Raises UsageError, which says what is wrong with it."""
        try:
            return cls.model_validate(given)
        except ValidationError as error:
            raise UsageError(mistakes_in(error.errors())) from None


def mistakes_in(mistakes: Iterable[Mapping[str, Any]]) -> str:
    """Return what is wrong with a value that a program has sent, place by place, and none of the value itself."""
    told = [f"{'.'.join(map(str, one['loc']))}: {_mistake(one)}" for one in islice(mistakes, _MAX_MISTAKES)]
    return "; ".join(told)[:_MAX_MISTAKE_CHARS]


def _mistake(told: Mapping[str, Any]) -> str:
    return f"{told['msg']}: {told['ctx']['error']}" if told["type"] == "json_invalid" else told["msg"]


MAX_KEY_CHARS = 200
"""Longest idempotency key, in characters."""
MAX_QUESTION_ID_CHARS = 40
"""Longest id of a question."""
MAX_NOTE_CHARS = 10_000
"""Longest reason of a decision, in characters."""
MAX_FILES = 100
"""Most files of one start, or of one item of a batch."""
_MAX_NAME_BYTES = 255
"""Longest name that file systems take."""


def _check_bytes(name: str) -> str:
    if len(name.encode(errors="replace")) > _MAX_NAME_BYTES:
        raise ValueError(f"it has more than {_MAX_NAME_BYTES} bytes in UTF-8")
    return name


FileName = Annotated[
    str, Field(min_length=1, max_length=200, pattern=r"^[^/\\\x00-\x1f\x7f]+$"), AfterValidator(_check_bytes)
]
RunState = Literal["running", "waiting", "completed", "failed", "cancelled", "terminated", "timed out"]


class PlainBase64(Base64Encoder):
    """Base64 of RFC 4648, section 4, in the one spelling that these bytes have."""

    @classmethod
    def decode(cls, data: bytes) -> bytes:
        """Return the bytes. Raises ValueError for any other spelling: Python's reader drops what it does not know."""
        found = base64.b64decode(data, validate=True)
        if base64.b64encode(found) != data:
            raise ValueError("there are other characters after its end")
        return found


class SentFile(RequestValue):
    """File that is attached."""

    name: FileName
    """Name without folders."""
    content: Annotated[bytes, EncodedBytes(encoder=PlainBase64)]
    """Bytes in base64 (RFC 4648, section 4), without line breaks."""

    @field_validator("content", mode="wrap")
    @classmethod
    def _of_this_file(cls, content: object, read: ValidatorFunctionWrapHandler, info: ValidationInfo) -> bytes:
        try:
            return read(content)
        except ValueError:
            if not isinstance(content, str | bytes):
                raise
            name = str(info.data.get("name", ""))[:80]
            raise ValueError(
                f"the content of {name!a} is not base64 (RFC 4648, section 4, without line breaks)"
            ) from None


class SentItem(RequestValue):
    """Item of a batch: the worker runs once for each."""

    name: FileName
    """Name of the item for people."""
    prompt: str = ""
    """Text that is told after the start's own prompt."""
    input: Json = None
    """Input that is used instead of the start's."""
    attachments: Annotated[tuple[SentFile, ...], Field(max_length=MAX_FILES)] = ()
    """Files besides those of the start."""


class Start(RequestBody):
    """A run to be started."""

    worker: str = Field(min_length=1, max_length=500)
    """Name of the worker, or path of the template."""
    prompt: str = ""
    """Task in words."""
    input: Json = None
    """Structured input of a worker with `schema_in_ref`."""
    params: dict[str, str | int | float | bool] = Field(default_factory=dict)
    """Values for the parameters of a template."""
    attachments: Annotated[tuple[SentFile, ...], Field(max_length=MAX_FILES)] = ()
    """Files to attach; the worker's policy holds for them."""
    model: str | None = None
    """Model of workers that name none; null: as the workshop says."""
    mode: Mode | None = None
    """Treatment of calls that need approval; null: as the workshop says. A program may say `strict` alone."""
    limits: Limits | None = None
    """Limits of the run instead of the workshop's; not for programs."""
    review: ReviewMode | None = None
    """`changes` to review all changes of files together; null: as the workshop and the worker say."""
    items: Annotated[tuple[SentItem, ...], Field(max_length=10_000)] = ()
    """Items of a batch; none for a single run."""
    concurrency: int = Field(default=DEFAULT_CONCURRENCY, ge=1, le=MAX_CONCURRENCY)
    """Items that are worked on at once."""


class KeyedStart(Start):
    """A start that is one run, however often it is sent with its key."""

    key: str | None = Field(default=None, min_length=1, max_length=MAX_KEY_CHARS)
    """Any text of the program's."""


class RunsQuery(RequestValue):
    """Runs to be listed; what is empty leaves out none."""

    state: str = Field(default="", json_schema_extra={"enum": ["", *STATES]})
    """State of the runs."""
    worker: str = ""
    """Name of the entry worker."""
    who: str = ""
    """Name of whoever has started it."""
    since: str = ""
    """Moment since which it has begun: a time like `2026-11-01T08:30` (UTC), or an age like `7d`."""
    until: str = ""
    """Moment until which it has begun: a time like `2026-11-01T08:30` (UTC), or an age like `7d`."""
    text: str = Field(default="", max_length=200)
    """Words in the task or the id."""
    begins: str = ""
    """Prefix of the id."""
    schedule: str = Field(default="", max_length=200)
    """Name of the schedule that has started it."""
    evaluations: bool = False
    """Whether runs that evaluations have started, of their cases and judges, are listed, too."""
    page: str = ""
    """`following` of the page before."""


class Worker(ResponseValue):
    """Worker that can be started."""

    name: str
    description: str
    input_schema: dict[str, Any] | None
    """JSON Schema of its structured input; null: it takes any."""
    takes_files: bool
    """Whether files may be attached."""


class Failure(ResponseValue):
    """Reason why something did not work."""

    code: str
    """Name of the error, as in the reference of errors."""
    message: str
    next_step: str | None = None
    """Advice on what to do about it."""

    @classmethod
    def of(cls, error: LlmDoError) -> Failure:
        """Return the error without configured API keys; of a missing encryption key only its id.

        Where the blob store is, no program is told.
        """
        if isinstance(error, KeyMismatch):
            message = f"this is encrypted with the key '{error.key}', which is missing or another one at this door"
            return cls(code=error.code, message=message, next_step="Whoever runs the server gives it the key.")
        if isinstance(error, BlobsUnreachable):
            step = "Try again later; whoever runs the server finds the reason in its log."
            return cls(code=error.code, message="the blob store cannot be used", next_step=step)
        told = without_keys({"message": error.message, "next_step": error.next_step})
        return cls(code=error.code, **told)


class ProblemDetails(Failure):
    """Problem details (RFC 9457), with the extension members `code`, `message` (equal to `detail`) and `next_step`."""

    title: str
    status: int
    detail: str


class Run(ResponseValue):
    """Run, with its result or error once it has ended."""

    run: str
    """Id of the run."""
    worker: str
    state: RunState
    task: str = ""
    """First line of its prompt, or else the beginning of its input."""
    started_by: str = ""
    started_at: AwareDatetime
    ended_at: AwareDatetime | None = None
    questions: int = 0
    """Number of questions that wait for people."""
    items: ItemCounts | None = None
    """Counts of a batch; null for any other run."""
    fork_of: str = ""
    """Run whose answers it reuses; empty: it is no fork."""
    output: Json = None
    """Result of a completed run; null in lists and in answers to a start or a cancellation."""
    truncated: CutReason | None = None
    """Reason why the answer that is the output was cut: `length` or `content_filter`; null: it was not."""
    usage: Usage | None = None
    """Amounts that a completed run has spent; null otherwise."""
    error: Failure | None = None
    """Reason why it ended without a result."""
    warnings: tuple[str, ...] = ()
    """Reasons why it may fail; only in the answer to the request that has started it."""

    @classmethod
    def of(cls, summary: RunSummary, result: RunResult | None = None, error: LlmDoError | None = None) -> Run:
        """Return a run with its result or its error, where it has ended and that is wanted."""
        return cls(
            run=summary.run,
            worker=summary.worker,
            state=summary.status,  # pyright: ignore[reportArgumentType] - its states are these
            task=summary.task,
            started_by=summary.started_by,
            started_at=summary.started_at,
            ended_at=summary.ended_at,
            questions=summary.pending,
            items=summary.items,
            fork_of=summary.fork_of,
            output=None if result is None else result.output,
            truncated=None if result is None else result.truncated,
            usage=None if result is None else result.usage,
            error=None if error is None else Failure.of(error),
        )


class RunsPage(ResponseValue):
    """Part of the list of runs."""

    runs: tuple[Run, ...]
    following: str | None
    """`page` of the next part; null: there is no more."""


class RunFile(ResponseValue):
    """File of a run."""

    name: str
    """Name of a given file, or virtual path of a written one."""
    origin: Literal["given", "written"]
    bytes: int
    media_type: str


class Vote(ResponseValue):
    """Answer that somebody gave to a question."""

    decision: DecisionKind
    by: str
    via: str = ""
    at: AwareDatetime
    note: str = ""
    args: dict[str, Any]
    """Arguments after the decision."""


class AskedQuestion(ResponseValue):
    """Question to people about one call."""

    id: str
    run: str
    task: str = ""
    """Words for what the run is about, or the item: the first line of its prompt, or the beginning of its input."""
    worker: str
    path: str
    """Place of the asking invocation in the tree of the run."""
    state: State
    tool: str
    args: dict[str, Any]
    args_schema: dict[str, Any] | None = None
    """JSON Schema that changed arguments must meet; null: they cannot be changed."""
    summary: str
    diff: str | None = None
    """Change that a write would make, as a unified diff."""
    digest: str
    """Digest of all that is shown: a decision names it."""
    reason: str = ""
    """Why people are asked."""
    asks_again: str = ""
    """Id of an approval of the same call or review, which was not carried out: `reason` says why; empty: none."""
    asked_again: str = ""
    """Id of the question that asks again because this one's call was not carried out; empty: none does."""
    asked_at: AwareDatetime
    deadline: AwareDatetime | None = None
    approvers: tuple[str, ...] = ()
    """Names of the people who may decide; empty: everybody may."""
    quorum: int = 1
    is_for_people: bool = False
    """Whether it matters which person decides: no program may, nor anybody through a program."""
    is_review: bool = False
    """Whether it is a review of all changes of files; its arguments are the answer."""
    votes: tuple[Vote, ...] = ()
    """Answers so far, of which several may be needed; the last one where it is decided."""

    @classmethod
    def of(cls, question: Question) -> AskedQuestion:
        """Return the question as doors show it."""
        asked, document = question.request, document_of(question)
        return cls(
            id=question.id,
            run=question.run,
            task=question.task,
            worker=asked.worker,
            path=asked.place,
            state=document.state,
            tool=asked.tool,
            args=question.args,
            args_schema=asked.args_schema,
            summary=asked.summary,
            diff=asked.diff,
            digest=asked.digest,
            reason=asked.reason,
            asks_again=asked.again,
            asked_again=question.again,
            asked_at=question.asked_at,
            deadline=question.deadline,
            approvers=asked.approvers,
            quorum=asked.quorum,
            is_for_people=asked.names_people,
            is_review=asked.extension is not None,
            votes=tuple(
                Vote.model_validate(one.model_dump(include=set(Vote.model_fields))) for one in document.answers
            ),
        )


class Answer(RequestBody):
    """Answer to a question: a decision without its question, person and door."""

    decision: DecisionKind
    args: dict[str, Any] | None = None
    """The new arguments, for `modify`."""
    note: str = Field(default="", max_length=MAX_NOTE_CHARS)
    """Reason that the model is told, for `reject`."""
    remember: Remember = Remember.NONE
    """`session`: identical calls of the run get the same answer."""
    grant: KindGrant | None = None
    """Further calls that an `approve` agrees to."""

    def decision_about(self, question: str, digest: str, *, by: str, via: str) -> Decision:
        """Return the decision of a person or program about what was shown with this digest."""
        return Decision(**dict(self), id=question, digest=digest, by=by, via=via)


MAX_FIELD_CHARS = 500
"""Longest text that a field of a form has to be edited in."""
_ARGUMENT = "change_"
_TYPES = {"string": str, "integer": int, "number": (int, float), "boolean": bool}


def form_schema(question: AskedQuestion) -> dict[str, Any]:
    """Return the JSON Schema of the form about a question: the decision, a reason, and each short argument."""
    fields: dict[str, Any] = {
        "decision": {"type": "string", "enum": ["approve", "reject"], "description": "Whether the call may be made."},
        "reason": {"type": "string", "description": "What the worker is told, for a rejection."},
    }
    for name, value in _editable(question).items():
        fields[f"{_ARGUMENT}{name}"] = {"type": _type_of(question, name), "title": name, "default": value}
    return {"type": "object", "properties": fields, "required": ["decision"]}


def answer_of(question: AskedQuestion, content: Mapping[str, Any]) -> Answer:
    """Return the answer that a filled form gives. Raises UsageError for one that is not of this form."""
    args = dict(question.args)
    for name, before in _editable(question).items():
        now = content.get(f"{_ARGUMENT}{name}", before)
        if not isinstance(now, _TYPES[_type_of(question, name)]):
            raise UsageError(f"'{name}' is not of the kind that the form asked for")
        args[name] = now
    kind, note = str(content.get("decision", "")), str(content.get("reason") or "")
    try:
        if kind == DecisionKind.APPROVE and args != question.args:
            return Answer(decision=DecisionKind.MODIFY, args=args, note=note)
        return Answer(decision=DecisionKind(kind), note=note)
    except (ValueError, ValidationError):
        raise UsageError("the form was not filled in: `decision` is approve or reject") from None


def _editable(question: AskedQuestion) -> dict[str, Any]:
    """Return the arguments that fields of a form can show, none where they cannot be changed."""
    if question.args_schema is None or question.is_review:
        return {}
    return {name: value for name, value in question.args.items() if _type_of(question, name) and _fits(value)}


def _type_of(question: AskedQuestion, name: str) -> str:
    """Return the type of a field for the argument; empty where it is none that forms have."""
    properties = cast("dict[str, Any]", (question.args_schema or {}).get("properties") or {})
    declared = cast("dict[str, Any]", properties.get(name) or {})
    kind = declared.get("type")
    value = question.args.get(name)
    return kind if isinstance(kind, str) and kind in _TYPES and isinstance(value, _TYPES[kind]) else ""


def _fits(value: Any) -> bool:
    """Whether a field shows the value as it is: it is short, and has nothing hidden but line ends and tabs."""
    return not isinstance(value, str) or (len(value) <= MAX_FIELD_CHARS and made_visible(value, keep="\n\t") == value)


def filled_values(name: str, form: Any) -> dict[str, Any] | None:
    """Return the values of a form that was accepted; None where it was declined or cancelled.

    Whether they fit the form `answer_of` checks. `name` is for the error. Raises UsageError for what is no answer to a
    form.
    """
    told = cast("dict[str, Any]", form) if isinstance(form, dict) else {"content": form}
    values: Any = told.get("content") or {}
    if not isinstance(values, dict) or not isinstance(told.get("action"), str):
        raise UsageError(f"the answer to '{name[:80]}' is no form that was accepted, declined or cancelled")
    return cast("dict[str, Any]", values) if told["action"] == "accept" else None
