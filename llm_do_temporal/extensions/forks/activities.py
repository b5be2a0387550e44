"""Reuse by forks of the record of another run: its turns, its calls with files, and what it read.

A record is read once from the blob store. A recorded call is taken over only where all that it changed can be put into
the fork's layer as it is now: a write again, an edit where the file is as it was before it, or as it was after it;
what a command or a child left in its layer where the fork's layer has not changed the same paths in another way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar, cast

from pydantic import BaseModel, ValidationError
from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelResponse
from pydantic_ai.usage import RequestUsage
from temporalio import activity
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from llm_do_temporal.activities.definitions import RunLoad
from llm_do_temporal.activities.runtime.failures import user_errors
from llm_do_temporal.errors import EffectFailed, LlmDoError, UsageError
from llm_do_temporal.extensions.forks.messages import (
    HEADER,
    INDEX_VERSION,
    READS,
    REUSE_CALL,
    ForkIndex,
    ForkSource,
    RecordedCall,
    RecordedEffect,
    RecordedTurn,
    ReuseCallInput,
    ReusedCall,
    TurnSource,
)
from llm_do_temporal.messages.activities import (
    AttachedFile,
    EditFileInput,
    FileChange,
    FindFilesInput,
    ListFilesInput,
    LoadedRun,
    ReadFileInput,
    SaveWorkerInput,
    ShellResult,
    SnapshotInput,
    WriteFileInput,
)
from llm_do_temporal.messages.budget import Saved
from llm_do_temporal.messages.conversation import REUSED, Reused
from llm_do_temporal.messages.layers import LayerWork
from llm_do_temporal.messages.runs import StartRunInput, item_of
from llm_do_temporal.policy.files.sandbox import Mount, join
from llm_do_temporal.policy.identity import read_key
from llm_do_temporal.policy.layers.layer import CarriedLayer, Layer
from llm_do_temporal.policy.layers.merge import merged
from llm_do_temporal.sandbox.changes import TextFiles
from llm_do_temporal.sandbox.layers.contents import LayerContents
from llm_do_temporal.sandbox.layers.files import LayeredFiles
from llm_do_temporal.storage.blobs import BlobStore

MOST_RECORDS = 8
"""Records kept in memory; those used longest ago leave first."""
Recorded = TypeVar("Recorded", RecordedCall, RecordedTurn)


class ForkRecords:
    """Records in a blob store."""

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs
        self._read = lru_cache(MOST_RECORDS)(self._read_index)

    def index(self, source: ForkSource) -> ForkIndex:
        """Return the record.

        Raises EffectFailed where it is not there, is of another run or version, or has more than its use allows.
        """
        index = self._read(source.index)
        if index.run != source.run:
            raise EffectFailed(f"the record '{source.index[:12]}' is not of run '{source.run}'")
        if source.in_place and (index.loaded is not None or index.reads or index.answers or index.asked):
            raise EffectFailed(
                f"the record '{source.index[:12]}' is one for a fork: it has settings, decisions or files of run "
                f"'{source.run}', and a run that works in place takes none of another",
                next_step="Fork the run, or try its batch again with `start --retry-failed`.",
            )
        return index

    async def turn(self, source: ForkSource, key: str, path: str) -> RecordedTurn | None:
        """Return the turn with this key, if one is recorded; see `chosen`."""
        index = await asyncio.to_thread(self.index, source)
        return chosen(index.turns.get(key, ()), path, index if source.in_place else None)

    def _read_index(self, digest: str) -> ForkIndex:
        try:
            index = ForkIndex.model_validate_json(self._blobs.read(digest))
        except ValidationError as error:
            raise EffectFailed(
                f"the blob '{digest[:12]}' is no record of a run", next_step="Fork the run again."
            ) from error
        if index.version != INDEX_VERSION:
            raise EffectFailed(
                f"the record '{digest[:12]}' has version {index.version}; this is version {INDEX_VERSION}",
                next_step="Fork the run again.",
            )
        return index


@lru_cache(maxsize=1)
def records_of(blobs: BlobStore) -> ForkRecords:
    """Return the records in the blob store of a service."""
    return ForkRecords(blobs)


def chosen(recorded: Sequence[Recorded], path: str, in_place: ForkIndex | None = None) -> Recorded | None:
    """Return the step of the invocation at this path, else the first; None where there is none.

    `in_place` is the record of a run that goes on in place, None for any other. There only steps of the same item
    count: what a twin with the same content has done is done for the twin.
    """
    if in_place is None:
        return next((one for one in recorded if one.path == path), recorded[0] if recorded else None)
    item = item_of(path)
    before = in_place.items.get(item, item)
    own = [one for one in recorded if item_of(one.path) == before]
    return next((one for one in own if one.path == before + path.removeprefix(item)), own[0] if own else None)


_READ_KEY = "read_key"


class ReuseActivities:
    """Recorded calls of other runs, for forks in one workshop."""

    def __init__(self, workshop: Path, blobs: BlobStore, records: ForkRecords) -> None:
        self._workshop = workshop
        self._records = records
        self._contents = LayerContents(blobs)

    @activity.defn(name=REUSE_CALL.name)
    def reuse_call(self, asked: ReuseCallInput) -> ReusedCall:
        """See ReuseCallInput. A second attempt comes to the same: nothing is written but blobs."""
        with user_errors():
            return self._looked_up(asked).model_copy(update={"key": asked.key})

    def _looked_up(self, asked: ReuseCallInput) -> ReusedCall:
        index = self._records.index(asked.fork)
        found = chosen(index.calls.get(asked.key, ()), asked.path, index if asked.fork.in_place else None)
        if found is None:
            return ReusedCall(asks=asked.key in index.asked, doubtful=asked.key in index.doubtful)
        known = found.model_copy(update={"effects": ()})
        if not found.effects:
            return ReusedCall(call=known)
        if asked.layer is None or asked.fork.in_place:
            return ReusedCall(note="it changed files, and this invocation has no layer for that")
        try:
            before = layer = self._contents.whole(asked.layer.carried)
            for effect in found.effects:
                layer = self._with_effect(effect, layer, asked.layer)
            update = self._contents.update_of(asked.layer.carried, before, layer)
            return ReusedCall(call=known, layer=update if layer != before else None)
        except LlmDoError as error:
            return ReusedCall(note=f"what it changed cannot be put into the layer: {error}")

    def _with_effect(self, effect: RecordedEffect, layer: Layer, work: LayerWork) -> Layer:
        if effect.activity == "join_layers":
            return self._joined(effect, layer)
        if effect.activity == "run_command":
            return self._after_command(effect, layer)
        over = work.model_copy(update={"carried": CarriedLayer(recent=layer)})
        files = LayeredFiles(self._workshop, over, self._contents)
        if effect.activity == "write_file":
            self._write(WriteFileInput.model_validate(effect.request).model_copy(update={"expected": None}), files)
        elif effect.activity == "save_worker":
            saved = SaveWorkerInput.model_validate(effect.request)
            source = str(cast("Mapping[str, Any]", effect.result)["source"])
            self._write(
                WriteFileInput(
                    mount=Mount(at="/", root="."), relative=source, path=source, content=saved.text, definitions=True
                ),
                files,
            )
        else:
            self._edit(effect, files)
        return files.layer

    def _write(self, asked: WriteFileInput, files: LayeredFiles) -> None:
        before, texts = files.layer, TextFiles(self._workshop, files)
        texts.change(asked, apply=True)
        if files.layer == before:
            # The other run wrote the file itself, which is still so; the fork does not depend on that.
            texts.keep(asked)

    def _edit(self, effect: RecordedEffect, files: LayeredFiles) -> None:
        before, texts = files.layer, TextFiles(self._workshop, files)
        asked = EditFileInput.model_validate(effect.request).model_copy(update={"expected": None})
        change = FileChange.model_validate(effect.result)
        if change.diff:
            try:
                # Where the other run worked on the files themselves, they may be as the edit has left them.
                texts.change(asked, apply=True, retried=True)
                if files.layer == before:
                    texts.keep(asked)
            except LlmDoError:
                # They may even have gone on from there, and the fork goes on from what they are now.
                if effect.began is not None:
                    raise

    def _after_command(self, effect: RecordedEffect, layer: Layer) -> Layer:
        update, began = ShellResult.model_validate(effect.result).layer, effect.began
        if update is None or began is None:
            return layer
        return self._joined(effect.model_copy(update={"ended": began.updated(update)}), layer)

    def _joined(self, effect: RecordedEffect, layer: Layer) -> Layer:
        if effect.ended is None:
            return layer
        began = self._contents.whole(effect.began or CarriedLayer())
        merge = merged(layer, self._contents.whole(effect.ended), began)
        if merge.conflicts:
            raise EffectFailed(f"'{merge.conflicts[0].path}' is another one here")
        return merge.layer


class RecordedReads(Interceptor):
    """Gives results of activities that only read their keys, and takes those of a fork from the record of the other
    run, where that has them and the fork's layer has not changed the files."""

    def __init__(self, blobs: BlobStore, records: ForkRecords) -> None:
        self._records = records
        self._contents = LayerContents(blobs)

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # noqa: A002 - named by the SDK
        """See Interceptor."""
        return _Inbound(next, self._records, self._contents)


class _Inbound(ActivityInboundInterceptor):
    def __init__(self, following: ActivityInboundInterceptor, records: ForkRecords, contents: LayerContents) -> None:
        super().__init__(following)
        self._records = records
        self._contents = contents

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002 - named by the SDK
        request = input.args[0] if input.args else None
        if not isinstance(request, BaseModel) or activity.info().activity_type not in READS:
            return await super().execute_activity(input)
        if HEADER in input.headers:
            given = activity.payload_converter().from_payload(input.headers[HEADER])
            with user_errors():
                found = await asyncio.to_thread(self._recorded, ForkSource.model_validate(given), request)
            if found is not None:
                return found
        result = await super().execute_activity(input)
        if not isinstance(result, BaseModel) or _READ_KEY not in type(result).model_fields:
            return result
        is_quick = getattr(request, "layer", None) is None
        with user_errors():
            key = self._key_of(request) if is_quick else await asyncio.to_thread(self._key_of, request)
        return result.model_copy(update={_READ_KEY: key}) if key else result

    def _recorded(self, fork: ForkSource, request: BaseModel) -> Any:
        """Return the recorded result for the request; None where there is none, or the layer has other files."""
        key = self._key_of(request)
        read = self._records.index(fork).reads.get(key) if key else None
        return None if read is None else read.result

    def _key_of(self, request: BaseModel) -> str:
        """Return the key of what is read; empty where the layer of the call has changed it."""
        work = getattr(request, "layer", None)
        if isinstance(work, LayerWork) and self._is_changed(work, request):
            return ""
        return read_key(activity.info().activity_type, request.model_dump(mode="json"))

    def _is_changed(self, work: LayerWork, request: Any) -> bool:
        entries = self._contents.whole(work.carried).entries
        if isinstance(request, ListFilesInput):
            return bool(entries)
        places = _places(request)
        return any(
            place == path or place.startswith(f"{path}/") or path.startswith(f"{place}/")
            for place in places
            for path in entries
        )


def _places(request: Any) -> list[str]:
    """Return the places below the workshop that a request reads."""
    if isinstance(request, ReadFileInput):
        return [join(request.mount.root, request.relative)]
    files: tuple[AttachedFile, ...] = request.files if isinstance(request, FindFilesInput | SnapshotInput) else ()
    return [join(one.mount.root, one.relative) for one in files if one.mount is not None]


def reused(recorded: RecordedTurn, fork: ForkSource) -> ModelResponse:
    """Return the recorded answer as that of a turn which costs nothing, with its origin and what it has saved."""
    answer = cast("ModelResponse", ModelMessagesTypeAdapter.validate_python([recorded.answer])[0])
    spent = answer.usage
    origin = Reused(
        run=fork.run,
        path=recorded.path,
        turn=recorded.turn,
        saved=Saved(
            requests=1,
            input_tokens=spent.input_tokens,
            output_tokens=spent.output_tokens,
            cost_usd=spent.cost,
        ),
    )
    free = RequestUsage(cost=Decimal(0))
    return replace(answer, usage=free, metadata={REUSED: origin.model_dump(mode="json")})


async def known_turn(records: ForkRecords, told: Any, key: str) -> ModelResponse | None:
    """Return the answer of the turn with this key in the record of another run; None where it is not in there.

    `told` is a TurnSource as JSON.
    """
    turn = TurnSource.model_validate(told)
    found = await records.turn(turn.source, key, turn.path)
    return None if found is None else reused(found, turn.source)


_AS_NOW = ("rules", "shell", "queues", "extensions", "search_attributes", "live_text", "workshop_has_sandbox")
"""Settings that a fork takes from the workshop and the worker service of now, whatever the other run had."""


def load_fork(records: ForkRecords, start: StartRunInput, part: Any, load: RunLoad) -> LoadedRun:
    """Return what a fork begins with: what the other run had loaded, as far as its record has it.

    Rules, folders and what this service has count as they are now. Decisions of the other run come behind those of the
    start. Raises UsageError where the changes of the fork would not stay aside, or the record cannot be used.
    """
    source = ForkSource.model_validate(part)
    if not start.aside and not source.in_place:
        raise UsageError(
            f"a fork of run '{source.run}' would write into the workshop's files",
            next_step="Start it with `aside`, as `llm-do-temporal fork` does.",
        )
    index = records.index(source)
    loaded = index.loaded
    if loaded is None:
        loaded = load.all()
    else:
        now, tree = load.settings()
        kept: dict[str, Any] = {name: getattr(now, name) for name in _AS_NOW}
        if start.mode is not None:
            kept["mode"] = start.mode
        settings = loaded.settings.model_copy(update=kept)
        loaded = loaded.model_copy(update={"settings": settings, "tree": tree})
    return loaded.model_copy(update={"script": (*start.script, *index.answers)})
