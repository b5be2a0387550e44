"""What a model says, whatever the protocol: the scripts of `server` are made of these."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

Json = dict[str, Any]
TOOL_NAME = r"[a-zA-Z0-9_-]{1,64}"


@dataclass(frozen=True)
class Say:
    text: str


@dataclass(frozen=True)
class Think:
    """Thinking, signed where the protocol signs it."""

    text: str


@dataclass(frozen=True)
class Ask:
    """A tool call. `args` that are a text are what the model wrote and no JSON."""

    name: str
    args: Json | str = field(default_factory=dict[str, Any])
    id: str | None = None
    """Id of the call, where the protocol has one; None: one of its own."""

    @property
    def written(self) -> str:
        """The arguments as text."""
        return self.args if isinstance(self.args, str) else json.dumps(self.args)


Part = Say | Think | Ask


End = Literal["done", "length", "window", "filter", "recitation", "unsaid"]
"""Reason why an answer ends: it is whole, is as long as was allowed, fills the context window, or is filtered;
unsaid: the server closes it politely and sends no reason."""


@dataclass(frozen=True)
class Answer:
    """One answer; no parts: an empty one. `refusal` is what the model says instead."""

    parts: tuple[Part, ...] = ()
    end: End = "done"
    refusal: str | None = None
    at: int | None = None
    """Index of every call in a stream, where it is not its place."""
    once: bool = False
    """Whether the same request gets the next answer when it comes again."""

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.parts if isinstance(part, Say))

    @property
    def thought(self) -> str:
        return "".join(part.text for part in self.parts if isinstance(part, Think))

    @property
    def calls(self) -> list[Ask]:
        return [part for part in self.parts if isinstance(part, Ask)]


@dataclass(frozen=True)
class Failure:
    """An HTTP error in the provider's words."""

    status: int
    message: str


@dataclass(frozen=True)
class Raw:
    """Whatever a server sends: an HTTP answer as it is."""

    data: bytes
    media_type: str = "text/event-stream"
    status: int = 200
    once: bool = False
    """Whether the same request gets the next answer when it comes again."""
    encoding: str = ""
    """Content encoding that its header names; empty: no such header."""
    sized: bool = True
    """Whether a header says how long it is; otherwise it ends where the server closes the connection."""


def says(*parts: Part | str, end: End = "done", at: int | None = None, once: bool = False) -> Answer:
    """An answer of these parts."""
    return Answer(tuple(Say(part) if isinstance(part, str) else part for part in parts), end, at=at, once=once)


def asks(name: str, /, **args: Any) -> Answer:
    """An answer that is one tool call."""
    return says(Ask(name, args))


def signed(text: str) -> str:
    """The signature of a thought, which its provider can check."""
    return hashlib.sha256(f"thought: {text}".encode()).hexdigest()


def halves(text: str) -> Iterator[str]:
    """A text in two pieces, as a stream brings it; nothing of an empty one."""
    middle = len(text) // 2
    return (piece for piece in (text[:middle], text[middle:]) if piece)


def is_object(text: Any) -> bool:
    """Whether a text is a JSON object."""
    try:
        return isinstance(json.loads(text), dict)
    except (TypeError, ValueError):
        return False
