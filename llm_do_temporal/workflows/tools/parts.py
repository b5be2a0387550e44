"""Parts of extensions in an invocation: tools, a layer for its changes, and what is done before it ends.

Which extensions may have a part is pinned in the settings of the run, by name and version. Where one is not installed
in that version, the task of the workflow fails, and not the run: another service can go on with it.

The gate alone judges calls and has them carried out. A part offers tools that pass the gate like any other. Of calls it
may know the outcome already: then nothing is judged and nothing is done. It may have people asked more often, and never
less.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, Literal, Never

from pydantic_ai.exceptions import ModelRetry, ToolFailed
from temporalio.exceptions import FailureError
from temporalio.workflow import NondeterminismError, ReadOnlyContextError

from llm_do_temporal.errors import EffectFailed, LlmDoError
from llm_do_temporal.extension import Extension, installed
from llm_do_temporal.messages.base import Json
from llm_do_temporal.messages.budget import Usage
from llm_do_temporal.messages.definitions import DelegateTool
from llm_do_temporal.messages.runs import InvocationResult, InvokeWorkerInput
from llm_do_temporal.workflows.tools.gated_tool import AsksDesk, GatedTool, ToolOutcome
from llm_do_temporal.workflows.tools.working_layer import WorkingLayer


class MissingExtension(Exception):
    """Error of a service that lacks an extension of a run. It fails the task of the workflow, which goes to another."""


@dataclass
class PartHost:
    """Things of an invocation that a part may use."""

    desk: AsksDesk | None = None
    """None where the invocation does not run: a batch asks about its items before they begin."""
    offer: Callable[[DelegateTool], None] | None = None
    """Offers a worker that the invocation has made as a tool. None as for `desk`."""
    state: Json = None
    """State of the part before the workflow was continued as new; None: it has none, or begins."""
    layer: WorkingLayer | None = None
    """Layer that takes the changes of files; None: the workshop's files do. Known once all parts are made."""


@dataclass(frozen=True)
class KnownStep:
    """Outcome of a call, a delegation or the end of an invocation that is known already: it is not carried out."""

    outcome: Literal["returned", "failed", "retry"] = "returned"
    """`failed` and `retry`: the model gets `content` as a ToolFailed or a ModelRetry."""
    content: Json = None
    usage: Usage = field(default_factory=Usage)
    result: InvocationResult | None = None
    """Result of a delegation that is known by its inputs; None for anything else."""

    def for_model(self) -> ToolOutcome:
        """Return the outcome of a call. Raises ToolFailed and ModelRetry where it came to these."""
        if self.outcome == "failed":
            raise ToolFailed(str(self.content))
        if self.outcome == "retry":
            raise ModelRetry(str(self.content))
        return ToolOutcome(self.content, self.usage)


@dataclass(frozen=True)
class Advice:
    """Advice of a part on a step before it is judged. It can keep an effect from happening, and have none happen."""

    known: KnownStep | None = None
    """Outcome of the step; None: it is judged and carried out."""
    asks: bool = False
    """Whether people are asked even where the call only changes a layer."""
    doubtful: bool = False
    """Whether the call may have happened already, so that a person decides."""


NO_ADVICE = Advice()


class InvocationPart:
    """Base class of a part. Methods do nothing unless they are overridden."""

    needs_layer = False
    """Whether changes of files go into a layer. The part then sees to it that they are made in the end."""

    def tools(self) -> Sequence[GatedTool]:
        """Return further tools."""
        return ()

    async def advice(self, key: str) -> Advice:
        """Return what is known of the step with this content key, before it is judged."""
        return NO_ADVICE

    def of_turn(self) -> Json:
        """Return what its extension is told of each model turn, in the activity; None: nothing."""
        return None

    async def before_end(self) -> str:
        """Do what is left to do when the model has ended its work, and return words for it; empty: it may end."""
        return ""

    def state(self) -> Json:
        """Return the state that is handed to the part once the workflow was continued as new; None: none."""
        return None


class Parts:
    """Parts in an invocation. An error of a part that is none of ours ends its call or the invocation, not the task."""

    def __init__(self, parts: Mapping[str, InvocationPart]) -> None:
        """`parts` are by the names of their extensions, in the order that is pinned."""
        self._parts = parts

    @property
    def needs_layer(self) -> bool:
        """Whether changes of files go into a layer."""
        return any(part.needs_layer for part in self._parts.values())

    @property
    def has_end(self) -> bool:
        """Whether a part does something before the end."""
        return any(type(part).before_end is not InvocationPart.before_end for part in self._parts.values())

    async def advice(self, key: str) -> Advice:
        """Return the advice of all parts on the step with this key; empty: it has none, and there is no advice.

        The first part that knows the step is believed.
        """
        found = NO_ADVICE
        for name, part in self._parts.items() if key else ():
            with _explained(name):
                told = await part.advice(key)
                known: Any = told.known
                if not isinstance(known, KnownStep | None):
                    raise TypeError(f"its advice knows {type(known).__name__}")
                if told.known is not None:
                    return told
                found = Advice(asks=found.asks or told.asks, doubtful=found.doubtful or told.doubtful)
        return found

    def of_turn(self) -> dict[str, Json]:
        """Return what extensions are told of each model turn, by their names."""
        told: dict[str, Json] = {}
        for name, part in self._parts.items():
            with _explained(name):
                told[name] = part.of_turn()
        return {name: value for name, value in told.items() if value is not None}

    def tools(self) -> dict[str, list[GatedTool]]:
        """Return the tools of each part, by the name of its extension."""
        found: dict[str, list[GatedTool]] = {}
        for name, part in self._parts.items():
            with _explained(name):
                found[name] = [tool for tool in part.tools() if callable(tool.prepare) and (tool.name, tool.schema)]
        return found

    async def before_end(self) -> str:
        """Return the words of all parts for the model; empty: it may end."""
        words: list[str] = []
        for name, part in self._parts.items():
            with _explained(name):
                words.append(_text(await part.before_end()))
        return "\n\n".join(filter(None, words))

    def states(self) -> dict[str, Json]:
        """Return the states of the parts that have one."""
        found: dict[str, Json] = {}
        for name, part in self._parts.items():
            with _explained(name):
                found[name] = part.state()
        return {name: state for name, state in found.items() if state is not None}


@contextmanager
def _explained(name: str) -> Generator[None]:
    """Raise EffectFailed for an error of a part that is neither ours nor Temporal's."""
    try:
        yield
    except (LlmDoError, FailureError, NondeterminismError, ReadOnlyContextError):
        raise
    except Exception as error:
        raise EffectFailed(f"the extension '{name}' failed: {type(error).__name__}: {error}") from error


def _text(words: Any) -> str:
    if not isinstance(words, str | None):
        raise TypeError(f"it has {type(words).__name__} for the model")
    return words or ""


class _BrokenPart(InvocationPart):
    """Part that could not be made: the invocation ends with the error before its first turn."""

    def __init__(self, error: EffectFailed) -> None:
        self._error = error

    def tools(self) -> Sequence[GatedTool]:
        """See InvocationPart."""
        raise self._error

    async def advice(self, key: str) -> Advice:
        """See InvocationPart."""
        raise self._error


NO_PARTS = Parts({})
PartMaker = Callable[[InvokeWorkerInput, PartHost], InvocationPart | None]


@cache
def part_makers() -> Mapping[str, tuple[int, PartMaker]]:
    """Return version and maker of each installed extension, by name; what they need is loaded once."""
    return {one.name: (one.version, _maker_of(one)) for one in installed()}


def _maker_of(extension: Extension) -> PartMaker:
    """Return what makes the part of an extension; an error in asking for it is that of each part."""
    try:
        return extension.invocation_part() or _no_part
    except Exception as error:
        return partial(_raise, error)


def _no_part(_invocation: InvokeWorkerInput, _host: PartHost) -> None:
    return None


def _raise(error: Exception, _invocation: InvokeWorkerInput, _host: PartHost) -> Never:
    raise error


def _made(name: str, make: PartMaker, invocation: InvokeWorkerInput, host: PartHost) -> InvocationPart | None:
    try:
        with _explained(name):
            part = make(invocation, host)
            needs_layer: Any = part is not None and part.needs_layer
            if not isinstance(needs_layer, bool):
                raise TypeError(f"its part says {needs_layer!r} of layers")
            return part
    except EffectFailed as error:
        return _BrokenPart(error)


def parts_of(invocation: InvokeWorkerInput, host: Callable[[str], PartHost]) -> Parts:
    """Return the parts in an invocation by the names of their extensions, in the order that is pinned.

    Raises MissingExtension.
    """
    parts: dict[str, InvocationPart] = {}
    for name, version in invocation.settings.extensions.items():
        here, make = part_makers().get(name, (None, None))
        if make is None or here != version:
            has = "is not installed" if here is None else f"has version {here}"
            raise MissingExtension(
                f"run '{invocation.run}' was begun with version {version} of the extension '{name}', which {has} in "
                "this worker service; it goes on where a service has it"
            )
        part = _made(name, make, invocation, host(name))
        if part is not None:
            parts[name] = part
    return Parts(parts)
