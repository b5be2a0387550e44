"""The activities behind delegation: drafting and saving workers, loading templates, checking typed input.

Owns the effects; what may be called or made was decided before. Scheduled by workflow code.
"""

from __future__ import annotations

from pathlib import Path

from temporalio import activity

from llm_do_temporal.activities.models.builder import check_provider
from llm_do_temporal.activities.runtime.failures import load_errors, user_errors
from llm_do_temporal.definitions.registry.registry import (
    MAX_DEFINITION_BYTES,
    Registry,
    build_input,
    check_draft,
    check_output,
    draft_worker,
    generated_place,
    load_template,
)
from llm_do_temporal.definitions.workers.places import own_candidates
from llm_do_temporal.definitions.workers.worker_file import ParsedWorker, parse_worker, template_place
from llm_do_temporal.definitions.workshop import load_workshop, model_aliases
from llm_do_temporal.errors import DelegationRefusal
from llm_do_temporal.messages.activities import (
    BUILD_INPUT,
    CHECK_OUTPUT,
    DRAFT_WORKER,
    LOAD_TEMPLATE,
    SAVE_WORKER,
    BuildInputInput,
    BuiltInput,
    CheckedOutput,
    CheckOutputInput,
    DraftWorkerInput,
    LoadedTemplate,
    LoadTemplateInput,
    SavedWorker,
    SaveWorkerInput,
    WorkerDraft,
)
from llm_do_temporal.policy.files.sandbox import Mount, Place
from llm_do_temporal.policy.models import chain_of, full_name
from llm_do_temporal.sandbox.changes import OldFile
from llm_do_temporal.sandbox.layers.contents import LayerContents
from llm_do_temporal.sandbox.layers.files import LayeredFiles, files_of, update_of
from llm_do_temporal.storage.blobs import BlobStore


class DelegationActivities:
    """Workers, templates and typed input of one workshop."""

    def __init__(self, workshop: Path, blobs: BlobStore) -> None:
        self._workshop = workshop
        self._contents = LayerContents(blobs)

    @activity.defn(name=DRAFT_WORKER.name)
    def draft_worker(self, asked: DraftWorkerInput) -> WorkerDraft:
        """The file of a worker that a model wants; nothing is written.

        Fails with DelegationRefusal for a name that is taken and for what a new worker cannot have, with ModelRefusal
        for a model of a provider that does not exist.
        """
        with load_errors():
            workshop = load_workshop(self._workshop)
            draft = draft_worker(workshop, asked)
            if asked.model is not None:
                aliases = model_aliases(workshop.config)
                for model in chain_of(aliases, asked.model):
                    check_provider(full_name(aliases, model))
            return draft

    @activity.defn(name=SAVE_WORKER.name)
    def save_worker(self, asked: SaveWorkerInput) -> SavedWorker:
        """Write the file, whole or not at all. The same text again changes nothing.

        Fails with DelegationRefusal where another worker has taken the name meanwhile, in the layer, too.
        """
        with user_errors():
            workshop = load_workshop(self._workshop)
            place = generated_place(asked.name, workshop.root)
            where = str(place.relative)
            data = asked.text.encode()
            mount = Mount(at="/", root=".")
            target_place = Place(mount=mount, relative=where, path=where)
            files = files_of(self._workshop, asked.layer, self._contents)
            # Of two that want one name at the same time, the second finds what the first wrote.
            with files.spot(target_place, apply=True, create=True) as spot:
                old = spot.old(MAX_DEFINITION_BYTES)
                parsed = parse_worker(asked.text, place, sha256="")
                check_draft(parsed, workshop)
                if isinstance(files, LayeredFiles):
                    _check_free_in_layer(files, parsed, old)
                if old is None:
                    spot.replace(data, None)
            takes = parsed.definition.attachment_policy.max_attachments > 0
            return SavedWorker(source=where, takes_attachments=takes, layer=update_of(files))

    @activity.defn(name=LOAD_TEMPLATE.name)
    def load_template(self, asked: LoadTemplateInput) -> LoadedTemplate:
        """The template as a worker, with the parameters and the input filled in."""
        with load_errors():
            workshop = load_workshop(self._workshop)
            registry = Registry(workshop, load_toolsets=True)
            params, run_python = asked.params, asked.run_python
            return load_template(registry, workshop.root, asked.template, params, asked.input, run_python=run_python)

    @activity.defn(name=BUILD_INPUT.name)
    def build_input(self, asked: BuildInputInput) -> BuiltInput:
        """Build the input of a worker with `schema_in_ref` from the fields of a call."""
        with user_errors():
            place = Registry(load_workshop(self._workshop)).place_of(asked.worker)
            return build_input(asked.reference, asked.values, place)

    @activity.defn(name=CHECK_OUTPUT.name)
    def check_output(self, asked: CheckOutputInput) -> CheckedOutput:
        """Validate a result with the class that its worker names, validators included."""
        with user_errors():
            workshop = load_workshop(self._workshop)
            if asked.is_template:
                place = template_place(asked.worker, workshop.root.resolve())
            else:
                place = Registry(workshop).place_of(asked.worker)
            return check_output(asked.reference, asked.value, folder=place.folder, root=place.root)


def _check_free_in_layer(files: LayeredFiles, parsed: ParsedWorker, old: OldFile | None) -> None:
    """Raise DelegationRefusal where the layer has a file of the worker, unless it is at the same place with the same
    keys."""
    place = parsed.place
    for path in own_candidates(place.name):
        if not files.has(path):
            continue
        if path == str(place.relative) and old is not None:
            before = parse_worker(old.data.decode(errors="replace"), place, sha256="")
            if before.document.value == parsed.document.value:
                continue
        raise DelegationRefusal(
            f"worker '{place.name}' exists already ({path}); no worker is overwritten",
            next_step="Choose another name, or call the worker that is there.",
        )
