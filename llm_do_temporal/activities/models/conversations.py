"""Whole conversations, put together from the parts that requests carry, and the content keys of their turns.

The other side of `workflows.invocation.conversation`. Conversations that this process has seen are kept at hand; others
are read from the history of the workflow that asks, which is always right.

A content key depends on what a model is told. Ids, times, usage, names of models, and signatures by which a provider
recognises its own thoughts are left out. Ids of tool calls are numbered within their turn. Files count by their
digests: keys are made before these are resolved.
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import pairwise
from typing import Any, TypeAlias, cast

from pydantic import TypeAdapter
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from temporalio import activity
from temporalio.api.common.v1 import Payload

from llm_do_temporal.errors import ModelFailed
from llm_do_temporal.message_history import instructions_in, instructions_of, lean, mark_of
from llm_do_temporal.messages.activities import KEEP_CONVERSATION, REQUEST_MODEL
from llm_do_temporal.messages.conversation import (
    ANSWER_MARK,
    CONVERSATION_SETTING,
    REUSED,
    TURN_KEYS,
    ConversationPart,
    KeepConversationInput,
    KeptConversation,
    Reused,
    TurnKeys,
)
from llm_do_temporal.policy.identity import digest_of, said_key, turn_key
from llm_do_temporal.policy.models import first_kept
from llm_do_temporal.storage.blobs import BlobStore

_OF_MESSAGES = frozenset(("parts", "kind"))
"""Fields of a message that count; instructions are taken from the request."""
_NOT_OF_PARTS = frozenset(
    ("timestamp", "id", "signature", "provider_name", "provider_details", "provider_url", "metadata", "tool_call_id")
)
_NOT_OF_CONTENTS = frozenset(("identifier", "_identifier", "vendor_metadata", "metadata"))


@cache
def parameters_adapter() -> TypeAdapter[ModelRequestParameters]:
    """Return the adapter of what a request offers; building it takes some 30 ms."""
    return TypeAdapter(ModelRequestParameters)


def key_of_conversation(messages: Sequence[ModelMessage], before: str = "") -> str:
    """Return the key of a conversation; `before` is that of its beginning, which `messages` continue.

    The messages are taken turn by turn, so that the key is the same however many of them came at once.
    """
    key = before
    for turn in _turns(messages):
        numbers: dict[str, int] = {}
        canonical = [
            {
                name: [_part(part, numbers) for part in value] if name == "parts" else value
                for name, value in message.items()
                if name in _OF_MESSAGES
            }
            for message in ModelMessagesTypeAdapter.dump_python(turn, mode="json")
        ]
        key = said_key(key, canonical)
    return key


def key_of_offer(parameters: ModelRequestParameters) -> str:
    """Return the digest of tools, output and everything else that a request offers to the model."""
    return digest_of(parameters_adapter().dump_python(parameters, mode="json"))


def _turns(messages: Sequence[ModelMessage]) -> Iterable[list[ModelMessage]]:
    """Return the messages in pieces, of which each but the first begins with an answer."""
    piece: list[ModelMessage] = []
    for message in messages:
        if piece and isinstance(message, ModelResponse):
            yield piece
            piece = []
        piece.append(message)
    if piece:
        yield piece


def _part(part: Mapping[str, Any], numbers: dict[str, int]) -> dict[str, Any]:
    found = {name: value for name, value in part.items() if name not in _NOT_OF_PARTS and value is not None}
    call = part.get("tool_call_id")
    if isinstance(call, str):
        found["call"] = numbers.setdefault(call, len(numbers))
    if "args" in found:
        found["args"] = _arguments(found["args"])
    if part.get("part_kind") == "user-prompt" and isinstance(found.get("content"), list):
        found["content"] = [_content(one) for one in found["content"]]
    return found


def _content(content: Any) -> Any:
    if not isinstance(content, dict):
        return content
    given = cast("dict[str, Any]", content)
    return {name: value for name, value in given.items() if name not in _NOT_OF_CONTENTS}


def _arguments(args: Any) -> Any:
    """Return the arguments of a call as an object where they are one: one provider gives a text, another an object."""
    if not isinstance(args, str):
        return args
    try:
        given = json.loads(args)
    except (ValueError, RecursionError):
        return args
    return cast("dict[str, Any]", given) if isinstance(given, dict) else args


def keyed(answer: ModelResponse, key: str) -> ModelResponse:
    """Return the answer with the key of its turn, so that a fork finds it."""
    return replace(answer, metadata={**(answer.metadata or {}), TURN_KEYS: TurnKeys(turn=key).model_dump()})


def origin_of(metadata: Mapping[str, Any] | None) -> Reused | None:
    """Return the origin of an answer that was reused; None for one that a model has given."""
    found = (metadata or {}).get(REUSED)
    return None if found is None else Reused.model_validate(found)


def turn_key_of(metadata: Mapping[str, Any] | None) -> str:
    """Return the key of the turn with this answer; empty for an answer without one."""
    found = (metadata or {}).get(TURN_KEYS)
    return "" if found is None else TurnKeys.model_validate(found).turn


WholeRequest: TypeAlias = tuple[list[ModelMessage], ModelSettings | None, ModelRequestParameters]
KEPT_CONVERSATIONS = 1_000
"""Most conversations at hand: each has its tools, some 50 KB with ten of them, however little was said in it."""
KEPT_CHARACTERS = 64 * 1024 * 1024
"""Text of conversations kept at hand in one process; those used longest ago leave first."""
_LEFT_OUT = "(The first {count} turns of this conversation are left out: it has become too long to repeat.)"


@dataclass
class Request:
    """Model request as a workflow sent it."""

    part: ConversationPart
    messages: list[ModelMessage]
    parameters: ModelRequestParameters


@dataclass
class SentHistory:
    """Requests and answers of a conversation, as its history has them."""

    requests: list[Request] = field(default_factory=list[Request])
    """Requests in the order of their events."""
    answers: dict[str | None, ModelResponse] = field(default_factory=dict[str | None, ModelResponse])
    """Answers by their marks; None: of answers without any."""


@dataclass
class WholeConversation:
    """A conversation as far as it is known."""

    messages: list[ModelMessage] = field(default_factory=list[ModelMessage])
    parameters: ModelRequestParameters = field(default_factory=ModelRequestParameters)
    instructions: str | None = None
    ends: dict[int, int] = field(default_factory=dict[int, int])
    """Number of messages up to the end of each request, by the request's number."""
    sizes: list[int] = field(default_factory=list[int])
    """Approximate number of characters of each message."""
    inherited: int = 0
    """Number of messages that came with the base."""
    answer: ModelResponse | None = None
    """The newest marked answer, which the next request may refer to."""
    keys: dict[int, str] = field(default_factory=dict[int, str])
    """Content keys of the conversation up to the end of a message, by the number of messages."""
    offer: tuple[ModelRequestParameters, str] | None = None
    """Newest parameters whose content key is known, with that key."""

    @property
    def characters(self) -> int:
        """Approximate size of the conversation in memory, in characters."""
        return sum(self.sizes)

    def add(self, request: Request, base: Sequence[ModelMessage]) -> None:
        """Add a request that continues the conversation, or begins it anew with `base`. Raises ModelFailed."""
        part, messages = request.part, request.messages
        if part.after is None:
            self.messages, self.ends, self.sizes, self.keys = [], {}, [], {}
            self.parameters = request.parameters
            self.instructions = instructions_of(messages) or instructions_in(request.parameters)
            self.inherited = len(base)
            messages = [*base, *messages[1:]] if part.base else messages
        else:
            self.cut(part.after)
            self.parameters = request.parameters if part.retooled else self.parameters
            if part.answer is not None:
                if self.answer is None or mark_of(self.answer) != part.answer:
                    raise ModelFailed(f"the answer '{part.answer}' of this conversation is not in its history")
                carried = ModelMessagesTypeAdapter.validate_python(part.messages)
                messages = [lean(self.answer), *carried, *messages[1:]]
        self.messages += [
            replace(message, instructions=self.instructions)
            if isinstance(message, ModelRequest) and message.instructions is None
            else message
            for message in messages
        ]
        self.sizes += [
            sum(len(str(getattr(part, "content", "") or getattr(part, "args", ""))) for part in message.parts)
            for message in messages
        ]
        # A request that asks the provider to go on with its own unfinished answer is sent more than once.
        if not isinstance(self.messages[-1], ModelResponse):
            self.ends[part.number] = len(self.messages)

    def said(self) -> str:
        """Return the content key of all messages."""
        end = len(self.messages)
        if end not in self.keys:
            # A turn begins with an answer.
            turns = (known for known in self.keys if known < end and isinstance(self.messages[known], ModelResponse))
            start = max(turns, default=0)
            self.keys[end] = key_of_conversation(self.messages[start:], self.keys.get(start, ""))
        return self.keys[end]

    def offered(self) -> str:
        """Return the content key of the parameters."""
        if self.offer is None or self.offer[0] is not self.parameters:
            self.offer = (self.parameters, key_of_offer(self.parameters))
        return self.offer[1]

    def cut(self, number: int) -> None:
        """Forget what came after a request: it is another attempt."""
        self.keys = {place: key for place, key in self.keys.items() if place <= self.ends[number]}
        del self.messages[self.ends[number] :]
        del self.sizes[self.ends[number] :]
        self.ends = {known: end for known, end in self.ends.items() if known <= number}

    def fitting(self, max_tokens: int | None) -> list[ModelMessage]:
        """Return the messages that fit: all, or the first request and the newest turns.

        `max_tokens` is the model's limit; None: there is none. A turn begins with an answer.
        """
        if max_tokens is None:
            return list(self.messages)
        starts = [place for place, message in enumerate(self.messages) if place and isinstance(message, ModelResponse)]
        turns = [sum(self.sizes[start:end]) for start, end in pairwise([*starts, len(self.messages)])]
        left_out = first_kept(turns, max_tokens)
        first = self.messages[0]
        if not left_out or not isinstance(first, ModelRequest):
            return list(self.messages)
        note = UserPromptPart(_LEFT_OUT.format(count=left_out))
        return [replace(first, parts=[*first.parts, note]), *self.messages[starts[left_out] :]]


class Conversations:
    """The conversations that this process has at hand."""

    def __init__(self, blobs: BlobStore | None) -> None:
        self._blobs = blobs
        self._known: OrderedDict[str, WholeConversation] = OrderedDict()

    async def keyed(
        self,
        messages: list[ModelMessage],
        settings: ModelSettings | None,
        parameters: ModelRequestParameters,
        model: str,
    ) -> tuple[WholeRequest, str]:
        """Return the request as it is sent (messages, settings, tools), and the content key of the turn with `model`.

        The key is empty for a request that carries its whole conversation. Call it in the activity that sends. Raises
        EffectFailed, ModelFailed.
        """
        given = dict(settings or {})
        marked = given.pop(CONVERSATION_SETTING, None)
        if marked is None:
            return (messages, settings, parameters), ""
        request = Request(ConversationPart.model_validate(marked), messages, parameters)
        run, after = _this_run(), request.part.after
        known = WholeConversation() if after is None else await self._at(run, after, request.part.answer)
        base = await asyncio.to_thread(self._read_base, request.part.base) if request.part.base else []
        known.add(request, base)
        self._remember(run, known)
        most = request.part.max_tokens
        whole = known.fitting(most), cast("ModelSettings", given) or None, known.parameters
        offered = {"parameters": known.offered(), "instructions": known.instructions, "max_tokens": most}
        return whole, turn_key(model, given, offered, known.said())

    def mark(self, answer: ModelResponse, messages: Sequence[ModelMessage]) -> ModelResponse:
        """Mark the answer to these messages, so that the next request need not carry it. Call it in the activity.

        An unfinished answer, or the end of one, stays unmarked and is carried: the two become one in the workflow.
        """
        if answer.state != "complete" or isinstance(messages[-1], ModelResponse):
            return answer
        info = activity.info()
        mark = f"{info.activity_id}.{info.attempt}"
        marked = replace(answer, metadata={**(answer.metadata or {}), ANSWER_MARK: mark})
        if (known := self._known.get(_this_run())) is not None:
            known.answer = marked
        return marked

    @activity.defn(name=KEEP_CONVERSATION.name)
    async def keep_conversation(self, wanted: KeepConversationInput) -> KeptConversation:
        """Put what the calling workflow has said since its base into one more blob."""
        if self._blobs is None:
            raise ModelFailed("this worker service has no blob store, so a long conversation cannot go on")
        run = _this_run()
        known = await self._at(run, wanted.number)
        said = known.messages[known.inherited : known.ends[wanted.number]]
        more = ModelMessagesTypeAdapter.validate_python(wanted.messages)
        data = ModelMessagesTypeAdapter.dump_json([lean(message) for message in (*said, *more)])
        digest = await asyncio.to_thread(self._blobs.put_bytes, data)
        self._known.pop(run, None)  # the run that asks is about to end
        return KeptConversation(base=(*wanted.base, digest))

    async def _at(self, run: str, number: int, answer: str | None = None) -> WholeConversation:
        """Return the conversation that has request `number` in it, with the answer marked `answer`; None: with none."""
        known = self._known.get(run)
        if known is not None and number in known.ends and (answer is None or answer == mark_of(known.answer)):
            return known
        sent = await _read_history()
        sent.requests = [request for request in sent.requests if request.part.number <= number]
        whole = await asyncio.to_thread(self._put_together, sent, number)
        whole.answer = sent.answers.get(answer)
        return whole

    def _put_together(self, sent: SentHistory, number: int) -> WholeConversation:
        whole = WholeConversation()
        for request in sent.requests:
            if request.part.number not in whole.ends:
                whole.answer = sent.answers.get(request.part.answer)
                whole.add(request, self._read_base(request.part.base))
        if number not in whole.ends:
            raise ModelFailed(f"request {number} of this conversation is not in its history")
        return whole

    def _read_base(self, base: Sequence[str]) -> list[ModelMessage]:
        if not base:
            return []
        if self._blobs is None:
            raise ModelFailed("this worker service has no blob store, so a long conversation cannot go on")
        blobs = self._blobs
        return [message for digest in base for message in ModelMessagesTypeAdapter.validate_json(blobs.read(digest))]

    def _remember(self, run: str, whole: WholeConversation) -> None:
        self._known[run] = whole
        self._known.move_to_end(run)
        kept = sum(one.characters for one in self._known.values())
        while len(self._known) > 1 and (kept > KEPT_CHARACTERS or len(self._known) > KEPT_CONVERSATIONS):
            _, dropped = self._known.popitem(last=False)
            kept -= dropped.characters


async def _read_history() -> SentHistory:
    """Read the requests and answers so far from the history of the workflow that scheduled this activity."""
    info, client = activity.info(), activity.client()
    handle = client.get_workflow_handle(cast("str", info.workflow_id), run_id=info.workflow_run_id)
    found, turns = SentHistory(), set[int]()
    async for event in handle.fetch_history_events():
        scheduled = event.activity_task_scheduled_event_attributes
        completed = event.activity_task_completed_event_attributes
        if scheduled.activity_type.name == REQUEST_MODEL.name:
            turns.add(event.event_id)
            found.requests.append(await _decoded(list(scheduled.input.payloads[:1])))
        elif completed.scheduled_event_id in turns:
            (answer,) = await client.data_converter.decode(list(completed.result.payloads), [ModelResponse])
            found.answers[mark_of(answer)] = answer
    return found


async def _decoded(payloads: list[Payload]) -> Request:
    (given,) = cast("list[dict[str, Any]]", await activity.client().data_converter.decode(payloads, [dict]))
    part = ConversationPart.model_validate(given["model_settings"][CONVERSATION_SETTING])
    messages = ModelMessagesTypeAdapter.validate_python(given["messages"])
    has_tools = part.after is None or part.retooled
    parameters = parameters_adapter().validate_python(given["model_request_parameters"]) if has_tools else None
    return Request(part, messages, parameters or ModelRequestParameters())


def _this_run() -> str:
    info = activity.info()
    return f"{info.workflow_id}/{info.workflow_run_id}"
