"""Spans of runs as the GenAI conventions of OpenTelemetry write them down: names, attributes, messages.

Shared by the spans of a run that goes on and by traces made from histories, so that both can be read by the same
queries. The bytes of files stay out of them unless they are asked for. Takes and gives plain JSON values, as they are
in histories. A shape is the name of a span and its attributes; None stands for one that the span does not have.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from typing import Any, TypeAlias, cast
from urllib.parse import unquote

from llm_do_temporal.messages.conversation import CONVERSATION_SETTING

JsonObject: TypeAlias = dict[str, Any]
_BLOB_SCHEME = "llmdo-blob:sha256/"
_FILE_URLS = ("document-url", "image-url", "audio-url", "video-url")
_DEEPEST = 100
"""Most levels of nested values; a model may write more than Python can follow."""
_TOO_DEEP = "(too deep to be shown)"
_UNTOLD = ("model-settings-delta", "capability-load-delta", "instruction-delta", "instruction-baseline")
"""Kinds of parts that are notes of the agent's loop; no model gets them."""


_PROVIDERS = {
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "google": "gcp.gemini",
    "google-cloud": "gcp.vertex_ai",
    "google-gla": "gcp.gemini",
    "google-vertex": "gcp.vertex_ai",
    "grok": "x_ai",
    "mistral": "mistral_ai",
    "openai-chat": "openai",
    "openai-responses": "openai",
    "xai": "x_ai",
}
"""Providers by their name in a model's id, where the conventions have another."""
Shape: TypeAlias = tuple[str, dict[str, Any]]
"""Name of a span, and its attributes."""


def model_attributes(model: str) -> JsonObject:
    """A `provider:name` as the conventions have it."""
    provider, _, name = model.partition(":")
    known = _PROVIDERS.get(provider, provider) if name else None
    return {"gen_ai.request.model": name or model, "gen_ai.provider.name": known}


def answer_attributes(response: JsonObject) -> JsonObject:
    """Return attributes of an answer: its model, its tokens, and why it ended; nothing of its content."""
    usage = cast("JsonObject", response.get("usage") or {})
    finish = response.get("finish_reason")
    return {
        "gen_ai.response.model": response.get("model_name"),
        "gen_ai.response.id": response.get("provider_response_id"),
        "gen_ai.response.finish_reasons": None if finish is None else [str(finish)],
        "gen_ai.usage.input_tokens": int(usage.get("input_tokens") or 0),
        "gen_ai.usage.output_tokens": int(usage.get("output_tokens") or 0),
        "gen_ai.usage.cache_read.input_tokens": usage.get("cache_read_tokens") or None,
        "gen_ai.usage.cache_creation.input_tokens": usage.get("cache_write_tokens") or None,
    }


def conversation_part(request: JsonObject) -> JsonObject:
    """Return the part of the conversation that a model request carries; empty without any."""
    return _object(_object(request.get("model_settings")).get(CONVERSATION_SETTING))


def request_messages(request: JsonObject) -> list[JsonObject]:
    """The messages that a model request carries; where it refers to the answer before them, those behind it."""
    own = cast("list[Any]", request.get("messages") or [])
    part = conversation_part(request)
    found = own if part.get("answer") is None else [*cast("list[Any]", part.get("messages") or []), *own[1:]]
    return [one for one in found if isinstance(one, dict)]


def new_messages(messages: list[JsonObject]) -> list[JsonObject]:
    """Return the messages that a request added to the conversation: all after the last answer of the model."""
    answers = [place for place, message in enumerate(messages) if message.get("kind") == "response"]
    return messages[answers[-1] + 1 :] if answers else messages


def parts_of(message: JsonObject) -> list[JsonObject]:
    """The parts of a message; none where it is damaged."""
    return [part for part in cast("list[Any]", message.get("parts") or []) if isinstance(part, dict)]


def told_parts(message: JsonObject) -> list[JsonObject]:
    """The parts of a request that its model is told, with what the agent's loop notes down as the text it becomes."""
    return [told for part in parts_of(message) if (told := _told(part)) is not None]


def _told(part: JsonObject) -> JsonObject | None:
    kind, content = part.get("part_kind"), part.get("content")
    if kind == "tool-availability-delta":
        names = ", ".join(str(name) for name in cast("list[Any]", part.get("tools_added") or []))
        return {"part_kind": "system-prompt", "content": f"New tools: {names}"}
    if kind == "retry-feedback" and not isinstance(content, str):
        return {"part_kind": "user-prompt", "content": json.dumps(scrubbed(content, binary=False), ensure_ascii=False)}
    return None if kind in _UNTOLD else part


def input_messages(messages: list[JsonObject], *, binary: bool) -> list[JsonObject]:
    """Requests, by role."""
    found: list[JsonObject] = []
    for part in (part for message in messages for part in told_parts(message)):
        kind = part.get("part_kind")
        if kind == "tool-return" or (kind == "retry-prompt" and part.get("tool_name")):
            response = scrubbed(part.get("content"), binary=binary)
            shown = {"type": "tool_call_response", "id": part.get("tool_call_id"), "response": response}
            found.append({"role": "tool", "parts": [shown]})
        elif kind == "system-prompt":
            found.append({"role": "system", "parts": content_items(part.get("content"), binary=binary)})
        else:
            found.append({"role": "user", "parts": content_items(part.get("content"), binary=binary)})
    return found


def output_message(response: JsonObject, *, binary: bool) -> JsonObject:
    """The model's answer."""
    shown = [_answered(part, binary=binary) for part in parts_of(response)]
    return {"role": "assistant", "parts": shown, "finish_reason": response.get("finish_reason")}


def scrubbed(value: Any, *, binary: bool, levels: int = _DEEPEST) -> Any:
    """The value with every file in it reduced to its type, size and digest, unless `binary` keeps the bytes.

    What is more than `levels` levels deep is left out.
    """
    if not isinstance(value, (list, dict)):
        return value
    if not levels:
        return _TOO_DEEP
    if isinstance(value, list):
        return [scrubbed(item, binary=binary, levels=levels - 1) for item in cast("list[Any]", value)]
    given = cast("JsonObject", value)
    if given.get("kind") == "binary" and isinstance(given.get("data"), str):
        return _file(given, binary=binary)
    return {key: scrubbed(item, binary=binary, levels=levels - 1) for key, item in given.items()}


def as_text(value: Any) -> str:
    """JSON as one attribute. A model's JSON may hold half characters, which nothing that is sent can."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text.encode("utf-8", "replace").decode()


def _object(value: Any) -> JsonObject:
    return cast("JsonObject", value) if isinstance(value, dict) else {}


def _answered(part: JsonObject, *, binary: bool) -> JsonObject:
    kind = part.get("part_kind")
    if kind == "tool-call":
        arguments = scrubbed(arguments_of(part), binary=binary)
        return {"type": "tool_call", "id": part.get("tool_call_id"), "name": part.get("tool_name")} | {
            "arguments": arguments
        }
    if kind == "thinking":
        return {"type": "reasoning", "content": part.get("content")}
    if kind == "text":
        return {"type": "text", "content": part.get("content")}
    return {"type": str(kind), "content": scrubbed(part.get("content"), binary=binary)}


def arguments_of(part: JsonObject) -> Any:
    """The arguments of a tool call; models give them as an object or as JSON text."""
    given = part.get("args")
    if isinstance(given, str):
        try:
            return json.loads(given)
        except (ValueError, RecursionError):
            return given
    return given


def content_items(content: Any, *, binary: bool) -> list[JsonObject]:
    """Return the content of a part of a message: texts, files and addresses."""
    items = cast("list[Any]", content if isinstance(content, list) else [content])
    return [_item(item, binary=binary) for item in items]


def _item(item: Any, *, binary: bool) -> JsonObject:
    if isinstance(item, str):
        return {"type": "text", "content": item}
    if isinstance(item, dict):
        given = cast("JsonObject", item)
        url = given.get("url")
        if isinstance(url, str) and url.startswith(_BLOB_SCHEME):
            reference, _, name = url.removeprefix(_BLOB_SCHEME).partition("#")
            digest = reference.partition("?")[0]
            return {"type": "file", "name": unquote(name), "media_type": given.get("media_type"), "sha256": digest}
        if given.get("kind") in _FILE_URLS:
            return {"type": "uri", "uri": url, "media_type": given.get("media_type")}
        if given.get("kind") == "binary":
            return _file(given, binary=binary)
    return {"type": "other", "content": scrubbed(item, binary=binary)}


def _file(given: JsonObject, *, binary: bool) -> JsonObject:
    text = str(given.get("data") or "")
    try:
        # Pydantic writes bytes with the URL-safe alphabet.
        data = base64.b64decode(text.translate(str.maketrans("-_", "+/")) + "=" * (-len(text) % 4))
    except (binascii.Error, ValueError):
        data = text.encode()
    facts = {"name": given.get("identifier") or "", "media_type": given.get("media_type"), "bytes": len(data)}
    shown: JsonObject = {"type": "file", **facts, "sha256": hashlib.sha256(data).hexdigest()}
    return shown | {"data": base64.b64encode(data).decode()} if binary else shown


def run_shape(run: str, worker: str) -> Shape:
    """Return the shape of a whole run: `run` is its id, `worker` the name of its entry."""
    return f"run {worker}", {"llm_do.run": run, "llm_do.worker": worker}


def invocation_shape(worker: str, *, workflow_id: str, path: str, depth: int, sha256: object, model: str) -> Shape:
    """Return the shape of one invocation of a worker.

    `sha256` is the digest of the worker's definition, `model` the `provider:name` that is asked first.
    """
    return f"invoke_agent {worker}", {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": worker,
        "gen_ai.conversation.id": workflow_id,
        "llm_do.path": path,
        "llm_do.depth": depth,
        "llm_do.worker.sha256": sha256,
        **model_attributes(model),
    }


def turn_shape(workflow_id: str, model: str | None) -> Shape:
    """Return the shape of one turn; `model` is the `provider:name` that is asked, None before that is known."""
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.conversation.id": workflow_id}
    if model is None:
        return "chat", attributes
    known = model_attributes(model)
    return f"chat {known['gen_ai.request.model']}", attributes | known


def tool_shape(tool: str, call_id: str | None) -> Shape:
    """Return the shape of one tool call."""
    return f"execute_tool {tool}", {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": tool,
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": call_id,
    }


def approval_shape(tool: object) -> Shape:
    """Return the shape of a question for a person about a call of `tool`."""
    return "approval", {"llm_do.tool": tool}
