"""Content keys of the calls of an invocation; requests of activities carry that of their call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar, cast

from pydantic import BaseModel

from llm_do_temporal.policy.identity import call_key
from llm_do_temporal.policy.values import canonical

_CALL: ContextVar[str] = ContextVar("llm_do_call", default="")
_KEY = "content_key"
Request = TypeVar("Request")


class CallKeys:
    """Keys of an invocation's calls."""

    def __init__(self) -> None:
        self._turn = ""
        self._occurrences: Counter[str] = Counter()

    def begin_answer(self, turn_key: str) -> None:
        """Begin with the calls of the answer of this turn; empty: the turn has no key, and its calls have none."""
        self._turn = turn_key
        self._occurrences.clear()

    def key_of(self, tool: str, args: dict[str, Any]) -> str:
        """Return the key of a call that begins now: of the newest answer, or of the call that is being carried out."""
        by = current_call() or self._turn
        equal = canonical([by, tool, args])
        self._occurrences[equal] += 1
        return call_key(by, tool, args, self._occurrences[equal])


@contextmanager
def carried_out(key: str) -> Generator[None]:
    """Have this key as that of the call which the code inside carries out; empty: it has none."""
    before = _CALL.get()
    _CALL.set(key)
    try:
        yield
    finally:
        # No reset: a workflow that leaves memory is closed in another context.
        _CALL.set(before)


def current_call() -> str:
    """Return the key of the call that is being carried out; empty: there is none."""
    return _CALL.get()


def marked(request: Request) -> Request:
    """Return the request of an activity with the key of its call, where it has a field for that, which is not set."""
    if not isinstance(request, BaseModel) or _KEY not in type(request).model_fields or getattr(request, _KEY):
        return request
    return cast("Request", request.model_copy(update={_KEY: current_call()})) if current_call() else request
