"""Layer that an invocation works on, as its workflow knows it: where most of it is kept, and its newest entries.

Owns the order of changes: calls that change the layer go one after the other, each over the state that the one before
has left. Calls that only read go on meanwhile. Must not look into files; activities do.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from typing import Protocol, TypeVar

from pydantic import BaseModel

from llm_do_temporal.messages.activities import JOIN_LAYERS
from llm_do_temporal.messages.definitions import DelegateTool
from llm_do_temporal.messages.layers import JoinLayersInput, LayerState, LayerWork
from llm_do_temporal.messages.runs import InvokeWorkerInput
from llm_do_temporal.policy.layers.layer import CarriedLayer, LayerAuthor, LayerUpdate
from llm_do_temporal.workflows.runtime.activities import run_local_first


class ChangesLayer(Protocol):
    """Result of an activity that may have changed a layer."""

    @property
    def layer(self) -> LayerUpdate | None:
        """Change of the layer; None: there is none."""
        ...


Request = TypeVar("Request", bound=BaseModel)
Changed = TypeVar("Changed", bound=ChangesLayer)


class WorkingLayer:
    """Layer of one invocation."""

    def __init__(self, state: LayerState, invocation: InvokeWorkerInput, turn: Callable[[], int]) -> None:
        """`turn` returns the number of the invocation's model turn."""
        self.state = state
        self._invocation = invocation
        self._turn = turn
        self._order = asyncio.Lock()

    @property
    def carried(self) -> CarriedLayer:
        """The layer, as it travels to activities and children."""
        return self.state.carried

    @property
    def work(self) -> LayerWork:
        """The layer for an activity, with the author of what that changes."""
        return LayerWork(carried=self.carried, author=LayerAuthor(invocation=self._invocation.path, turn=self._turn()))

    async def change(self, run: Callable[[LayerWork], Awaitable[Changed]]) -> Changed:
        """Run an activity that may change the layer, alone, and take its change over."""
        async with self._order:
            result = await run(self.work)
            if result.layer is not None:
                self.put(self.carried.updated(result.layer))
            return result

    async def join(self, fork: CarriedLayer, child: CarriedLayer | None) -> str:
        """Join the layer of a child that began from `fork`; None: it changed nothing.

        Return words for the caller's model about changes that were not taken, because the same files had been changed
        meanwhile; empty where there are none.
        """
        if child is None or child == fork:
            return ""
        async with self._order:
            if self.carried == fork:
                self.put(child)
                return ""
            request = JoinLayersInput(mine=self.carried, child=child, fork=fork, tree=self._invocation.tree)
            joined = await run_local_first(JOIN_LAYERS, request, summary="join the changes of a worker")
            self.put(self.carried.updated(joined.update))
        if not joined.conflicts:
            return ""
        more = f"\nand {joined.more} more" if joined.more else ""
        listed = "\n".join(joined.conflicts)
        return (
            "These changes of the worker were not taken, because the same was changed in another way meanwhile; the "
            f"files are as they were without it. Look at them, and do again what is still needed:\n{listed}{more}"
        )

    @asynccontextmanager
    async def alone(self) -> AsyncGenerator[None]:
        """Keep all other changes waiting meanwhile."""
        async with self._order:
            yield

    def put(self, carried: CarriedLayer) -> None:
        """Have the layer in another state."""
        self.state = self.state.model_copy(update={"carried": carried})

    def propose(self, source: str, text: str, tool: DelegateTool) -> None:
        """Note a worker that was made in the layer: the path of its file below the workshop, its text, the tool."""
        state, sha256 = self.state, hashlib.sha256(text.encode()).hexdigest()
        update = {"created": {**state.created, source: sha256}, "proposed": {**state.proposed, source: tool}}
        self.state = state.model_copy(update=update)

    def settle(self, kept: CarriedLayer, workers: Collection[str] = ()) -> None:
        """Go on with the layer `kept`; files of `workers` are made, and others that stay are new as before."""
        state = self.state
        self.state = LayerState(
            carried=kept,
            created={path: digest for path, digest in state.created.items() if path not in workers},
            proposed={path: tool for path, tool in state.proposed.items() if path not in workers},
        )


def through(layer: WorkingLayer | None, request: Request) -> Request:
    """Return the request as one that goes through the layer as it is now; None: to the workshop's files."""
    return request if layer is None else request.model_copy(update={"layer": layer.work})
