"""Forks: runs that look up what they are about to do in the record of another run, and reuse what is there.

The record is a blob, the ForkIndex. It is made before the fork starts, with everything in it that may be reused, so
that nothing is read from the histories of the other run later.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from llm_do_temporal.messages.activities import (
    BUILD_INPUT,
    FIND_FILES,
    LIST_EXTERNAL_TOOLS,
    LIST_FILES,
    LOAD_TEMPLATE,
    LOAD_WORKER,
    READ_FILE,
    SNAPSHOT_ATTACHMENTS,
    ActivityRef,
    LoadedRun,
)
from llm_do_temporal.messages.approvals import ScriptedAnswer
from llm_do_temporal.messages.base import EXTENSION_HEADER, Json, Message, is_empty, is_false, is_none
from llm_do_temporal.messages.layers import LayerWork
from llm_do_temporal.messages.runs import InvocationResult, StartRunInput
from llm_do_temporal.policy.files.sandbox import Tree
from llm_do_temporal.policy.layers.layer import CarriedLayer, Digest, LayerUpdate

INDEX_VERSION = 1
NAME = "forks"
"""Name of the capability, under which a start and its invocations have their ForkSource."""


class ForkSource(Message):
    """Record of another run, which an invocation of a fork looks its steps up in."""

    run: str
    """Workflow id of the other run."""
    index: Digest
    """Blob with the ForkIndex."""
    then: bool = Field(default=True)
    """Whether files and definitions are read as they were then, as far as the record has them; else as they are now."""
    in_place: bool = Field(default=False, exclude_if=is_false)
    """Whether the run goes on with work of the other run in the files themselves, as a batch that is tried again does.
    Then only steps of the same item are reused, and nothing but answers of models and outcomes of calls."""


def source_of(parts: Mapping[str, Json]) -> ForkSource | None:
    """Return the record that a run or an invocation with these parts looks its steps up in; None: it is no fork."""
    return None if NAME not in parts else ForkSource.model_validate(parts[NAME])


def with_source(start: StartRunInput, source: ForkSource | None) -> StartRunInput:
    """Return the start as that of a fork with this record; None: of none."""
    parts = {name: part for name, part in start.parts.items() if name != NAME}
    if source is not None:
        parts[NAME] = source.model_dump(mode="json", exclude_defaults=True)
    return start.model_copy(update={"parts": parts, "copies_of": "" if source is None else source.run})


class TurnSource(Message):
    """Place of a model turn of a fork, told to the activity that would ask the model."""

    source: ForkSource
    path: str
    """Place of the invocation in the tree."""


class RecordedTurn(Message):
    """Model turn of the other run."""

    path: str
    """Place of its invocation in the tree."""
    turn: int
    """Number of the turn in its invocation, from 1."""
    answer: Json
    """The answer, a Pydantic AI ModelResponse as the history has it."""


class RecordedEffect(Message):
    """Change of files that a recorded call made, to be put into the fork's layer."""

    activity: Literal["write_file", "edit_file", "save_worker", "run_command", "join_layers"]
    request: Json
    """Input of the activity; for `join_layers`, which stands for a whole child: nothing."""
    result: Json = None
    """Result of the activity as recorded; for `join_layers` nothing."""
    began: CarriedLayer | None = Field(default=None, exclude_if=is_none)
    """Layer on which the activity or the child began; None: it worked on the workshop's files."""
    ended: CarriedLayer | None = Field(default=None, exclude_if=is_none)
    """Layer as the child left it; None: it left none."""


class RecordedCall(Message):
    """Tool call, delegation or review at the end of an invocation of the other run, with its outcome for the model."""

    path: str
    """Place of the calling invocation in the tree."""
    turn: int
    """Turn whose answer called, from 1."""
    tool: str
    outcome: Literal["returned", "failed", "retry"]
    """`failed` and `retry`: the model got `content` as a ToolFailed or a ModelRetry."""
    content: Json = None
    """Result as the model got it, notes of changes by people included; of a delegation that is looked up by its inputs:
    nothing."""
    result: InvocationResult | None = Field(default=None, exclude_if=is_none)
    """Result of a delegation that is looked up by its inputs; None for anything else."""
    child: str = Field(default="", exclude_if=is_empty)
    """Path of the delegated invocation; empty: the call was no delegation."""
    effects: tuple[RecordedEffect, ...] = Field(default=(), exclude_if=is_empty)
    """Changes of files that it made, in their order."""
    saved: Json = Field(default=None, exclude_if=is_none)
    """Usage of everything that a delegation spent, a Usage; None: it was no delegation."""


class RecordedRead(Message):
    """Result of an activity that only read, for the same request of a fork that takes files as they were then."""

    result: Json


class ForkIndex(Message):
    """Record of a run for a fork of it, with the fork's changes taken out: what is not in it is done anew.

    Keys are content keys, see `policy.identity`. Where several of the run's steps share a key, all are there, in
    the order of their paths; a fork takes the one of its own path, else the first.
    """

    version: int = INDEX_VERSION
    run: str
    """Workflow id of the other run."""
    execution: str
    """Execution of it that the record was read from: the id of its newest Temporal run."""
    loaded: LoadedRun | None = None
    """Entry worker and settings of the fork: those of the other run, with the changes; None: loaded anew."""
    turns: Mapping[str, tuple[RecordedTurn, ...]] = Field(default_factory=dict)
    """Model turns by their keys."""
    calls: Mapping[str, tuple[RecordedCall, ...]] = Field(default_factory=dict)
    """Tool calls by call keys, delegations by delegation keys, words of reviews at the end of an invocation by ending
    keys."""
    reads: Mapping[str, RecordedRead] = Field(default_factory=dict)
    """Results of activities that only read, by read keys; those that were not always the same are left out."""
    asked: tuple[str, ...] = ()
    """Call keys about which people are asked even where the layer would need nobody: the other run asked, and the
    answer is not the same now."""
    items: Mapping[str, str] = Field(default_factory=dict, exclude_if=is_empty)
    """Place of each item in the other run, by its place in this one, for work in place; others have no steps there."""
    doubtful: tuple[str, ...] = Field(default=(), exclude_if=is_empty)
    """Call keys of effects that may have happened: the other run ended before their outcome was known."""
    answers: tuple[ScriptedAnswer, ...] = ()
    """Decisions of the other run, with those of the fork before them."""


class ReuseCallInput(Message):
    """Input of `reuse_call`: looks a key up, and puts what the recorded call changed into the layer."""

    fork: ForkSource
    key: str
    path: str
    """Place of the asking invocation: the record of the same place is taken first."""
    tree: Tree = Tree()
    """Files of the asking invocation, for paths in the result."""
    layer: LayerWork | None = Field(default=None, exclude_if=is_none)
    """Layer of the asking invocation; None: it has none, and only calls without `effects` are reused."""


class ReusedCall(Message):
    """Result of `reuse_call`."""

    call: RecordedCall | None = None
    """The recorded call without its effects; None: the key is not in the record, or its changes cannot be put into the
    layer as it is, and the call is carried out."""
    layer: LayerUpdate | None = Field(default=None, exclude_if=is_none)
    """Changes of the layer; None: there are none."""
    asks: bool = False
    """Whether people are asked about the call even where it only changes the layer; see ForkIndex.asked."""
    doubtful: bool = Field(default=False, exclude_if=is_false)
    """Whether the call may have happened in the other run, so that a person decides; see ForkIndex.doubtful."""
    note: str = ""
    """Reason why a recorded call is carried out again, for the audit; empty: it was not there, or is reused."""
    key: str = Field(default="", exclude_if=is_empty)
    """Key that was looked up, for readers of the history."""


HEADER = f"{EXTENSION_HEADER}forks"
"""Header of activities that read, with a ForkSource of which `then` is true."""
READS = frozenset(
    ref.name
    for ref in (
        LOAD_WORKER,
        LOAD_TEMPLATE,
        BUILD_INPUT,
        READ_FILE,
        LIST_FILES,
        FIND_FILES,
        SNAPSHOT_ATTACHMENTS,
        LIST_EXTERNAL_TOOLS,
    )
)
"""Activities that only read, whose results are recorded."""
REUSE_CALL = ActivityRef("reuse_call", ReuseCallInput, ReusedCall)
"""Look a call up in the record that a fork reuses, and put the changes of files that it made into the fork's layer."""
