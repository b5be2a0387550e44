"""Sends conversations to OpenAI-compatible servers without having the client library look at every message again.

The library walks through all messages and tools of a request to rename keys, though chat completions have none to
rename. For a conversation of 80 turns that is two thirds of the processor time of a turn, and it grows with the
conversation. What is handed over as `extra_body`, which is a documented way to send anything, is sent as it is.
"""

from __future__ import annotations

from functools import cache, cached_property
from typing import Any, cast

from pydantic_ai.models import Model

_AS_MADE = ("messages", "tools")
"""The parts of a request that are long, and are plain JSON already."""


def skip_transform(model: Model) -> Model:
    """The model, told to send its requests as they were made if it speaks chat completions through OpenAI's library."""
    from pydantic_ai.models.openai import OpenAIChatModel

    if isinstance(model, OpenAIChatModel):
        # Options make a copy of a client, of the same class: so it is the class that must know.
        client = cast("Any", model.client)
        client.__class__ = _quick(cast("type[Any]", type(client)))
    return model


@cache
def _quick(kind: type[Any]) -> type[Any]:
    """A client class like `kind`."""
    from openai.resources.chat import AsyncChat, AsyncCompletions

    class Completions(AsyncCompletions):
        async def create(self, **given: Any) -> Any:
            """See AsyncCompletions."""
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

    return Client
