"""Workers and models of a fork that are others than in the run: read as files are read for a start, with its errors."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import yaml

from llm_do_temporal.client.forks.invocation_record import InvocationRecord
from llm_do_temporal.client.forks.run_record import RunRecord
from llm_do_temporal.client.given_texts import read_given
from llm_do_temporal.definitions.registry.registry import Registry
from llm_do_temporal.definitions.workers.places import WorkerPlace, named_worker
from llm_do_temporal.definitions.workers.worker_file import parse_worker, split_front_matter
from llm_do_temporal.definitions.workshop import load_workshop
from llm_do_temporal.errors import ModelRefusal, UsageError, WorkerNotFound
from llm_do_temporal.messages.activities import LOAD_WORKER
from llm_do_temporal.messages.definitions import DelegateTool, PinnedWorker
from llm_do_temporal.messages.effects import LoadedRun, LoadWorkerInput
from llm_do_temporal.messages.experiments.forks import RecordedRead
from llm_do_temporal.policy.models import ModelSources, resolve_model
from llm_do_temporal.policy.reuse.keys import read_key

_NOT_TOLD = frozenset(
    ("description", "sha256", "source", "limits", "locked", "warnings", "unloaded", "compatible_models", "model")
)
"""Fields of a worker that no model is told."""
_NOT_SEEN = frozenset(("warnings", "unloaded"))


@dataclass(frozen=True)
class ChangedDefinitions:
    """Definitions of a fork."""

    loaded: LoadedRun | None
    """Entry worker and settings; None: the run had loaded none."""
    reads: Mapping[str, RecordedRead] = field(default_factory=dict[str, RecordedRead])
    """Workers that the run called, as they are loaded in the fork, by read keys."""
    surely: tuple[str, ...] = ()
    """Paths of invocations whose model is told something else, or is another."""
    perhaps: tuple[str, ...] = ()
    """Paths of invocations whose worker is another in what no model is told."""
    other_models: tuple[str, ...] = ()
    """Paths of invocations whose model is another."""
    warnings: tuple[str, ...] = ()


def changed_definitions(
    record: RunRecord, file: Path | None, settings: Sequence[str], model: str | None, workshop: Path | None
) -> ChangedDefinitions:
    """Return the definitions of a fork of the run, with the worker of `file`, these settings and this model.

    Raises DefinitionError for a worker file that is wrong, UsageError for a worker that the run had not.
    """
    changes = _Changes(record, workshop)
    if file is not None:
        changes.use_file(file)
    for text in settings:
        changes.set_key(text)
    return changes.applied(model)


class _Changes:
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

    def use_file(self, file: Path) -> None:
        """Take the definition of the worker that is called like the file, or like the folder of a `worker.worker`."""
        name = file.stem if file.stem in self._pinned else named_worker(file)
        self._known(name, f"the file '{file}'")
        text = read_given(file, f"the worker file '{file}'")
        place, root = self._place(name), self._root().resolve()
        real = file.resolve()
        if real.is_relative_to(root):
            place = WorkerPlace(name, real, root)
        self._texts[name] = (place, text)

    def set_key(self, text: str) -> None:
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

    def applied(self, model: str | None) -> ChangedDefinitions:
        """Return the definitions with all changes."""
        registry = Registry(load_workshop(self._root())) if self._texts else None
        workers: dict[str, tuple[PinnedWorker, PinnedWorker]] = {}
        for name, (place, text) in self._texts.items():
            assert registry is not None
            parsed = parse_worker(text, place, sha256=hashlib.sha256(text.encode()).hexdigest())
            workers[name] = registry.pinned(parsed, run_python=False), registry.pinned(parsed)
            self._warnings += workers[name][1].warnings
        pinned = {name: workers[name][1] if name in workers else one for name, one in self._pinned.items()}
        pinned = {name: _with_callees(one, workers) for name, one in pinned.items()}
        loaded = self._loaded(pinned, model)
        surely, perhaps, others = self._changed(pinned, loaded)
        reads = _reads(pinned, workers)
        return ChangedDefinitions(loaded, reads, surely, perhaps, others, tuple(self._warnings))

    def _loaded(self, pinned: Mapping[str, PinnedWorker], model: str | None) -> LoadedRun | None:
        loaded = self._record.loaded
        if loaded is None:
            return None
        settings = loaded.settings
        if model is not None:
            settings = settings.model_copy(update={"models": settings.models.model_copy(update={"run_model": model})})
        worker = loaded.worker if loaded.template is not None else pinned[loaded.worker.name]
        return loaded.model_copy(update={"worker": worker, "settings": settings})

    def _changed(
        self, pinned: Mapping[str, PinnedWorker], loaded: LoadedRun | None
    ) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
        """Return the paths of invocations that are surely others, that perhaps are, and that have other models."""
        surely: list[str] = []
        perhaps: list[str] = []
        models: dict[str, str] = {}
        for path, one in self._record.invocations.items():
            before = one.start.worker
            now = before if one.start.template is not None else pinned[before.name]
            model = one.start.model if loaded is None else _model(loaded.settings.models, now, one, models)
            models[path] = model
            if model != one.start.model or _differs(before, now, _NOT_TOLD):
                surely.append(path)
            elif _differs(before, now, _NOT_SEEN):
                perhaps.append(path)
        others = [path for path, one in self._record.invocations.items() if models[path] != one.start.model]
        return tuple(surely), tuple(perhaps), tuple(others)

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
    tools = tuple(_callee_tool(tool, changed[tool.name][1]) if tool.name in changed else tool for tool in toolset.tools)
    return worker.model_copy(update={"delegation": toolset.model_copy(update={"tools": tools})})


def _callee_tool(tool: DelegateTool, callee: PinnedWorker) -> DelegateTool:
    return DelegateTool(
        name=tool.name,
        description=callee.description or f"Call the worker '{tool.name}' to delegate a subtask.",
        takes_attachments=callee.attachment_policy.max_attachments > 0,
        input_schema=callee.input_schema,
    )


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
        asked = (worker.source,) if worker.source.startswith("pkg:") else (name,)
        for one in asked:
            for run_python, loaded in enumerate(both):
                request = LoadWorkerInput(name=one, run_python=bool(run_python)).model_dump(mode="json")
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
