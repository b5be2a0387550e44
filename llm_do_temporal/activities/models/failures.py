"""Meaning of a failed model turn: whether the same model is asked again, when, and whether another one may answer.

Owns the sorting of providers' errors. An error that passes by itself is retried without end, unless another model can
be asked; an error that would come again is final at once, with the model's name and what to do. An unknown error is
retried within bounds, in attempts and in time. An error in the body of an answer with status 200 gets the status that
it should have had.

What a provider answers is bounded, in bytes after unpacking, by a hook in the HTTP clients of models.
"""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF8
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import aclosing, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Any, cast

import httpx2
from pydantic_ai.exceptions import (
    AgentRunError,
    ModelAPIError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelContextWindowExceededError,
    ModelHTTPError,
    ModelNotFoundError,
    ModelQuotaExceededError,
    ModelRateLimitError,
    ModelRequestRejectedError,
    ModelRequestTimeout,
    ModelServerError,
    ModelTimeoutError,
    ModelUnavailableError,
    UnexpectedModelBehavior,
)
from pydantic_ai.models import Model
from temporalio.exceptions import ApplicationError

from llm_do_temporal.activities.models.answer_repairs import (
    Repairs,
    repaired_body,
    repaired_events,
    repairs_of,
    with_escaped_line_ends,
)
from llm_do_temporal.activities.runtime.failures import as_failure, causes_of
from llm_do_temporal.errors import ModelFailed
from llm_do_temporal.messages.conversation import FIRST_TRIES, OtherModel
from llm_do_temporal.messages.sizes import QUOTED_CHARS
from llm_do_temporal.redaction.configured_keys import remove_keys
from llm_do_temporal.redaction.hidden_characters import cut, made_visible, without_advice

MAX_RESPONSE_BYTES = 32 * 1024 * 1024
"""Largest answer that comes as a whole."""
MAX_STREAM_BYTES = 64 * 1024 * 1024
"""Largest streamed answer, which has some hundred bytes around each word."""
MAX_BATCH_BYTES = 256 * 1024 * 1024
"""Largest file with the answers of a whole batch."""
MAX_STREAMED_CHARS = 8 * 1024 * 1024
"""Most characters of a streamed answer: text, thinking and arguments together."""
_STREAM = "text/event-stream"
_FILE_OF_LINES = "/content"
"""End of the addresses of OpenAI's files, of which a batch has one with its requests and one with its answers."""


_most_whole: ContextVar[int] = ContextVar("most_whole", default=MAX_RESPONSE_BYTES)


@contextmanager
def many_answers() -> Generator[None]:
    """Let answers that come as a whole be as large as the file of a batch."""
    token = _most_whole.set(MAX_BATCH_BYTES)
    try:
        yield
    finally:
        _most_whole.reset(token)


class AnswerTooLarge(Exception):
    """An answer has more bytes than are read; the rest is not read."""


def bounded_model(model: Model) -> Model:
    """Return the model with bounds in its HTTP client; a model without such a client as it is."""
    provider = cast("Any", model.provider)
    client = getattr(provider, "_own_http_client", None)
    if client is not None:
        _bound(client)
    make = getattr(provider, "_http_client_factory", None)
    if make is not None:
        # A client that was closed, or belongs to another event loop, is made anew.
        provider._http_client_factory = lambda: _bound(make())
    return model


@contextmanager
def final_when_too_large(model: str) -> Generator[None]:
    """Let an answer that was too large be a failure that is not tried again, however a library has wrapped it."""
    try:
        yield
    except Exception as error:
        if not any(isinstance(one, AnswerTooLarge) for one in (error, *causes_of(error))):
            raise
        failed = ModelFailed(
            f"model '{model}' answered more than is read: at most {MAX_RESPONSE_BYTES} bytes, {MAX_STREAM_BYTES} as a "
            f"stream, and {MAX_STREAMED_CHARS} characters",
            next_step="Set `max_tokens` in `model_settings`, or choose another model.",
        )
        raise as_failure(failed, other_model=OtherModel.INSTEAD) from None


def _bound(client: Any) -> Any:
    hooks = client.event_hooks
    if _count not in hooks["response"]:
        client.event_hooks = {**hooks, "response": [*hooks["response"], _count]}
    return client


async def _count(response: httpx2.Response) -> None:
    """Have a response unpacked here, piece by piece and counted, before a client puts it together."""
    kind = response.headers.get("content-type", "").lower()
    if _STREAM in kind or "json" in kind:
        # Both are UTF-8, whatever else their header says.
        response.headers["content-type"] = kind = kind.partition(";")[0]
    most = MAX_STREAM_BYTES if _STREAM in kind else _most_whole.get()
    packed = type(response)(response.status_code, headers=response.headers, stream=_Body(response.stream))
    packed.request = response.request
    counted = _Counted(packed, most, repairs_of(response.request.url.path))
    response.stream = _JsonLines(counted) if response.request.url.path.endswith(_FILE_OF_LINES) else counted
    for header in ("content-encoding", "content-length"):
        response.headers.pop(header, None)
    if response.status_code == HTTPStatus.OK and most == MAX_RESPONSE_BYTES:
        # The library would read a whole answer next, and take an error for an answer without its fields.
        response.status_code = status_of(await response.aread()) or response.status_code


class _Body(httpx2.AsyncByteStream):
    """A body on its connection, which is read once: whoever iterates again gets what is left, and nothing at the end.

    A connection that its server has closed is read for ever by whoever begins again behind the end of the body.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._pieces = aiter(stream)

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        async for piece in self._pieces:
            yield piece

    async def aclose(self) -> None:
        if isinstance(self._pieces, AsyncGenerator):
            await self._pieces.aclose()
        await self._stream.aclose()


class _Counted(httpx2.AsyncByteStream):
    def __init__(self, packed: httpx2.Response, most: int, repairs: Repairs | None = None) -> None:
        self._packed = packed
        self._left = most
        self._repairs = None if packed.is_error else repairs
        self._is_stream = _STREAM in packed.headers.get("content-type", "")

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        """Iterate over what is left, counted and, where its protocol has repairs, repaired."""
        async with aclosing(self._counted()) as counted:
            if self._repairs is None or self._packed.is_stream_consumed:
                async for piece in counted:
                    yield piece
            elif self._is_stream:
                async with aclosing(repaired_events(self._repairs, counted)) as pieces:
                    async for piece in pieces:
                        yield piece
            else:
                yield repaired_body(self._repairs, b"".join([piece async for piece in counted]))

    async def _counted(self) -> AsyncGenerator[bytes]:
        """Iterate over what is left, unpacked the first time, without the byte order mark that some servers begin with.

        Libraries take the first line of a stream with such a mark for an unknown field, and drop its event.
        Libraries that have read the last event of a stream iterate again for what follows it, and drop that: a
        connection whose answer was not read to its end is closed, and the next turn would have to open another.
        """
        rest = cast("httpx2.AsyncByteStream", self._packed.stream)
        pieces = aiter(rest) if self._packed.is_stream_consumed else self._packed.aiter_bytes()
        begins = not self._packed.is_stream_consumed
        try:
            async for piece in pieces:
                self._left -= len(piece)
                if self._left < 0:
                    await self.aclose()
                    raise AnswerTooLarge
                yield piece.removeprefix(BOM_UTF8) if begins else piece
                begins = False
        finally:
            # What unpacks is closed here and now: left to the garbage collector, it may be closed in its middle.
            if isinstance(pieces, AsyncGenerator):
                await pieces.aclose()

    async def aclose(self) -> None:
        await self._packed.aclose()


class _JsonLines(httpx2.AsyncByteStream):
    """A file of JSON lines, in which the texts have no character that the library takes for the end of a line."""

    def __init__(self, counted: _Counted) -> None:
        self._counted = counted

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        yield with_escaped_line_ends(b"".join([piece async for piece in self._counted]))

    async def aclose(self) -> None:
        await self._counted.aclose()


UNNAMED = 599
"""Status of an error that names none, nor anything from which one follows."""
_ANSWERS = ("choices", "content", "output", "candidates")
"""Keys with the answer itself, in all protocols: beside one an error is a remark."""
_BARE = (b'"message"', b'"detail"')
"""Keys with the words of an error that is nothing else, as web servers and API gateways send it."""
_WORDS = (
    (402, ("insufficient_quota", "quota_exceeded", "billing", "credit", "payment")),
    (429, ("rate_limit", "rate limit", "too_many_requests", "too many requests", "resource_exhausted", "throttl")),
    (503, ("overloaded", "over capacity", "unavailable")),
    (401, ("authentication", "unauthenticated", "invalid_api_key", "unauthorized")),
    (403, ("permission", "forbidden")),
    (404, ("not_found", "notfound")),
    (413, ("too_large",)),
    (400, ("invalid_request", "invalid_argument", "context_length", "badrequest")),
    (504, ("timeout", "timed out", "deadline")),
    (500, ("server_error", "internal", "api_error")),
)


def status_of(body: bytes) -> int | None:
    """Return the HTTP status of the error that a body is; None where it is none, or no JSON."""
    is_bare = any(key in body for key in _BARE) and not any(key.encode() in body for key in _ANSWERS)
    if b"error" not in body and not is_bare:
        return None
    try:
        read = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if isinstance(read, list) and len(cast("list[Any]", read)) == 1:
        read = cast("list[Any]", read)[0]
    if not isinstance(read, dict):
        return None
    whole = cast("dict[str, Any]", read)
    is_error = "error" in (whole.get("object"), whole.get("type"))
    words = is_bare and any(isinstance(whole.get(key), str) for key in ("message", "detail"))
    error = whole.get("error") or (whole if is_error or words else None)
    if error and not any(whole.get(key) for key in _ANSWERS):
        return _named_status(error, whole)
    broken = _error_of_choice(whole)
    return None if not broken else _named_status(broken, broken)


def _error_of_choice(whole: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the error in the first choice, which some gateways put there when it broke off; empty: there is none."""
    choices: Any = whole.get("choices")
    first: Any = cast("list[Any]", choices)[0] if isinstance(choices, list) and choices else None
    error: Any = cast("Mapping[str, Any]", first).get("error") if isinstance(first, Mapping) else None
    return cast("Mapping[str, Any]", error) if isinstance(error, Mapping) else {}


def _named_status(error: object, whole: Mapping[str, Any]) -> int:
    named: list[object] = [error] if isinstance(error, str) else []
    for given in (error, whole):
        if isinstance(given, Mapping):
            known = cast("Mapping[str, Any]", given)
            named += (known.get(key) for key in ("code", "status", "status_code", "type"))
    for one in named:
        if not isinstance(one, bool) and str(one).isdecimal() and len(str(one)) == 3 and 400 <= int(str(one)) < 600:
            return int(str(one))
    if isinstance(error, Mapping):
        named += (cast("Mapping[str, Any]", error).get(key) for key in ("message", "detail"))
    for one in named:
        words = one.lower() if isinstance(one, str) else ""
        for status, signs in _WORDS:
            if any(sign in words for sign in signs):
                return status
    return UNNAMED


_SEARCHED_CHARS = 40 * QUOTED_CHARS
"""Longest beginning of a provider's message in which keys are looked for."""
PASSING = "ModelBusy"
"""Type of a failure that is tried again."""
LONGEST_WAIT = timedelta(hours=1)
"""A provider that asks for more is asked again all the same: it may be wrong, and a run must not sleep for a week."""
UNKNOWN_ATTEMPTS = 8
"""Attempts at a turn whose failure may pass or not."""
UNKNOWN_TIME = timedelta(minutes=15)
"""Time from the first attempt in which such a turn is tried again."""
LONGEST_WAIT_BESIDE_OTHERS = timedelta(minutes=2)
LONGEST_WAIT_FOR_KEY = timedelta(seconds=20)
"""Longest time between two attempts at a turn whose key is not set: a service that has it may begin at any time."""
SHORT_WAIT_SECONDS = 5.0
"""Longest wait that a provider may ask for where another model can be asked instead."""


@dataclass(frozen=True)
class _Kind:
    errors: tuple[type[ModelAPIError], ...]
    what: str
    """Words after the model's name in the error."""
    next_step: str | None = None
    passing: bool = False
    statuses: frozenset[int] = frozenset()
    """HTTP statuses that are of the kind, where the error's class does not say more; empty: the classes decide."""

    def has(self, error: ModelAPIError) -> bool:
        """Return whether an error is of the kind."""
        if not isinstance(error, self.errors):
            return False
        return not self.statuses or _status(error) in self.statuses


_NO_WAITING: tuple[tuple[type[ModelAPIError], re.Pattern[str]], ...] = (
    (
        ModelQuotaExceededError,
        re.compile(
            r"exceeded (your|its|the) current quota|insufficient[ _](balance|quota|credits?|funds)"
            r"|budget[ _](has been )?exceeded|exceededbudget|spending limit|out of credits|credit balance|more credits"
            r"|billing details|used all available credits|余额不足|quota.*\blimit: 0\b"
        ),
    ),
    (
        ModelContextWindowExceededError,
        re.compile(
            r"exceed\w* (the )?(\w+ ){0,2}context|context[ _]?(size|length|window|limit)[ _]?(has been )?exceed"
            r"|contextwindowexceeded|(maximum|model's) context length|context the overflows|prompt is too long"
            r"|inputs?` tokens \+|input is too long|input token count|input tokens exceeded"
            r"|request too large .*(tokens|tpm)"
        ),
    ),
)
"""Words of errors that no waiting changes, whatever their status, by the error that they are."""
_COMES_BACK = re.compile(r"(try again|retry) (in|after)\b")
"""Words of a limit that is over soon."""
_PASSES = re.compile(
    r"throttl|too[ _]?many[ _]?requests|rate[ _-]?(limit|exceeded)|over(loaded| capacity)|temporarily|server (is )?busy"
    r"|(is|still|being) load(ed|ing)|loading model|warming up|not (yet )?ready|(try again|retry|retried) later"
    r"|just a moment|checking your browser|you are (a )?human|attention required|enable javascript and cookies|captcha"
)
"""Words of a refusal that its status calls final, and that may pass all the same."""
_STAYS = re.compile(
    r"(invalid|incorrect|wrong|expired|revoked|missing)( \w+){0,3} (key|token|credentials?)\b"
    r"|(key|token|credentials?)( \w+){0,2} (invalid|incorrect|not valid|expired|revoked)\b|does not exist"
    r"|no such model|unknown model|model( \S+)?( is)? (unknown|not found)"
)
"""Words of a wrong key or an unknown model, which stay so whatever else is said."""
_CODE_CHARS = 100
_CODES = ("__type", "code", "type", "status", "reason")
"""Keys with the code of an error."""
_PASSING_5XX = (500, 502, 503, 504, 507, *range(520, 531))
_OTHERS = "or name another model behind it: `model: [this, other]`"
_UNREACHED = "cannot be reached"
_KINDS = (
    _Kind((ModelRateLimitError,), "is rate limited", passing=True),
    _Kind((ModelUnavailableError,), "is overloaded or down", passing=True),
    _Kind((ModelTimeoutError, ModelRequestTimeout), "did not answer in time", passing=True),
    _Kind((ModelConnectionError,), _UNREACHED, passing=True),
    _Kind(
        (ModelServerError, ModelHTTPError),
        "is not served at this address",
        f"Check the model's `base_url`, and that its server speaks the protocol of the provider named, {_OTHERS}.",
        statuses=frozenset({405, 406, 410, 415, 421, 426, 501, 505, 506, 508, 510}),
    ),
    _Kind(
        (ModelAPIError,),
        "redirects its requests to another address",
        f"Set the model's `base_url` to the address at which its server answers, {_OTHERS}.",
        statuses=frozenset(range(300, 400)),
    ),
    _Kind((ModelServerError,), "failed at its provider", passing=True, statuses=frozenset(_PASSING_5XX)),
    _Kind(
        (ModelAuthenticationError,),
        "refused the key",
        f"Check the key where the worker service runs and start the service again, {_OTHERS}.",
    ),
    _Kind((ModelQuotaExceededError,), "has no quota left", f"Raise the quota of the account, {_OTHERS}."),
    _Kind(
        (ModelNotFoundError,),
        "is not known to its provider",
        f"Check the model's name and, where it has one, its `base_url`, {_OTHERS}.",
    ),
    _Kind(
        (ModelContextWindowExceededError,), "was told more than it can take", f"Set `max_context_tokens`, {_OTHERS}."
    ),
    _Kind(
        (ModelRequestRejectedError,),
        "refused the request",
        f"Change what the provider names: a model setting, a tool, an attachment; {_OTHERS}.",
    ),
    _Kind(
        (ModelHTTPError,),
        "did not take a request of this size",
        f"Set `max_context_tokens`, send smaller attachments, raise the limit of the gateway, {_OTHERS}.",
        statuses=frozenset({413, 414, 431}),
    ),
    _Kind(
        (ModelHTTPError, ModelServerError),
        "is behind a proxy or network that asks for a login",
        f"Check the proxy's settings where the worker service runs, {_OTHERS}.",
        statuses=frozenset({407, 511}),
    ),
    _Kind(
        (ModelHTTPError,),
        "refused the request",
        f"Check what the gateway says, {_OTHERS}.",
        statuses=frozenset({411, 412, 416, 417, 428, 451}),
    ),
    _Kind((ModelHTTPError,), "failed", passing=True, statuses=frozenset({408, 409, 423, 425, 429, 449})),
)
_UNKNOWN = _Kind((ModelAPIError,), "failed")
"""Whatever else a provider or a gateway says. It may pass."""
_UNSENDABLE = _Kind(
    (ModelConnectionError,),
    "cannot be sent a request",
    f"Check the key for line ends, blanks and letters outside ASCII, {_OTHERS}.",
)
_BY_CAUSE: Mapping[str, _Kind] = {
    "LocalProtocolError": _UNSENDABLE,
    "UnicodeEncodeError": _UNSENDABLE,
    "SSLError": _UNKNOWN,
    "SSLCertVerificationError": _UNKNOWN,
    "DecodingError": _UNKNOWN,
}
"""Kinds of failed connections that no waiting ends, or perhaps none, by the class of the exception behind them.

The adapters use several HTTP libraries, which share the names of the classes. A class below `SSLError` means a
connection that broke, which passes."""
_WITH_KEY = frozenset({"LocalProtocolError", "UnicodeEncodeError"})
"""Classes of exceptions whose message may quote a key."""


def model_failure(
    error: ModelAPIError, model: str, *, attempt: int, tries: int | None, since: datetime | None = None
) -> ApplicationError:
    """The Temporal failure of a request to `model`.

    `attempt` counts from 1. With `tries` the workflow has other models to ask: then so many attempts are enough, and
    one where the provider lets wait. `since` is the time of the first attempt; None: attempts alone count.
    """
    kind = _kind_by_words(error) or _kind_by_cause(error)
    kind = kind or next((kind for kind in _KINDS if kind.has(error)), _UNKNOWN)
    code = _status(error)
    status = "" if code in (None, HTTPStatus.OK, UNNAMED) else f" (HTTP {code})"
    message = f"model '{model}' {kind.what}: {said(error)}{status}"
    is_over = since is not None and datetime.now(UTC) - since > UNKNOWN_TIME
    if kind is _UNKNOWN and not (attempt >= UNKNOWN_ATTEMPTS or is_over):
        if tries is not None and attempt >= tries:
            return as_failure(ModelFailed(message), other_model=OtherModel.MEANWHILE)
        return ApplicationError(message, type=PASSING, next_retry_delay=_delay(error, beside_others=True))
    if kind is _UNKNOWN:
        step = f"Its server failed in the same way {attempt} times. Look into its log, {_OTHERS}."
        return as_failure(ModelFailed(message, next_step=step), other_model=OtherModel.INSTEAD)
    if not kind.passing:
        suggested = error.suggested_model_id if isinstance(error, ModelHTTPError) else None
        hint = f" Did you mean '{suggested}'?" if suggested else ""
        return as_failure(ModelFailed(message, next_step=f"{kind.next_step}{hint}"), other_model=OtherModel.INSTEAD)
    timed_out = isinstance(error, ModelTimeoutError | ModelRequestTimeout)
    lets_wait = timed_out or (error.retry_after or 0) > SHORT_WAIT_SECONDS
    if tries is not None and (attempt >= tries or (tries == FIRST_TRIES and lets_wait)):
        return as_failure(ModelFailed(message), other_model=OtherModel.MEANWHILE)
    return ApplicationError(message, type=PASSING, next_retry_delay=_delay(error, beside_others=tries is not None))


def key_failure(model: str, variable: str, *, attempt: int, tries: int | None) -> ApplicationError:
    """The Temporal failure of a request to `model` in a process where the variable of its key is not set.

    It is tried again without end. With `tries` the workflow has other models to ask: the first time round at once.
    """
    message = f"model '{model}' waits for the key {variable}: start the worker service where it is set"
    if tries is not None and (attempt >= tries or tries == FIRST_TRIES):
        step = f"Set {variable} and start the service again, {_OTHERS}."
        return as_failure(ModelFailed(message, next_step=step), other_model=OtherModel.MEANWHILE)
    seconds = min(2.0 ** min(attempt, 10) / 4, LONGEST_WAIT_FOR_KEY.total_seconds())
    return ApplicationError(message, type=PASSING, next_retry_delay=timedelta(seconds=seconds))


def _status(error: ModelAPIError) -> int | None:
    """Return the HTTP status of a failure; None: it has none.

    Adapters name only those from 400 on themselves, and one that the body of a redirect may name in its place.
    """
    cause = error.__cause__
    found = getattr(cause, "status_code", getattr(cause, "code", None))
    status = found if isinstance(found, int) else None
    is_redirect = status is not None and HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST
    return error.status_code if isinstance(error, ModelHTTPError) and not is_redirect else status


def _kind_by_words(error: ModelAPIError) -> _Kind | None:
    """Return the kind that the provider's words name, whatever the status; None: they name none.

    Of a refusal that may pass nobody can tell. A limit that is over soon is what its status says.
    """
    if not isinstance(error, ModelHTTPError):
        return None
    words = said(error).lower()
    is_soon = bool(error.retry_after or _COMES_BACK.search(words))
    found = next((kind for kind, pattern in _NO_WAITING if pattern.search(words)), None)
    if found is not None and not is_soon and error.status_code not in (401, 402, 403, 404):
        return next(kind for kind in _KINDS if kind.errors == (found,))
    is_final = isinstance(error, ModelRequestRejectedError) and error.status_code != HTTPStatus.UNAUTHORIZED
    if is_final and not isinstance(error, ModelContextWindowExceededError) and not _STAYS.search(words):
        return _UNKNOWN if is_soon or _PASSES.search(f"{words} {_codes(error.body).lower()}") else None
    return None


def _codes(body: object) -> str:
    """Return the codes that a refusal has beside its words."""
    if not isinstance(body, Mapping):
        return ""
    given = cast("Mapping[str, object]", body)
    inner = [_codes(given.get("error"))] if "error" in given else []
    details = given.get("errors")
    inner += map(_codes, cast("list[object]", details)) if isinstance(details, list) else []
    return " ".join([*(str(given[key])[:_CODE_CHARS] for key in _CODES if isinstance(given.get(key), str)), *inner])


def _kind_by_cause(error: ModelAPIError) -> _Kind | None:
    """Return the kind that the exceptions behind a failed connection tell; None: they tell none."""
    if not isinstance(error, ModelConnectionError):
        return None
    kinds = (_BY_CAUSE.get(type(cause).__name__) for cause in causes_of(error))
    return next((kind for kind in kinds if kind is not None), None)


def _delay(error: ModelAPIError, *, beside_others: bool) -> timedelta | None:
    """Return the wait that the provider asks for, within reason; None: that of the retry policy."""
    if not error.retry_after:
        return None
    longest = LONGEST_WAIT_BESIDE_OTHERS if beside_others else LONGEST_WAIT
    return timedelta(seconds=min(error.retry_after, longest.total_seconds()))


def quoted(text: str) -> str:
    """Return words of a provider as an error quotes them: without keys, which they may repeat, visible, and cut."""
    return cut(made_visible(remove_keys(without_advice(text.strip()[:_SEARCHED_CHARS]))), QUOTED_CHARS)


def said(error: ModelAPIError) -> str:
    """Return the provider's message, as `quoted`."""
    body = error.body
    if isinstance(body, Mapping):
        given = cast("Mapping[str, object]", body)
        inner = given.get("error")
        message = (cast("Mapping[str, object]", inner) if isinstance(inner, Mapping) else given).get("message")
        if isinstance(message, str) and message.strip():
            return quoted(message)
        alone: list[object] = [inner, given.get("detail")]
        for words in alone:
            if isinstance(words, str) and words.strip():
                return quoted(words)
    return quoted(_transport_words(error) or error.message)


def _transport_words(error: ModelAPIError) -> str:
    """Return what the HTTP library says of a failed connection, where the adapter says that it failed and no more."""
    if not isinstance(error, ModelConnectionError):
        return ""
    causes = list(causes_of(error))
    if any(type(cause).__name__ in _WITH_KEY for cause in causes):
        return "its key or another header has characters that HTTP does not carry"
    return next((words for cause in causes if (words := str(cause).strip()) and words != error.message), "")


@contextmanager
def unusable_when_unread(model: Model) -> Generator[None]:
    """Let an answer that cannot be read or kept be one that makes no sense, whatever Python says of it.

    A model without a provider plays a script: its errors are those of the script.
    """
    try:
        yield
    except AgentRunError:
        raise
    except UnicodeEncodeError as error:
        if model.provider is None or error.encoding == "utf-8":
            raise
        # Headers are ASCII: the request was never sent.
        raise ModelConnectionError(model.model_name, "a header cannot be sent") from error
    except httpx2.RequestError as error:
        # Some adapters pass on what breaks while an answer is read.
        raise ModelConnectionError(model.model_name, "the connection failed") from error
    except (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        if model.provider is None:
            raise
        words = f"it cannot be read: {type(error).__name__}: {error}"
        raise UnexpectedModelBehavior(words) from error
