"""What is sent to start a run, checked as far as files and environment of this process can tell.

Owns the checks before a run exists: the worker's file, its model, the attachments and their policy, the
size of it all. Used by `start` and by `run_worker`. Must not connect to anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from llm_do_temporal.definitions.registry.inputs import check_input
from llm_do_temporal.definitions.registry.registry import Registry
from llm_do_temporal.definitions.registry.templates import check_single, load_started
from llm_do_temporal.definitions.workshop.workshop import Workshop, load_workshop, run_settings
from llm_do_temporal.errors import (
    AttachmentRefusal,
    DefinitionError,
    EffectFailed,
    ModelRefusal,
    SandboxRefusal,
    UsageError,
)
from llm_do_temporal.messages.definitions import PinnedWorker
from llm_do_temporal.messages.runs import StartRunInput
from llm_do_temporal.messages.sizes import MAX_INLINE_BYTES, MAX_VALUE_BYTES
from llm_do_temporal.policy.files.attachments import Attachment, check_attachment_names, check_attachments
from llm_do_temporal.policy.files.sandbox import narrow, root_tree
from llm_do_temporal.policy.models.ids import Aliases
from llm_do_temporal.policy.models.resolution import resolve_model
from llm_do_temporal.policy.templates import FOLDER, PACKAGE, TEMPLATE_SUFFIXES
from llm_do_temporal.storage.places import workshop_blobs
from llm_do_temporal.storage.snapshots import snapshot_host_files


@dataclass(frozen=True)
class Prepared:
    """A worker that was found in a workshop of this machine."""

    workshop: Path
    worker: PinnedWorker
    template: str | None = None
    """Its name, where the worker is a template."""

    def attach(self, files: Sequence[Path], *, beside: Sequence[Attachment] = ()) -> tuple[Attachment, ...]:
        """Check the files against the worker's policy, and copy them to where the worker service finds them.

        `beside` are others that the worker gets with them. Raises UsageError.
        """
        policy, whose = self.worker.attachment_policy, f"worker '{self.worker.name}'"
        try:
            check_attachment_names(policy, [*(one.path for one in beside), *(one.name for one in files)], whose=whose)
            blobs = workshop_blobs(self.workshop)
            attachments = snapshot_host_files(files, blobs, policy.max_total_bytes)
            check_attachments(policy, [*beside, *attachments], whose=whose)
        except AttachmentRefusal as refusal:
            raise UsageError(refusal.message, next_step=refusal.next_step) from refusal
        return attachments

    def check_model(self, request: StartRunInput) -> None:
        """Raise UsageError where no model can run the worker.

        Only for the embedded worker service: it shares this environment, so what it would choose is known now.
        """
        self.choose_model(request)

    def choose_model(self, request: StartRunInput) -> tuple[str, Aliases]:
        """The worker's model as an embedded worker service would choose it, and the aliases it may be one of.

        Raises UsageError where there is none.
        """
        settings = run_settings(load_workshop(self.workshop).config, request)
        try:
            model = resolve_model(
                settings.models,
                worker=self.worker.name,
                worker_model=self.worker.model,
                caller_model=None,
                compatible=self.worker.compatible_models,
            )
        except ModelRefusal as refusal:
            raise UsageError(refusal.message, next_step=refusal.next_step) from refusal
        return model, settings.models.aliases

    def check_input(self, request: StartRunInput) -> None:
        """Raise UsageError where the input, or that of an item, does not fit the worker's `schema_in_ref`."""
        if self.template is not None:
            check_single(self.template, request)
        if self.worker.input_ref is None:
            return
        place = Registry(load_workshop(self.workshop)).place_of(request.worker)
        given: dict[str, Any] = {}
        for item in request.batch.items if request.batch is not None else ():
            if item.input is not None:
                given[f"{item.name}: "] = item.input
        if request.batch is None or len(given) < len(request.batch.items):
            given[""] = {} if request.input is None else request.input
        for where, value in given.items():
            try:
                check_input(self.worker.input_ref, value, place)
            except EffectFailed as error:
                raise UsageError(f"{where}{error.message}", next_step=error.next_step) from error


def prepare(workshop: Path, worker: str, params: Mapping[str, str | int | float | bool] | None = None) -> Prepared:
    """Find and load the worker, or the template with its parameters.

    Raises DefinitionError, also where it asks for more files than the workshop has, and UsageError for parameters that
    are not those of the template.
    """
    found = load_workshop(workshop)
    start = StartRunInput(worker=worker, params=dict(params or {}))
    loaded, template = load_started(Registry(found), found.root, start)
    _check_files(found, loaded)
    called = None if template is None else template.template
    return Prepared(workshop, loaded, None if called is None else called.name)


def template_path(given: str, workshop: Path | None, *, has_params: bool) -> str | None:
    """The name of the template whose file somebody named, as runs call it; None where it is none.

    A YAML file is a template where it lies below `templates/` of the workshop, or where parameters are given for it.
    Any other is a worker file. Files are looked for from here, then from the workshop's folder.
    """
    if not given.endswith(TEMPLATE_SUFFIXES) or given.startswith(PACKAGE):
        return None
    root = None if workshop is None else workshop.resolve()
    name = PurePosixPath(given).as_posix()
    for path in () if root is None else (Path.cwd() / given, root / given):
        real = path.parent.resolve() / path.name
        if real.is_file() and root is not None and real.is_relative_to(root):
            name = real.relative_to(root).as_posix()
            break
    return name if has_params or name.startswith(FOLDER) else None


def _check_files(workshop: Workshop, worker: PinnedWorker) -> None:
    sandbox = workshop.config.sandbox
    try:
        narrow(root_tree(sandbox), worker.sandbox, workshop_has_sandbox=sandbox is not None)
    except SandboxRefusal as refusal:
        raise DefinitionError(refusal.message, file=worker.source, next_step=refusal.next_step) from refusal


def attach_files(
    prepared: Prepared | None, files: Sequence[Path], *, beside: Sequence[Attachment] = ()
) -> tuple[Attachment, ...]:
    """What `Prepared.attach` returns. Raises UsageError, also for files where no workshop is known."""
    if not files:
        return ()
    if prepared is None:
        raise UsageError(
            "files can only be attached in a workshop: its folder is where they are kept for the worker service",
            next_step="Go to the workshop's folder, or name it with --workshop DIR.",
        )
    return prepared.attach(files, beside=beside)


def check_size(request: StartRunInput, *, kept_outside: bool = False) -> None:
    """Raise UsageError for more than can be sent; `kept_outside`: big values have a blob store to go to."""
    size, most = len(request.model_dump_json()), MAX_VALUE_BYTES if kept_outside else MAX_INLINE_BYTES
    if size > most:
        raise UsageError(
            f"prompt and input have {size} bytes together; at most {most} can be sent",
            next_step="Give long text as a file: -a FILE.",
        )
