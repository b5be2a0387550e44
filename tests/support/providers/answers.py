"""What the scripted provider can answer, as values. Scripts and tests build them; `provider` serves them.

An answer says nothing about HTTP: `wire` gives it its form. Answers nest: `Delayed(2, Failure(500))` is a slow error,
`Gated(gate, Drop())` a connection that breaks when the test says so. Where `then` is left out, the script is asked.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.support.patience import PATIENCE_SECONDS

MAX_WAIT_SECONDS = float(PATIENCE_SECONDS)
"""How long a test waits for something to happen before it fails."""


class Gate:
    """A place where an answer stops until the test opens it. Waiting blocks: in async code use `asyncio.to_thread`."""

    def __init__(self) -> None:
        self._reached = threading.Event()
        self._opened = threading.Event()

    def open(self) -> None:
        """Let the answer through, and every later one that comes to this gate."""
        self._opened.set()

    def wait_until_reached(self, timeout: float = MAX_WAIT_SECONDS) -> None:
        """Return once an answer stands at the gate."""
        if not self._reached.wait(timeout):
            raise TimeoutError(f"no answer came to the gate within {timeout} s")

    def stand(self) -> None:
        """Be the answer: say that it has come, and wait until the gate is open."""
        self._reached.set()
        self._opened.wait()


@dataclass(frozen=True)
class Usage:
    """Token counts to report instead of the ones derived from the sizes of request and answer."""

    prompt_tokens: int
    completion_tokens: int


@dataclass(frozen=True)
class Reported:
    """Whatever stands where the token counts belong, as it is; None: nothing does."""

    value: Any = None


@dataclass(frozen=True)
class Text:
    """The model says something."""

    text: str
    usage: Usage | Reported | None = None
    pause: Gate | None = None
    """In a stream, stop here after half of the pieces. Without a stream it has no effect."""


@dataclass(frozen=True)
class Call:
    """One tool call of an answer."""

    name: str
    args: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class ToolCalls:
    """The model calls tools, all in one answer."""

    calls: tuple[Call, ...]
    text: str | None = None
    usage: Usage | Reported | None = None


@dataclass(frozen=True)
class Failure:
    """An HTTP error with OpenAI's body. `retry_after_seconds` becomes the header."""

    status: int
    message: str = "The scripted provider was told to fail."
    code: str | None = None
    type: str | None = None
    retry_after_seconds: float | None = None


@dataclass(frozen=True)
class Drop:
    """The connection closes halfway through the answer."""

    of: Text | ToolCalls = field(default_factory=lambda: Text("This sentence is never finished by anybody."))


@dataclass(frozen=True)
class Garbage:
    """Status 200 and a body that is not JSON."""

    body: bytes = b'{"id": "chatcmpl-1", "choices": [{"mess'


@dataclass(frozen=True)
class Delayed:
    """The answer comes after so many seconds, or never if the provider is closed before that."""

    seconds: float
    then: Answer | None = None


@dataclass(frozen=True)
class Gated:
    """The answer comes when the test opens the gate, or never if the provider is closed before that."""

    gate: Gate
    then: Answer | None = None


Answer = Text | ToolCalls | Failure | Drop | Garbage | Delayed | Gated
Served = Text | ToolCalls | Failure | Drop | Garbage
Script = Callable[[dict[str, Any], int], Answer]
"""Takes a request's JSON and its number among the requests the script was asked about, from 1."""


def tool_call(name: str, /, **args: Any) -> ToolCalls:
    """One tool call, the usual answer of a scripted turn."""
    return ToolCalls((Call(name, args),))


def rate_limited(retry_after_seconds: float) -> Failure:
    """What OpenAI says to a client that asks too often."""
    return Failure(429, "Rate limit reached.", "rate_limit_exceeded", "tokens", retry_after_seconds)


def unauthorized() -> Failure:
    """What OpenAI says to a wrong key."""
    return Failure(401, "Incorrect API key provided.", "invalid_api_key", "invalid_request_error")
