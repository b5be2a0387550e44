"""Forks: a run that is to be done once more, with changes, and with everything reused that these leave as it was.

Nothing is started before the whole plan is known: what is reused, what runs, and what it may cost. Workers of a fork
are read as files are read for a start, with the same errors."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, cast

import yaml
from temporalio.client import Client

from llm_do_temporal.client import LlmDoClient
from llm_do_temporal.client.batches import read_given
from llm_do_temporal.client.connections import translated
from llm_do_temporal.definitions.registry.registry import Registry
from llm_do_temporal.definitions.workers.places import WorkerPlace, named_worker
from llm_do_temporal.definitions.workers.worker_file import parse_worker, split_front_matter
from llm_do_temporal.definitions.workshop import load_workshop
from llm_do_temporal.desk.grants import shown_digest
from llm_do_temporal.desk.votes import check_change
from llm_do_temporal.errors import DecisionRefused, ModelRefusal, Refusal, UsageError, WorkerNotFound
from llm_do_temporal.extensions.forks.client_records import (
    AnsweredTurn,
    InvocationRecord,
    MadeCall,
    MadeEffect,
    RunRecord,
    read_run_record,
)
from llm_do_temporal.extensions.forks.messages import (
    ForkIndex,
    ForkSource,
    RecordedCall,
    RecordedEffect,
    RecordedRead,
    RecordedTurn,
    source_of,
    with_source,
)
from llm_do_temporal.extensions.forks.policy.changes import (
    ChangedDecision,
    Cut,
    ForkEstimate,
    cut_at,
    cut_of_decision,
    cut_of_paths,
    cut_of_result,
    cut_of_workers,
    estimate_fork,
    read_decisions,
    read_step,
)
from llm_do_temporal.login import login_name
from llm_do_temporal.messages.activities import (
    EDIT_FILE,
    LOAD_WORKER,
    RUN_COMMAND,
    WRITE_FILE,
    LoadedRun,
    LoadWorkerInput,
)
from llm_do_temporal.messages.approvals import Decision, DecisionKind, ScriptedAnswer
from llm_do_temporal.messages.base import Json, read_json
from llm_do_temporal.messages.budget import Usage
from llm_do_temporal.messages.definitions import DelegateTool, PinnedWorker
from llm_do_temporal.messages.layers import LayerWork
from llm_do_temporal.messages.runs import StartRunInput
from llm_do_temporal.policy.files.sandbox import locate
from llm_do_temporal.policy.identity import ending_key, read_key
from llm_do_temporal.policy.layers.layer import CarriedLayer
from llm_do_temporal.policy.models import ModelSources, check_models, resolve_model
from llm_do_temporal.storage.blobs import BlobStore
from llm_do_temporal.storage.places import workshop_blobs

_FITTING = "Write all arguments that the call is to have, not only those that change."


@dataclass(frozen=True, kw_only=True)
class ForkRequest:
    """Changes of a fork, as they were typed."""

    at: tuple[str, ...] = ()
    """Turns from which an invocation is done anew, as PATH@TURN."""
    worker: Path | None = None
    """Worker file that is used for the worker of its name."""
    settings: tuple[str, ...] = ()
    """Keys of worker files with other values, as [WORKER:]KEY=VALUE."""
    model: str | None = None
    """Model of workers that name none."""
    decide: tuple[str, ...] = ()
    """Decisions that are others, like a3=reject:"the reason"."""
    results: tuple[str, ...] = ()
    """Results of calls that are others, as PATH@TURN=VALUE or PATH@TURN#N=@FILE."""
    no_reuse: tuple[str, ...] = ()
    """Paths of invocations of which nothing is reused."""
    then: bool = True
    """Whether files count as the other run read them; else as they are now."""
    by: str = ""
    """Name of whoever forks; empty: the login name."""


@dataclass(frozen=True)
class ForkPlan:
    """Fork that can be started."""

    run: str
    """Id of the other run."""
    start: StartRunInput
    """Start of the fork, without its record."""
    index: ForkIndex
    estimate: ForkEstimate
    then: bool = True
    """Whether files count as the other run read them; else as they are now."""
    warnings: tuple[str, ...] = ()

    def prepared(self, blobs: BlobStore) -> StartRunInput:
        """Put the record into the blob store, and return what is sent to start the fork."""
        digest = blobs.put_bytes(self.index.model_dump_json().encode())
        return with_source(self.start, ForkSource(run=self.run, index=digest, then=self.then))


async def fork(client: LlmDoClient, run: str, changes: ForkRequest, *, workshop: Path, fork: str | None = None) -> str:
    """Start a fork of the run, named `fork`, and return its id. Raises UsageError, DefinitionError."""
    plan = await plan_fork(client.temporal, run, changes, workshop)
    return await client.start(plan.prepared(workshop_blobs(workshop)), run=fork)


async def plan_fork(client: Client, run: str, request: ForkRequest, workshop: Path | None) -> ForkPlan:
    """Read the run, and apply the changes to what was read. Raises UsageError, DefinitionError, KeyMismatch.

    `workshop` is the folder in which changed workers are read; None: no worker can be changed.
    """
    async with translated(run):
        record = await read_run_record(client, run)
    source, before = source_of(record.start.parts), None
    if source is not None and workshop is not None:
        before = ForkIndex.model_validate_json(workshop_blobs(workshop).read(source.index))
    return plan_of(record, request, workshop, before)


def plan_of(
    record: RunRecord, request: ForkRequest, workshop: Path | None, before: ForkIndex | None = None
) -> ForkPlan:
    """Return the plan of a fork of a run that was read; `before` is the record that this run reused itself.

    Raises UsageError, DefinitionError.
    """
    outline = record.outline()
    if not request.then and (request.worker or request.settings):
        raise UsageError(
            "with --files now workers are read from the workshop as they are now, so none can be changed by a flag",
            next_step="Save the change in the worker's file, or leave --files now out.",
        )
    aliases = record.loaded.settings.models.aliases if request.then and record.loaded is not None else None
    doubts = check_models(aliases, [request.model])
    changed = _Changes(record, workshop).applied(request)
    cut = cut_of_workers(outline, changed.surely, sure=True).plus(cut_of_workers(outline, changed.perhaps, sure=False))
    for text in request.at:
        cut = cut.plus(cut_at(outline, read_step(text)))
    cut = cut.plus(cut_of_paths(outline, request.no_reuse))
    decisions = read_decisions(outline, request.decide)
    for decision in decisions:
        cut = cut.plus(cut_of_decision(outline, decision))
    results: dict[str, Any] = {}
    for text in request.results:
        step, value = _read_result(text)
        key, around = cut_of_result(outline, read_step(step))
        if key in results:
            raise UsageError(f"the result of '{step}' is given twice", next_step="Keep one of the two.")
        results[key], cut = value, cut.plus(around)
    answers = tuple(_answer(record, one, request) for one in decisions)
    is_changed = bool(changed.surely or changed.perhaps)
    index = build_index(record, cut, then=request.then, results=results, before=before, changed_workers=is_changed)
    if request.then:
        read = {key: RecordedRead(result=result) for key, result in record.reads.items()}
        index = index.model_copy(update={"loaded": changed.loaded, "reads": {**read, **changed.reads}})
    start = with_source(record.start, None).model_copy(
        update={
            "aside": True,
            "started_by": request.by or login_name(),
            "script": (*answers, *(one for one in record.start.script if one.content_key not in cut.asked)),
            "review_branch": "",
            "model": request.model or record.start.model,
        }
    )
    estimate = estimate_fork(outline, cut, then=request.then, other_models=frozenset(changed.other_models))
    return ForkPlan(record.run, start, index, estimate, request.then, (*changed.warnings, *doubts))


def _answer(record: RunRecord, changed: ChangedDecision, request: ForkRequest) -> ScriptedAnswer:
    question = next(one for one in record.questions if one.id == changed.id)
    args: dict[str, Any] | None = None
    if changed.decision == "modify":
        whose = f"{changed.id}=modify"
        try:
            args = read_json(_text_of(changed.more, whose))
        except ValueError as error:
            raise UsageError(f"the arguments of '{whose}' are no JSON: {error}") from error
        if not isinstance(args, dict):
            raise UsageError(f"the arguments of '{whose}' are no JSON object")
    try:
        check_change(question, Decision(decision=DecisionKind(changed.decision), args=args))
    except DecisionRefused as refused:
        raise UsageError(f"'{changed.id}=modify' cannot be: {refused.message}", next_step=_FITTING) from refused
    return ScriptedAnswer(
        tool=question.request.tool,
        content_key=question.request.content_key,
        decision=changed.decision,
        args=args,
        note=changed.more if changed.decision == "reject" else "",
        by=request.by or login_name(),
    )


def _read_result(text: str) -> tuple[str, Any]:
    """Return the step and the value of a result that was typed: JSON where it is JSON, else the text itself."""
    step, equals, given = text.partition("=")
    if not equals:
        raise UsageError(
            f"'{text[:80]}' says no result", next_step="Write PATH@TURN=VALUE, or PATH@TURN#N=@FILE for a file."
        )
    content = _text_of(given, step)
    try:
        return step, json.loads(content)
    except ValueError:
        return step, content


def _text_of(given: str, whose: str) -> str:
    """Return the text that was typed, or that of the file behind an @. Raises UsageError."""
    if not given.startswith("@"):
        return given
    return read_given(Path(given[1:]), f"the file '{given[1:]}' for '{whose}'")


_NOT_TOLD = frozenset(
    ("description", "sha256", "source", "limits", "locked", "warnings", "unloaded", "compatible_models", "model")
)
"""Fields of a worker that no model is told."""
_NOT_SEEN = frozenset(("warnings", "unloaded"))


@dataclass(frozen=True)
class _ChangedDefinitions:
    """Definitions of a fork."""

    loaded: LoadedRun | None
    """Entry worker and settings; None: the run had loaded none."""
    reads: Mapping[str, RecordedRead]
    """Workers that the run called, as they are loaded in the fork, by read keys."""
    surely: list[str]
    """Paths of invocations whose model is told something else, or is another."""
    perhaps: list[str]
    """Paths of invocations whose worker is another in what no model is told."""
    other_models: list[str]
    """Paths of invocations whose model is another."""
    warnings: list[str]


class _Changes:
    """Changes of workers. Raises DefinitionError for a file that is wrong, UsageError for a worker that did not run."""

    def __init__(self, record: RunRecord, workshop: Path | None) -> None:
        self._record = record
        self._workshop = workshop
        self._texts: dict[str, tuple[WorkerPlace, str]] = {}
        self._warnings: list[str] = []
        self._set: set[tuple[str, tuple[str, ...]]] = set()
        self._pinned: dict[str, PinnedWorker] = {}
        for one in record.invocations.values():
            if one.start.template is None:
                self._pinned.setdefault(one.start.worker.name, one.start.worker)
        if record.loaded is not None and record.loaded.template is None:
            self._pinned.setdefault(record.loaded.worker.name, record.loaded.worker)

    def _use_file(self, file: Path) -> None:
        """Take the definition of the worker that is called like the file, or like the folder of a `worker.worker`."""
        name = file.stem if file.stem in self._pinned else named_worker(file)
        self._known(name, f"the file '{file}'")
        text = read_given(file, f"the worker file '{file}'")
        place, root = self._place(name), self._root().resolve()
        real = file.resolve()
        if real.is_relative_to(root):
            place = WorkerPlace(name, real, root)
        self._texts[name] = (place, text)

    def _set_key(self, text: str) -> None:
        """Give a key of a worker's file another value."""
        where, equals, given = text.partition("=")
        name, colon, key = where.partition(":")
        if not colon:
            name, key = self._entry(), where
        if not equals or not key.strip() or not all(key.split(".")):
            raise UsageError(
                f"'{text[:80]}' sets no key",
                next_step="Write [WORKER:]KEY=VALUE, like model_settings.temperature=0 or reader:model=offline:echo.",
            )
        self._known(name, f"'{text[:80]}'")
        path = tuple(key.strip().split("."))
        if (name, path) in self._set:
            raise UsageError(f"'{key.strip()}' of '{name}' is set twice", next_step="Keep one of the two.")
        self._set.add((name, path))
        place, before = self._texts.get(name) or self._as_now(name)
        self._texts[name] = (place, _with_key(before, place, path, given))

    def applied(self, request: ForkRequest) -> _ChangedDefinitions:
        """Return the definitions with all changes."""
        if request.worker is not None:
            self._use_file(request.worker)
        for text in request.settings:
            self._set_key(text)
        registry = Registry(load_workshop(self._root())) if self._texts else None
        workers: dict[str, tuple[PinnedWorker, PinnedWorker]] = {}
        for name, (place, text) in self._texts.items():
            assert registry is not None
            parsed = parse_worker(text, place, sha256=hashlib.sha256(text.encode()).hexdigest())
            workers[name] = registry.pinned(parsed, run_python=False), registry.pinned(parsed)
            self._warnings += workers[name][1].warnings
        pinned = {name: workers[name][1] if name in workers else one for name, one in self._pinned.items()}
        pinned = {name: _with_callees(one, workers) for name, one in pinned.items()}
        loaded = self._record.loaded
        if loaded is not None:
            settings = loaded.settings
            if request.model is not None:
                sources = settings.models.model_copy(update={"run_model": request.model})
                settings = settings.model_copy(update={"models": sources})
            worker = loaded.worker if loaded.template is not None else pinned[loaded.worker.name]
            loaded = loaded.model_copy(update={"worker": worker, "settings": settings})
        surely: list[str] = []
        perhaps: list[str] = []
        models: dict[str, str] = {}
        for path, one in self._record.invocations.items():
            before = one.start.worker
            now = before if one.start.template is not None else pinned[before.name]
            models[path] = one.start.model if loaded is None else _model(loaded.settings.models, now, one, models)
            if models[path] != one.start.model or _differs(before, now, _NOT_TOLD):
                surely.append(path)
            elif _differs(before, now, _NOT_SEEN):
                perhaps.append(path)
        others = [path for path, one in self._record.invocations.items() if models[path] != one.start.model]
        return _ChangedDefinitions(loaded, _reads(pinned, workers), surely, perhaps, others, self._warnings)

    def _known(self, name: str, whose: str) -> None:
        if name not in self._pinned:
            there = ", ".join(sorted(self._pinned)) or "none that has a file"
            raise UsageError(
                f"{whose} is about the worker '{name}', which run '{self._record.run}' did not call",
                next_step=f"Its workers are: {there}.",
            )

    def _entry(self) -> str:
        loaded = self._record.loaded
        if loaded is None or loaded.template is not None:
            raise UsageError(
                f"the entry of run '{self._record.run}' is no worker with a file",
                next_step="Name the worker: WORKER:KEY=VALUE.",
            )
        return loaded.worker.name

    def _root(self) -> Path:
        if self._workshop is None:
            raise UsageError(
                "a worker can be changed only in its workshop, and none is known here",
                next_step="Go to the workshop's folder, or name it with --workshop DIR.",
            )
        return self._workshop

    def _place(self, name: str) -> WorkerPlace:
        source = self._pinned[name].source
        try:
            return Registry(load_workshop(self._root())).place_of(source if source.startswith("pkg:") else name)
        except WorkerNotFound:
            root = self._root().resolve()
            return WorkerPlace(name, root / source, root)

    def _as_now(self, name: str) -> tuple[WorkerPlace, str]:
        """Return the worker's file as it is now, with a warning where the run had another."""
        place = self._place(name)
        try:
            content = place.path.read_bytes()
            text = content.decode()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"the file '{place.label}' of worker '{name}' cannot be read") from error
        if hashlib.sha256(content).hexdigest() != self._pinned[name].sha256:
            self._warnings.append(
                f"'{place.label}' has changed since the run: the key is set in the file as it is now, and what "
                "changed besides counts, too"
            )
        return place, text


def _with_key(text: str, place: WorkerPlace, path: Sequence[str], given: str) -> str:
    """Return the text of a worker file in which a key has this value. Raises UsageError."""
    front, body, _ = split_front_matter(text) if place.path.suffix == ".worker" else (text, None, 1)
    try:
        value, keys = yaml.safe_load(given) if given.strip() else "", yaml.safe_load(front)
    except yaml.YAMLError as error:
        raise UsageError(f"'{'.'.join(path)}={given[:80]}' cannot be set: {str(error).splitlines()[0]}") from error
    keys = cast("dict[str, Any]", keys) if isinstance(keys, dict) else {}
    inner = keys
    for name in path[:-1]:
        following = inner.setdefault(name, {})
        if not isinstance(following, dict):
            raise UsageError(f"'{'.'.join(path)}' cannot be set: '{name}' has no keys in '{place.label}'")
        inner = cast("dict[str, Any]", following)
    inner[path[-1]] = value
    written = yaml.safe_dump(keys, allow_unicode=True, sort_keys=False)
    return written if place.path.suffix != ".worker" else f"---\n{written}---\n{body or ''}"


def _with_callees(worker: PinnedWorker, changed: Mapping[str, tuple[PinnedWorker, PinnedWorker]]) -> PinnedWorker:
    """Return the worker with the tools that call changed workers described as these are now."""
    toolset = worker.delegation
    if toolset is None or not any(tool.name in changed for tool in toolset.tools):
        return worker
    tools = tuple(
        DelegateTool(
            name=tool.name,
            description=callee.description or f"Call the worker '{tool.name}' to delegate a subtask.",
            takes_attachments=callee.attachment_policy.max_attachments > 0,
            input_schema=callee.input_schema,
        )
        if tool.name in changed and (callee := changed[tool.name][1])
        else tool
        for tool in toolset.tools
    )
    return worker.model_copy(update={"delegation": toolset.model_copy(update={"tools": tools})})


def _reads(
    pinned: Mapping[str, PinnedWorker], changed: Mapping[str, tuple[PinnedWorker, PinnedWorker]]
) -> dict[str, RecordedRead]:
    """Return the results of loading these workers, as far as they are known without running Python of today."""
    reads: dict[str, RecordedRead] = {}
    for name, worker in pinned.items():
        both = (worker, worker)
        if name in changed:
            both = _with_callees(changed[name][0], changed), worker
        elif _needs_python(worker):
            continue
        asked = worker.source if worker.source.startswith("pkg:") else name
        for run_python, loaded in enumerate(both):
            request = LoadWorkerInput(name=asked, run_python=bool(run_python)).model_dump(mode="json")
            reads[read_key(LOAD_WORKER.name, request)] = RecordedRead(result=loaded.model_dump(mode="json"))
    return reads


def _needs_python(worker: PinnedWorker) -> bool:
    tools = worker.delegation.tools if worker.delegation is not None else ()
    typed = any(tool.input_schema is not None for tool in tools)
    return bool(worker.python or worker.external or worker.input_ref or worker.output_ref or worker.unloaded or typed)


def _model(sources: ModelSources, worker: PinnedWorker, one: InvocationRecord, above: Mapping[str, str]) -> str:
    """Return the model that an invocation has in the fork. Raises UsageError where none can run its worker."""
    caller = above.get(one.path.rpartition("/")[0])
    try:
        return resolve_model(
            sources,
            worker=worker.name,
            worker_model=worker.model,
            caller_model=caller,
            compatible=worker.compatible_models,
        )
    except ModelRefusal as refusal:
        raise UsageError(refusal.message, next_step=refusal.next_step) from refusal


def _differs(before: PinnedWorker, now: PinnedWorker, without: frozenset[str]) -> bool:
    return before.model_dump(mode="json", exclude=set(without)) != now.model_dump(mode="json", exclude=set(without))


READ_TOOLS = frozenset(("read_file", "list_files"))
"""Tools that only read files."""
COMMAND_TOOLS = frozenset(("shell",))
_CHANGE_TOOLS = {"write_file": WRITE_FILE.name, "edit_file": EDIT_FILE.name}
_OF_PEOPLE = ("signal", "update", "script", "grant", "rule")
"""Doors of decisions that a fork takes over; a deadline that has passed is none."""
_ChangeActivity = Literal["write_file", "edit_file", "save_worker", "run_command"]


def build_index(
    record: RunRecord,
    cut: Cut,
    *,
    then: bool = True,
    results: Mapping[str, Json] = MappingProxyType({}),
    before: ForkIndex | None = None,
    changed_workers: bool = False,
) -> ForkIndex:
    """Return what a fork reuses of the run.

    `then` says that files count as they were; else delegations, commands and what was read are done anew. `results`
    replace those of calls, by call key. `before` is the record that the run reused itself, with what it took over
    whole: calls with their changes of files, and what they began. With `changed_workers`, a worker or model is another,
    so that no delegation of that record counts.
    """
    turns: dict[str, list[RecordedTurn]] = {}
    calls: dict[str, list[RecordedCall]] = {}
    places: dict[str, tuple[str, int, str]] = {}
    for one in record.invocations.values():
        for turn in one.turns:
            for call in turn.calls:
                places.setdefault(call.key, (one.path, turn.number, call.tool))
            if turn.key not in cut.turns:
                found = RecordedTurn(path=one.path, turn=turn.number, answer=turn.answer)
                turns.setdefault(turn.key, []).append(found)
        for key, call in _Calls(record, one, then).all():
            if key and key not in cut.calls:
                calls.setdefault(key, []).append(call)
    if before is not None:
        turns = {key: list(some) for key, some in before.turns.items() if key not in cut.turns} | turns
        begun = {key: list(some) for key, some in before.calls.items() if key not in cut.calls}
        if changed_workers or not then:
            begun = {key: [one for one in some if not one.child] for key, some in begun.items()}
        own = {key: some for key, some in calls.items() if any(one.effects or one.child for one in some)}
        calls |= {key: some for key, some in begun.items() if some and key not in own}
    for key in results.keys() & places.keys():
        path, turn, tool = places[key]
        calls[key] = [RecordedCall(path=path, turn=turn, tool=tool, outcome="returned", content=results[key])]
    return ForkIndex(
        run=record.run,
        execution=record.execution,
        turns={key: tuple(found) for key, found in turns.items()},
        calls={key: tuple(found) for key, found in calls.items()},
        asked=cut.asked,
        answers=tuple(one for one in _answers_of(record) if one.content_key not in cut.asked),
    )


def _answers_of(record: RunRecord) -> Iterator[ScriptedAnswer]:
    """Yield the decisions of a run, each for the same question about the same call."""
    for question in record.questions:
        verdict, request = question.verdict, question.request
        if verdict is None or verdict.door not in _OF_PEOPLE or not request.content_key or request.extension:
            continue
        changed = verdict.decision is DecisionKind.MODIFY
        yield ScriptedAnswer(
            tool=request.tool,
            content_key=request.content_key,
            shown=shown_digest(request),
            decision=verdict.decision.value,
            args=verdict.args if changed else None,
            note=verdict.note,
            by=verdict.by,
            source=f"{record.run} {question.id}",
        )


@dataclass(frozen=True)
class _Calls:
    """Calls of one invocation, as a fork reuses them."""

    record: RunRecord
    invocation: InvocationRecord
    then: bool

    def all(self) -> Iterator[tuple[str, RecordedCall]]:
        """Yield calls, reviews and the delegations to those directly below, with their keys."""
        for turn in self.invocation.turns:
            for call in turn.calls:
                found = self._call(turn, call)
                if found is not None:
                    yield call.key, found
            if turn.review is not None and turn.key:
                words = RecordedCall(
                    path=self.invocation.path, turn=turn.number, tool="", outcome="returned", content=turn.review
                )
                yield ending_key(turn.key), words
        for child in self._children() if self.then else ():
            if child.result is not None and child.start.content_key and not self._is_lost(child):
                yield child.start.content_key, self._delegation(child)

    def _call(self, turn: AnsweredTurn, call: MadeCall) -> RecordedCall | None:
        """Return the call as it is reused; None: it is made again."""
        if call.outcome is None or call.lost:
            return None
        below = [child for child in self._children() if child.start.called_by == call.key]
        if call.tool in self.invocation.functions:
            unseen = self._unseen(turn)
            is_only = sum(one.tool in self.invocation.functions for one in turn.calls) == 1
            if unseen and not is_only:
                return None
            below += [one for one in unseen if isinstance(one, InvocationRecord)]
            if self.invocation.functions[call.tool] == "context" and self.invocation.has_layer:
                # It runs in workflow code, on a layer: what it changed is in no history.
                return None
        is_seen = below or call.tool in _CHANGE_TOOLS or call.tool in READ_TOOLS
        is_fork = source_of(self.record.start.parts) is not None
        if is_fork and not is_seen and all(one.key != call.key for one in self.invocation.effects):
            # It may have been taken over whole: then what it changed is not in this run's histories.
            return None
        if not self.then and (below or call.tool in READ_TOOLS or call.tool in COMMAND_TOOLS):
            # Files may be others now.
            return None
        if any(map(self._is_lost, below)):
            return None
        return RecordedCall(
            path=self.invocation.path,
            turn=turn.number,
            tool=call.tool,
            outcome=call.outcome,
            content=call.content,
            child=below[0].path if below else "",
            effects=tuple(self._effects(turn, call, below)),
            saved=self._saved(below),
        )

    def _delegation(self, child: InvocationRecord) -> RecordedCall:
        result = child.result
        assert result is not None
        return RecordedCall(
            path=self.invocation.path,
            turn=self.invocation.children.get(child.workflow, 0),
            tool="",
            outcome="returned",
            result=result.model_copy(update={"layer": None}),
            child=child.path,
            effects=tuple(self._effects_below(child)),
            saved=self._saved([child]),
        )

    def _children(self) -> list[InvocationRecord]:
        return self.record.children_of(self.invocation)

    def _unseen(self, turn: AnsweredTurn) -> list[InvocationRecord | MadeEffect]:
        """Return what began after the turn's answer by no call of it: functions have begun it."""
        made = {call.key for call in turn.calls}
        found: list[InvocationRecord | MadeEffect] = [
            one for one in self.invocation.effects if one.turn == turn.number and one.key not in made
        ]
        started = self.invocation.children
        begun = [one for one in self._children() if started.get(one.workflow) == turn.number]
        return [*found, *(child for child in begun if child.start.called_by not in made)]

    def _effects(self, turn: AnsweredTurn, call: MadeCall, below: list[InvocationRecord]) -> Iterator[RecordedEffect]:
        """Yield the changes of files that a call has made, in their order."""
        mine = [one for one in self.invocation.effects if one.key == call.key]
        if not mine and call.tool in _CHANGE_TOOLS and call.outcome == "returned":
            yield from self._written_in_layer(call)
        unseen = self._unseen(turn) if call.tool in self.invocation.functions else []
        mine += [one for one in unseen if isinstance(one, MadeEffect)]
        ordered: list[tuple[int, Iterator[RecordedEffect]]] = [(one.at, iter((_effect(one),))) for one in mine]
        for child in below:
            ended = max((one.at for one in self._all_below(child)), default=0)
            ordered.append((ended, self._effects_below(child)))
        for _, found in sorted(ordered, key=lambda one: one[0]):
            yield from found

    def _effects_below(self, child: InvocationRecord) -> Iterator[RecordedEffect]:
        """Yield the changes of files by an invocation and those below it."""
        if child.start.layer is not None:
            if child.result is not None and child.result.layer is not None:
                yield RecordedEffect(
                    activity="join_layers", request=None, began=child.start.layer, ended=child.result.layer
                )
            return
        yield from map(_effect, sorted(self._all_below(child), key=lambda one: one.at))

    def _all_below(self, child: InvocationRecord) -> list[MadeEffect]:
        return [effect for one in self.record.below(child.path) for effect in one.effects]

    def _written_in_layer(self, call: MadeCall) -> Iterator[RecordedEffect]:
        """Yield the change that a call made in a layer, where the history has only its result."""
        # People may have changed them.
        changed = [
            question.verdict.args
            for question in self.record.questions
            if question.request.content_key == call.key
            and question.verdict is not None
            and question.verdict.decision is DecisionKind.MODIFY
        ]
        args = (changed[-1] or {}) if changed else call.args
        try:
            place = locate(self.invocation.start.tree, str(args["path"]))
        except (KeyError, Refusal):
            return
        where: dict[str, Any] = {
            "mount": place.mount.model_dump(mode="json"),
            "relative": place.relative,
            "path": place.path,
            "definitions": True,
        }
        texts = {name: args[name] for name in ("content", "old_text", "new_text") if name in args}
        result = {"path": place.path, "bytes": 0, "created": False, "diff": "changed"}
        activity = cast("_ChangeActivity", call.tool)
        # A layer that it began on: what cannot be repeated there is done anew.
        yield RecordedEffect(activity=activity, request={**where, **texts}, result=result, began=CarriedLayer())

    def _is_lost(self, child: InvocationRecord) -> bool:
        """Return whether nobody knows what came of an effect below."""
        return any(call.lost for one in self.record.below(child.path) for turn in one.turns for call in turn.calls)

    def _saved(self, below: list[InvocationRecord]) -> Json:
        spent = Usage()
        for one in below:
            spent = spent.plus(self.record.spent_below(one.path))
        return spent.model_dump(mode="json") if below else None


def _effect(made: MadeEffect) -> RecordedEffect:
    layer = LayerWork.model_validate(made.request["layer"]) if made.request.get("layer") else None
    request = None if made.activity == RUN_COMMAND.name else made.request
    return RecordedEffect(
        activity=cast("_ChangeActivity", made.activity),
        request=request,
        result=made.result,
        began=None if layer is None else layer.carried,
    )
