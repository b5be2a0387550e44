"""The check of changes that are not made yet: the workshop's `check_command`, over the layer that holds them.

Owns where a check runs and what is kept of it. Nothing that it writes is kept, so it may be run any number of times.
A check that cannot be run is a result, too: it says why, and people decide without it.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Callable
from pathlib import Path

from temporalio import activity

from llm_do_temporal.activities.commands.environment import program_problem, run_on
from llm_do_temporal.activities.commands.ground import Ground
from llm_do_temporal.activities.commands.layer_grounds import LayerGrounds
from llm_do_temporal.activities.runtime.failures import user_errors
from llm_do_temporal.activities.runtime.threads import in_thread
from llm_do_temporal.definitions.workshop.workshop import load_workshop
from llm_do_temporal.errors import BlobsUnreachable, LlmDoError
from llm_do_temporal.messages.activities import CHECK_CHANGES
from llm_do_temporal.messages.effects import ShellInput
from llm_do_temporal.messages.reviews import CHECK_OUTPUT_BYTES, CHECK_SECONDS, CheckChangesInput, CheckResult
from llm_do_temporal.policy.files.sandbox import Mount, Tree, root_tree
from llm_do_temporal.policy.layers.layer import CarriedLayer
from llm_do_temporal.sandbox.bubblewrap import working_bwrap
from llm_do_temporal.sandbox.layers.overlay import scratch_folder
from llm_do_temporal.sandbox.processes import Ended
from llm_do_temporal.storage.blobs import BlobStore

_TOP = Mount(at="/", root=".")


class CheckActivities:
    """Checks in one workshop. `bwrap` and `layers` are for machines (and tests) that differ."""

    def __init__(
        self,
        workshop: Path,
        blobs: BlobStore,
        bwrap: Callable[[], str | None] = working_bwrap,
        *,
        layers: LayerGrounds | None = None,
        seconds: float = CHECK_SECONDS,
    ) -> None:
        self._workshop = workshop
        self._bwrap = bwrap
        self._layers = layers or LayerGrounds(workshop, blobs)
        self._seconds = seconds

    @activity.defn(name=CHECK_CHANGES.name)
    async def check_changes(self, asked: CheckChangesInput) -> CheckResult:
        """Run the command at the top of the workers' files as the changes make them, isolated, without a network."""
        with user_errors():
            try:
                return await self._checked(asked)
            except BlobsUnreachable:
                raise
            except LlmDoError as error:
                return _not_run(asked, error.message)

    async def _checked(self, asked: CheckChangesInput) -> CheckResult:
        try:
            words = tuple(shlex.split(asked.command))
        except ValueError as error:
            return _not_run(asked, f"it cannot be split into words: {str(error).lower()}")
        if not words or not words[0] or "\0" in asked.command:
            return _not_run(asked, "it is no command: it begins with the name of a program")
        if problem := program_problem(words[0], isolated=True):
            return _not_run(asked, problem)
        tree = await asyncio.to_thread(self._tree)
        command = ShellInput(argv=words, tree=tree, cwd="/", timeout_seconds=0, settings=asked.settings)
        bwrap = await asyncio.to_thread(self._bwrap)
        layer = CarriedLayer(manifest=asked.manifest)
        async with (
            in_thread(self._layers.ground(command, layer, bwrap)) as ground,
            in_thread(scratch_folder()) as home,
        ):
            ended, _held_back = await run_on(
                ground, command, str(home), lambda: None, seconds=self._seconds, joined=True
            )
            try:
                return await asyncio.to_thread(_result, asked, ended, ground, self._seconds)
            finally:
                ended.close()

    def _tree(self) -> Tree:
        """Return all files that workers have, to be written to: what a check writes, such as caches, is thrown away."""
        sandbox = load_workshop(self._workshop).config.sandbox
        mounts = root_tree(sandbox).mounts or (_TOP,)
        return Tree(mounts=tuple(one.model_copy(update={"readonly": False, "max_file_bytes": None}) for one in mounts))


def _not_run(asked: CheckChangesInput, problem: str) -> CheckResult:
    return CheckResult(command=asked.command, problem=f"the check was not run: {problem}")


def _result(asked: CheckChangesInput, ended: Ended, ground: Ground, seconds: float) -> CheckResult:
    output = ended.stdout.tail(CHECK_OUTPUT_BYTES).decode(errors="replace")
    return CheckResult(
        command=asked.command,
        exit_code=None if ended.timed_out else ended.exit_code,
        output=ground.virtual(output),
        problem=f"it was stopped after {seconds:g} seconds" if ended.timed_out else "",
    )
