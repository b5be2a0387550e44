"""Loads definitions for workflows; the history pins each result from then on."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from temporalio import activity

from llm_do_temporal.activities.runtime.failures import load_errors
from llm_do_temporal.definitions.registry.registry import Registry, build_input, load_started
from llm_do_temporal.definitions.workshop import Workshop, load_workshop, notify_settings, run_settings
from llm_do_temporal.errors import AttachmentRefusal, EffectFailed, UsageError
from llm_do_temporal.extension import IN_SERVICE, installed, needs
from llm_do_temporal.messages.activities import (
    LOAD_RUN,
    LOAD_WORKER,
    BuiltInput,
    LoadedRun,
    LoadRunInput,
    LoadWorkerInput,
)
from llm_do_temporal.messages.definitions import PinnedWorker, RunSettings
from llm_do_temporal.messages.runs import StartRunInput
from llm_do_temporal.policy.files.sandbox import Tree, root_tree
from llm_do_temporal.policy.notifications import NotifySettings
from llm_do_temporal.policy.queues import Queues
from llm_do_temporal.storage.blobs import BlobStore

MODEL_VARIABLE = "LLM_DO_MODEL"
NOTIFY_VARIABLE = "LLM_DO_NOTIFY"
RunNote = Callable[[Workshop, StartRunInput], None]
"""Notes that a run of this workshop begins so. May be called for one run several times, and in several threads."""


def no_note(_workshop: Workshop, _start: StartRunInput) -> None:
    """Note nothing: a `RunNote`."""


def _built(workshop: Workshop, worker: PinnedWorker, start: StartRunInput) -> BuiltInput | None:
    """The input of an entry worker with `schema_in_ref`. Raises UsageError where it does not fit."""
    if worker.input_ref is None or start.is_batch:  # the items of a batch may have inputs of their own
        return None
    given: Any = {} if start.input is None else start.input
    try:
        return build_input(worker.input_ref, given, Registry(workshop).place_of(start.worker))
    except EffectFailed as error:
        raise UsageError(error.message, next_step=error.next_step) from error


def _set_up(loaded: LoadedRun, start: StartRunInput) -> LoadedRun:
    """Return what was loaded with what the start says about answers and files."""
    notify = NotifySettings() if start.scripted else loaded.notify
    settings = loaded.settings.model_copy(update={"aside": start.aside, "scripted": start.scripted})
    return loaded.model_copy(update={"settings": settings, "notify": notify})


@dataclass(frozen=True)
class RunLoad:
    """Ways of a capability to what a run begins with."""

    all: Callable[[], LoadedRun]
    """Loads worker and settings as they are now."""
    settings: Callable[[], tuple[RunSettings, Tree]]
    """Returns settings and files as they are now, whatever the worker is."""


RunLoader = Callable[[StartRunInput, Any, RunLoad], LoadedRun | None]
"""Returns what a run begins with that has a part of this capability, given that part; None leaves it to others."""


class DefinitionActivities:
    """Reads the workshop's files anew for every run and every callee, so that new workers are found at once."""

    def __init__(
        self,
        workshop: Path,
        blobs: BlobStore,
        *,
        search_attributes: bool,
        queues: Queues,
        note: RunNote = no_note,
        loaders: Mapping[str, RunLoader] | None = None,
    ) -> None:
        """`loaders` are those of capabilities, by their names; None: there are none."""
        self._workshop = workshop
        self._blobs = blobs
        self._search_attributes = search_attributes
        self._queues = queues
        self._loaders = loaders or {}
        self._note = note

    @activity.defn(name=LOAD_RUN.name)
    def load_run(self, request: LoadRunInput) -> LoadedRun:
        """The entry worker and all that a run takes from its workshop."""
        start = request.start
        with load_errors():
            workshop = load_workshop(self._workshop)
            self._note(workshop, start)
            load = RunLoad(lambda: self._loaded(workshop, start), lambda: self._settings(workshop, start))
            for name, part in start.parts.items():
                if name not in self._loaders:
                    needs(name, "this run", where=IN_SERVICE)
                elif (loaded := self._loaders[name](start, part, load)) is not None:
                    return _set_up(loaded, start)
            return _set_up(load.all(), start)

    def _loaded(self, workshop: Workshop, start: StartRunInput) -> LoadedRun:
        """Return the entry worker, and the settings of the run."""
        items = () if start.batch is None else start.batch.items
        for attachment in (*start.attachments, *(one for item in items for one in item.attachments)):
            # A run started by hand may claim another size.
            size = self._blobs.size(attachment.sha256)
            if size != attachment.bytes:
                raise AttachmentRefusal(f"'{attachment.path}' is said to have {attachment.bytes} bytes, but has {size}")
        worker, template = load_started(Registry(workshop, load_toolsets=True), workshop.root, start)
        for extension in installed():
            extension.check_start(start, workshop)
        settings, tree = self._settings(workshop, start)
        is_silent = os.environ.get(NOTIFY_VARIABLE, "").lower() == "off"
        return LoadedRun(
            worker=worker,
            built=_built(workshop, worker, start),
            tree=tree,
            settings=settings,
            notify=NotifySettings() if is_silent else notify_settings(workshop.config, os.environ),
            prompt=None if template is None else template.prompt,
            template=None if template is None else template.template,
            script=start.script,
        )

    def _settings(self, workshop: Workshop, start: StartRunInput) -> tuple[RunSettings, Tree]:
        settings = run_settings(
            workshop.config,
            start,
            environment_model=os.environ.get(MODEL_VARIABLE),
            search_attributes=self._search_attributes,
            queues=self._queues,
        )
        return settings, root_tree(workshop.config.sandbox)

    @activity.defn(name=LOAD_WORKER.name)
    def load_worker(self, request: LoadWorkerInput) -> PinnedWorker:
        """The worker of this name, resolved and rendered."""
        with load_errors():
            registry = Registry(load_workshop(self._workshop), load_toolsets=True)
            return registry.load(request.name, run_python=request.run_python)
