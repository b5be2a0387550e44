"""Sends conversations to OpenAI-compatible servers: in the order their templates take, and as they were made.

Many servers put a conversation into the chat template of their model, which is stricter than OpenAI: one system
message and that first, then users and assistants in turn, and no content that is null. Conversations are put in that
order for all of them; it means the same to those that would take any.

The client library walks through all messages and tools of a request to rename keys, though chat completions have none
to rename. For a conversation of 80 turns that is two thirds of the processor time of a turn, and it grows with the
conversation. What is handed over as `extra_body`, which is a documented way to send anything, is sent as it is.
"""

from __future__ import annotations

import re
from functools import cache, cached_property
from typing import Any, cast
from urllib.parse import urlsplit

from pydantic_ai.models import Model
from pydantic_ai.profiles import merge_profile

_AS_MADE = ("messages", "tools")
"""The parts of a request that are long, and are plain JSON already."""
_KNOWN = frozenset(("azure", "openrouter"))
"""Providers that take system messages wherever they stand, or whose profiles say which models do."""
_MISTRAL = re.compile("[sx]tral")
"""Part of the names of models of Mistral. Their templates take only ids of calls that have nine letters and digits, and
no user after the result of a call."""
_SEEN = {"role": "assistant", "content": "OK"}
"""Stands between the result of a call and a user for these models, as in the library's adapter for Mistral itself."""


_Message = dict[str, Any]


def for_templates(model: Model) -> Model:
    """The model, told that its server may put a conversation into a chat template.

    Those of OpenAI itself stay as they are, and those of OpenRouter, whose profile knows each model.
    """
    from pydantic_ai.models.openai import OpenAIChatModel

    if isinstance(model, OpenAIChatModel) and not _takes_system_text_anywhere(model.provider):
        strict: Any = {"supports_inline_system_prompts": False, "openai_chat_supports_multiple_system_messages": False}
        if is_of_mistral(model.model_name):
            strict["tool_call_id_length"] = 9
        # A profile is looked up once, and kept there.
        vars(model)["profile"] = merge_profile(model.profile, strict)
    return model


def with_whole_schemas(model: Model) -> Model:
    """The model, told to send the schemas of tools as they are where OpenAI's strict mode cannot hold them.

    The library closes each object of such a schema, too: what takes any arguments would be offered as taking none.
    """
    from pydantic_ai.profiles.openai import OpenAIJsonSchemaTransformer

    kind: Any = model.profile.get("json_schema_transformer")
    if isinstance(kind, type) and issubclass(kind, OpenAIJsonSchemaTransformer):
        vars(model)["profile"] = merge_profile(model.profile, {"json_schema_transformer": _whole(kind)})
    return model


@cache
def _whole(kind: type[Any]) -> type[Any]:
    """A transformer like `kind` that changes nothing of what a schema takes outside of strict mode."""

    class Whole(kind):
        def walk(self) -> Any:
            """See JsonSchemaTransformer."""
            found = cast("Any", super().walk())
            if self.strict is not None or self.is_strict_compatible:
                return found
            return kind(self.schema, strict=False).walk()

    return Whole


def _takes_system_text_anywhere(provider: Any) -> bool:
    host = urlsplit(str(provider.base_url)).hostname or ""
    return provider.name in _KNOWN or (provider.name == "openai" and host.endswith(".openai.com"))


def is_of_mistral(model: object) -> bool:
    """Whether a model is one of Mistral, by its name."""
    return _MISTRAL.search(str(model).lower()) is not None


def in_order(messages: list[_Message], *, seen: bool = False) -> list[_Message]:
    """Return the conversation as the strictest chat template takes it; the messages given stay as they are.

    Where `seen`, an answer stands between the result of a call and a user.
    """
    found: list[_Message] = []
    for message in messages:
        role = message.get("role")
        if seen and role == "user" and found and found[-1].get("role") == "tool":
            found.append(_SEEN)
        before = found[-1] if found and role in {"user", "assistant"} else {}
        if before and role == before.get("role") and before.get("name") == message.get("name"):
            found[-1] = _joined(before, message)
        elif message.get("content") is None and role == "assistant":
            found.append({**message, "content": ""})
        else:
            found.append(message)
    return found


def _joined(before: _Message, message: _Message) -> _Message:
    """Return two messages of one role as one."""
    joined = {**before, **{key: value for key, value in message.items() if key not in {"content", "tool_calls"}}}
    calls = [*(before.get("tool_calls") or ()), *(message.get("tool_calls") or ())]
    joined["content"] = _contents(before.get("content"), message.get("content"))
    return {**joined, "tool_calls": calls} if calls else joined


def _contents(first: Any, second: Any) -> Any:
    if not first or not second:
        return first or second or ""
    if isinstance(first, str) and isinstance(second, str):
        return f"{first}\n\n{second}"
    return [*_parts(first), *_parts(second)]


def _parts(content: Any) -> list[Any]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def skip_transform(model: Model) -> Model:
    """The model, told to send its requests as they were made if it speaks chat completions through OpenAI's library."""
    from pydantic_ai.models.openai import OpenAIChatModel

    if isinstance(model, OpenAIChatModel):
        # Options make a copy of a client, of the same class: so it is the class that must know.
        client = cast("Any", model.client)
        client.__class__ = _quick(cast("type[Any]", type(client)))
        vars(client).pop("chat", None)
        client.max_retries = 0
    return model


@cache
def _quick(kind: type[Any]) -> type[Any]:
    """A client class like `kind`."""
    from openai.resources.chat import AsyncChat, AsyncCompletions

    class Completions(AsyncCompletions):
        async def create(self, **given: Any) -> Any:
            """See AsyncCompletions."""
            if isinstance(given.get("messages"), list):
                given["messages"] = in_order(given["messages"], seen=is_of_mistral(given.get("model")))
            body = {name: given[name] for name in _AS_MADE if isinstance(given.get(name), list)}
            # An empty list in its place, because the library insists on messages.
            given |= {name: cast("list[Any]", []) for name in body}
            given["extra_body"] = {**(given.get("extra_body") or {}), **body}
            return await cast("Any", super()).create(**given)

    class Chat(AsyncChat):
        @cached_property
        def completions(self) -> AsyncCompletions:  # pyright: ignore[reportIncompatibleMethodOverride]
            """See AsyncChat."""
            return Completions(self._client)

    class Client(kind):
        @cached_property
        def chat(self) -> AsyncChat:
            """See AsyncOpenAI."""
            return Chat(cast("Any", self))

        def with_options(self, **options: Any) -> Any:
            """See AsyncOpenAI. What would be a copy with the same options is the client itself.

            Each copy asks in a thread of its own which platform it runs on.
            """
            same: dict[str, Any] = {"http_client": self._client, "max_retries": self.max_retries, "_extra_kwargs": {}}
            return self if options == same else kind.with_options(self, **options)

    return Client
