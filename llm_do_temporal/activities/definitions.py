"""Loads definitions for workflows; the history pins each result from then on."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from temporalio import activity

from llm_do_temporal.activities.reuse import ForkRecords
from llm_do_temporal.activities.runtime.failures import load_errors
from llm_do_temporal.definitions.registry.registry import Registry, build_input, load_started
from llm_do_temporal.definitions.workshop import Workshop, load_workshop, notify_settings, run_settings
from llm_do_temporal.errors import AttachmentRefusal, EffectFailed, UsageError
from llm_do_temporal.extension import installed
from llm_do_temporal.messages.activities import LOAD_RUN, LOAD_WORKER
from llm_do_temporal.messages.definitions import PinnedWorker, RunSettings
from llm_do_temporal.messages.delegation import BuiltInput
from llm_do_temporal.messages.effects import LoadedRun, LoadRunInput, LoadWorkerInput
from llm_do_temporal.messages.experiments.forks import ForkIndex
from llm_do_temporal.messages.experiments.source import ForkSource
from llm_do_temporal.messages.runs import StartRunInput
from llm_do_temporal.policy.files.attachments import Attachment
from llm_do_temporal.policy.files.sandbox import root_tree
from llm_do_temporal.policy.notifications import NotifySettings
from llm_do_temporal.policy.queues import Queues
from llm_do_temporal.storage.blobs import BlobStore

MODEL_VARIABLE = "LLM_DO_MODEL"
_AS_NOW = ("rules", "shell", "queues", "extensions", "search_attributes", "live_text", "workshop_has_sandbox")
"""Settings that a fork takes from the workshop and the worker service of now, whatever the other run had."""
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


def _notify(workshop: Workshop) -> NotifySettings:
    """Return the targets that a run notifies; none where the worker service is told so."""
    if os.environ.get(NOTIFY_VARIABLE, "").lower() == "off":
        return NotifySettings()
    return notify_settings(workshop.config, os.environ)


def _set_up(loaded: LoadedRun, start: StartRunInput, recorded: ForkIndex | None) -> LoadedRun:
    """Return what was loaded with what the start, and the record of a fork, say about answers and files."""
    notify = NotifySettings() if start.scripted else loaded.notify
    settings = loaded.settings.model_copy(update={"aside": start.aside, "scripted": start.scripted})
    script = (*start.script, *(recorded.answers if recorded else ()))
    return loaded.model_copy(update={"settings": settings, "script": script, "notify": notify})


class DefinitionActivities:
    """Reads the workshop's files anew for every run and every callee, so that new workers are found at once."""

    def __init__(
        self,
        workshop: Path,
        blobs: BlobStore,
        records: ForkRecords,
        *,
        search_attributes: bool,
        queues: Queues,
        note: RunNote = no_note,
    ) -> None:
        self._workshop = workshop
        self._blobs = blobs
        self._search_attributes = search_attributes
        self._queues = queues
        self._records = records
        self._note = note

    @activity.defn(name=LOAD_RUN.name)
    def load_run(self, request: LoadRunInput) -> LoadedRun:
        """The entry worker and all that a run takes from its workshop."""
        start = request.start
        with load_errors():
            recorded = None if start.fork is None else self._recorded_of(start.fork, aside=start.aside)
            workshop = load_workshop(self._workshop)
            self._note(workshop, start)
            if recorded is not None and recorded.loaded is not None:
                return self._recorded(recorded.loaded, workshop, start, recorded)
            items = () if start.batch is None else start.batch.items
            for attachment in (*start.attachments, *(one for item in items for one in item.attachments)):
                self._check_attached(attachment)
            worker, template = load_started(Registry(workshop, load_toolsets=True), workshop.root, start)
            for extension in installed():
                extension.check_start(start, workshop)
            settings = self._settings(workshop, start)
            loaded = LoadedRun(
                worker=worker,
                built=_built(workshop, worker, start),
                tree=root_tree(workshop.config.sandbox),
                settings=settings,
                notify=_notify(workshop),
                prompt=None if template is None else template.prompt,
                template=None if template is None else template.template,
                script=start.script,
            )
            return _set_up(loaded, start, recorded)

    def _recorded_of(self, fork: ForkSource, *, aside: bool) -> ForkIndex:
        """Return the record that a run reuses. Raises UsageError where its changes would not stay aside."""
        if not aside and not fork.in_place:
            raise UsageError(
                f"a fork of run '{fork.run}' would write into the workshop's files",
                next_step="Start it with `aside`, as `llm-do-temporal fork` does.",
            )
        return self._records.index(fork)

    def _settings(self, workshop: Workshop, start: StartRunInput) -> RunSettings:
        return run_settings(
            workshop.config,
            start,
            environment_model=os.environ.get(MODEL_VARIABLE),
            search_attributes=self._search_attributes,
            queues=self._queues,
        )

    def _recorded(self, loaded: LoadedRun, workshop: Workshop, start: StartRunInput, recorded: ForkIndex) -> LoadedRun:
        """Return what the other run had loaded, with what counts as it is now: rules, folders and this service."""
        now = self._settings(workshop, start)
        kept = {name: getattr(now, name) for name in _AS_NOW}
        if start.mode is not None:
            kept["mode"] = start.mode
        settings = loaded.settings.model_copy(update=kept)
        tree = root_tree(workshop.config.sandbox)
        return _set_up(loaded.model_copy(update={"settings": settings, "tree": tree}), start, recorded)

    def _check_attached(self, attachment: Attachment) -> None:
        """Check claimed attachments against the blob store: a run started by hand may claim another size."""
        size = self._blobs.size(attachment.sha256)
        if size != attachment.bytes:
            raise AttachmentRefusal(f"'{attachment.path}' is said to have {attachment.bytes} bytes, but has {size}")

    @activity.defn(name=LOAD_WORKER.name)
    def load_worker(self, request: LoadWorkerInput) -> PinnedWorker:
        """The worker of this name, resolved and rendered."""
        with load_errors():
            registry = Registry(load_workshop(self._workshop), load_toolsets=True)
            return registry.load(request.name, run_python=request.run_python)
