"""Parts of capabilities in an invocation: tools, a layer for its changes, and what is done before it ends.

Which capabilities may have a part is pinned in the settings of the run, by name and version. Where one is not installed
in that version, the task of the workflow fails, and not the run: another service can go on with it.

The gate alone judges calls and has them carried out. A part offers tools that pass the gate like any other; it cannot
reach the calls of others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from llm_do_temporal.extension import installed
from llm_do_temporal.messages.base import Json
from llm_do_temporal.messages.definitions import DelegateTool
from llm_do_temporal.messages.runs import InvokeWorkerInput
from llm_do_temporal.workflows.tools.gated_tool import AsksDesk, GatedTool
from llm_do_temporal.workflows.tools.working_layer import WorkingLayer


class MissingExtension(Exception):
    """Error of a service that lacks a capability of a run. It fails the task of the workflow, which goes to another."""


@dataclass
class PartHost:
    """Things of an invocation that a part may use."""

    desk: AsksDesk
    offer: Callable[[DelegateTool], None]
    """Offers a worker that the invocation has made as a tool."""
    state: Json = None
    """State of the part before the workflow was continued as new; None: it has none, or begins."""
    layer: WorkingLayer | None = None
    """Layer that takes the changes of files; None: the workshop's files do. Known once all parts are made."""


class InvocationPart:
    """Base class of a part. Methods do nothing unless they are overridden."""

    needs_layer = False
    """Whether changes of files go into a layer. The part then sees to it that they are made in the end."""

    def tools(self) -> Sequence[GatedTool]:
        """Return further tools."""
        return ()

    async def before_end(self) -> str:
        """Do what is left to do when the model has ended its work, and return words for it; empty: it may end."""
        return ""

    def state(self) -> Json:
        """Return the state that is handed to the part once the workflow was continued as new; None: none."""
        return None


PartMaker = Callable[[InvokeWorkerInput, PartHost], InvocationPart | None]


@cache
def part_makers() -> Mapping[str, tuple[int, PartMaker]]:
    """Return version and maker of each capability with a part in invocations, by name; they are loaded once."""
    found = ((one.name, one.version, one.invocation_part()) for one in installed())
    return {name: (version, maker) for name, version, maker in found if maker is not None}


def parts_of(invocation: InvokeWorkerInput, host: Callable[[str], PartHost]) -> dict[str, InvocationPart]:
    """Return the parts in an invocation by the names of their capabilities, in the order that is pinned.

    Raises MissingExtension.
    """
    parts: dict[str, InvocationPart] = {}
    for name, version in invocation.settings.extensions.items():
        here, maker = part_makers().get(name, (None, None))
        if maker is None or here != version:
            has = "is not installed" if here is None else f"has version {here}"
            raise MissingExtension(
                f"run '{invocation.run}' was begun with version {version} of the extension '{name}', which {has} in "
                "this worker service; it goes on where a service has it"
            )
        part = maker(invocation, host(name))
        if part is not None:
            parts[name] = part
    return parts
