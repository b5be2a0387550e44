"""Content key of the call that is being carried out: requests of activities carry it, so that a fork finds them."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar, cast

from pydantic import BaseModel
from temporalio import workflow

from llm_do_temporal.messages.experiments.source import ForkSource

_CALL: ContextVar[str] = ContextVar("llm_do_call", default="")
_KEY, _FORK = "content_key", "fork"
Request = TypeVar("Request")


class _Forked(Protocol):
    fork: ForkSource | None


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
    """Return the request of an activity with the key of its call, and with the record that a fork reads in.

    Only where it has fields for them, which are not set.
    """
    if not isinstance(request, BaseModel):
        return request
    fields = type(request).model_fields
    more: dict[str, Any] = {}
    if _KEY in fields and current_call() and not getattr(request, _KEY):
        more[_KEY] = current_call()
    if _FORK in fields and getattr(request, _FORK) is None:
        fork = cast("_Forked", workflow.instance()).fork
        if fork is not None and fork.then:
            more[_FORK] = fork
    return cast("Request", request.model_copy(update=more)) if more else request
