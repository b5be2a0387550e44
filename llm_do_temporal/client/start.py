"""Requests to start runs, checked as far as files and environment of this process can tell.

Owns all checks before a run exists, in one order: the worker's file, the attachments and their policy, its model, its
input, the size of everything. The command line, the page, `run_worker` and `certify` only fill in a `StartRequest`.
Must not connect to anything.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path, PurePosixPath
from typing import Any

from llm_do_temporal.client.batches import Attach, check_batch_size
from llm_do_temporal.definitions.check import start_warnings
from llm_do_temporal.definitions.models import check_plays, missing_variables
from llm_do_temporal.definitions.registry.registry import Registry, check_input, check_single, load_started
from llm_do_temporal.definitions.workers.places import PACKAGE_PREFIX
from llm_do_temporal.definitions.workshop import Workshop, load_workshop, model_aliases, run_settings
from llm_do_temporal.errors import (
    AttachmentRefusal,
    DefinitionError,
    EffectFailed,
    ModelRefusal,
    SandboxRefusal,
    UsageError,
)
from llm_do_temporal.extension import installed
from llm_do_temporal.login import login_name
from llm_do_temporal.messages.activities import ReadInputsInput
from llm_do_temporal.messages.definitions import PinnedWorker, ReviewMode
from llm_do_temporal.messages.runs import Batch, InputFiles, StartRunInput
from llm_do_temporal.messages.sizes import MAX_INLINE_BYTES, MAX_VALUE_BYTES
from llm_do_temporal.policy.approvals import Mode
from llm_do_temporal.policy.budget import Limits
from llm_do_temporal.policy.delegation import FOLDER, PACKAGE, TEMPLATE_SUFFIXES
from llm_do_temporal.policy.files.attachments import (
    Attachment,
    check_attachment_names,
    check_attachments,
    file_doubt,
    kind_of,
)
from llm_do_temporal.policy.files.sandbox import narrow, root_tree
from llm_do_temporal.policy.models import Aliases, check_models, resolve_model
from llm_do_temporal.sandbox.input_files import InputReader, measure
from llm_do_temporal.storage.places import workshop_blobs
from llm_do_temporal.storage.snapshots import Look, named_type, snapshot_host_files

_MOST_NOTES = 20
"""Most items that are told of because a run could not do them now."""


def _nothing(*_given: object) -> None:
    return None


@dataclass(frozen=True, kw_only=True)
class StartRequest:
    """A run to be started, as it was typed or passed: no file has been looked at and no text read."""

    worker: str
    read_prompt: Callable[[], str] = str
    """Returns the prompt. Called after the worker was found and its files were copied, since stdin may be slow."""
    read_input: Callable[[], Any] = _nothing
    """Returns the structured input, None without any. Called after `read_prompt`."""
    read_batch: Callable[[Attach], Batch | None] = _nothing
    """Returns the items of a batch, None without any. Called after `read_input`."""
    params: Mapping[str, str | int | float | bool] = field(default_factory=dict[str, str | int | float | bool])
    files: tuple[Path, ...] = ()
    were_sent: bool = False
    """Whether all files are copies of what somebody has sent: errors then have their names and no paths."""
    reads: InputFiles | None = None
    """Files of the workshop that the run reads when it begins; None: all that it is given is taken now."""
    model: str | None = None
    """Model of workers that name none."""
    force_model: str | None = None
    """Model of every worker, whatever it names."""
    mode: Mode | None = None
    """None leaves it to the workshop."""
    limits: Limits = field(default_factory=Limits)
    review: ReviewMode | None = None
    """Review of all changes of files together; None leaves it to the workshop and its workers."""
    review_branch: str = ""
    """Git branch that takes accepted changes; empty: the workshop's files do."""
    aside: bool = False
    """Whether all changes of files stay in a layer, which nobody reviews and nothing commits; it is in the result."""
    started_by: str = field(default_factory=login_name)

    def prepare(
        self,
        workshop: Path | None,
        *,
        embedded: bool,
        needs_keys: bool = False,
        warn: Callable[[str], None] = _nothing,
    ) -> StartRunInput:
        """Check the request against the workshop's folder, copy its files to the blob store, and return what is sent.

        `workshop` is None where no folder is known: then only the service can check the worker. `embedded` says that
        the run goes to an embedded worker service. It shares this environment, so the model that it would choose is
        known now; with `needs_keys` its key must be set here, too. `warn` is given each warning about the files of the
        worker and of those that it may call, and about models. Raises DefinitionError and UsageError for everything
        that can be known to be wrong.
        """
        worker = None if workshop is None else load_local_worker(workshop, self.worker, self.params)
        if worker is not None and needs_keys:
            model, aliases = self._choose_model(worker)
            if missing := missing_variables(aliases, model, os.environ):
                step = "Set it before the command that starts the worker service; --model offline:echo needs none."
                names = " or ".join(missing)
                raise UsageError(f"{names} is not set, and the model '{model}' needs it", next_step=step)
        if worker is not None:
            for warning in worker.warnings(installed=embedded):
                warn(warning)
            worker.check_start(StartRunInput(**self._settings()))
        for line in [] if self.reads is None else _known(worker).doubts_now(self.reads):
            warn(line)
        doubts: dict[str, None] = {}
        attachments = self._attach(worker, self.files, doubts)
        request = StartRunInput(
            **self._settings(),
            prompt=self.read_prompt(),
            input=self.read_input(),
            attachments=attachments,
            batch=self.read_batch(lambda files: self._attach(worker, files, doubts, beside=attachments)),
        )
        if doubts:
            more = f"; and {len(doubts) - _MOST_NOTES} more" if len(doubts) > _MOST_NOTES else ""
            warn(f"models do not get these files as they are: {'; '.join(list(doubts)[:_MOST_NOTES])}{more}")
        models = [self.force_model, self.model]
        if worker is not None and embedded:
            models.append(worker.choose_model(request)[0])
        for doubt in check_models(None if worker is None else worker.aliases(), models):
            warn(doubt)
        if worker is not None:
            check_plays(worker.workshop, models)
            worker.check_input(request)
        check_request_size(request, kept_outside=worker is not None)
        check_batch_size(request, kept_outside=worker is not None)
        return request

    def choose_model(self, workshop: Path) -> tuple[str, Aliases]:
        """Do `LocalWorker.choose_model`, with no text read and no file copied. Raises DefinitionError, UsageError."""
        return self._choose_model(load_local_worker(workshop, self.worker, self.params))

    def _choose_model(self, worker: LocalWorker) -> tuple[str, Aliases]:
        model, aliases = worker.choose_model(StartRunInput(**self._settings()))
        check_models(aliases, [model, self.force_model, self.model])
        return model, aliases

    def _attach(
        self,
        worker: LocalWorker | None,
        files: Sequence[Path],
        doubts: dict[str, None],
        *,
        beside: Sequence[Attachment] = (),
    ) -> tuple[Attachment, ...]:
        """Do `LocalWorker.attach`. Raises UsageError, also for files where no workshop is known.

        `doubts` get a clause for each file that is damaged, locked or not what its name says.
        """
        if not files:
            return ()
        found: dict[str, None] = {}

        def look(attachment: Attachment, data: bytes) -> None:
            # A PDF or an image is given as what it is, whatever its name says.
            is_known = kind_of(attachment.media_type) is not None
            declared = attachment.media_type if is_known else named_type(attachment.path) or attachment.media_type
            if doubt := file_doubt(data, declared):
                found[f"'{attachment.path}': {doubt}"] = None

        attachments = _known(worker).attach(files, beside=beside, were_sent=self.were_sent, look=look)
        doubts |= found
        return attachments

    def _settings(self) -> dict[str, Any]:
        same = {one.name: getattr(self, one.name) for one in fields(self) if one.name in StartRunInput.model_fields}
        environment_model = os.environ.get("LLM_DO_MODEL") or None
        return same | {"params": dict(self.params), "environment_model": environment_model}


@dataclass(frozen=True)
class LocalWorker:
    """A worker that was found in a workshop of this machine."""

    folder: Path
    workshop: Workshop
    worker: PinnedWorker
    template: str | None = None
    """Name of the template that the worker was made from; None for a worker with a file of its own."""

    def warnings(self, *, installed: bool) -> list[str]:
        """Return the warnings about the worker and those that it may call; for `installed` see `start_warnings`."""
        worker = self.worker
        name = worker.source if worker.source.startswith(PACKAGE_PREFIX) else worker.name
        found = [] if self.template is not None else start_warnings(self.workshop, name, installed=installed)
        return list(dict.fromkeys([*worker.warnings, *found]))

    def attach(
        self,
        files: Sequence[Path],
        *,
        beside: Sequence[Attachment] = (),
        were_sent: bool = False,
        look: Look | None = None,
    ) -> tuple[Attachment, ...]:
        """Check the files against the worker's policy, and copy them to the blob store of the worker service.

        `beside` are other attachments, which count with them. `look` is given each file as it was copied. Raises
        UsageError, which has the names alone of files that `were_sent`.
        """
        policy, whose = self.worker.attachment_policy, f"worker '{self.worker.name}'"
        try:
            check_attachment_names(policy, [*(one.path for one in beside), *(one.name for one in files)], whose=whose)
            blobs = workshop_blobs(self.folder)
            attachments = snapshot_host_files(files, blobs, policy.max_total_bytes, were_sent=were_sent, look=look)
            check_attachments(policy, [*beside, *attachments], whose=whose)
        except AttachmentRefusal as refusal:
            raise UsageError(refusal.message, next_step=refusal.next_step) from refusal
        return attachments

    def doubts_now(self, files: InputFiles) -> list[str]:
        """Return lines about items that a run which read the files now would not have, or could not do.

        Nothing is kept of them. Raises UsageError.
        """
        policy, name = self.worker.attachment_policy, self.worker.name
        try:
            found = InputReader(self.folder, ReadInputsInput(files=files, policy=policy, worker=name), measure).read()
        except AttachmentRefusal as refusal:
            raise UsageError(refusal.message, next_step=refusal.next_step) from refusal
        if found.items is None:
            return []
        wrong = [one.unusable for one in found.items if one.unusable]
        none = [] if found.items else [f"{files.nothing} now; a run then has nothing to do"]
        return none + [f"an item would fail now: {line}" for line in wrong[:_MOST_NOTES]]

    def aliases(self) -> Aliases:
        """Return the aliases of the workshop."""
        return model_aliases(self.workshop.config)

    def choose_model(self, request: StartRunInput) -> tuple[str, Aliases]:
        """Return the worker's model as an embedded worker service would choose it, and the workshop's aliases.

        Raises UsageError where no model can run the worker.
        """
        settings = run_settings(self.workshop.config, request)
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

    def check_start(self, request: StartRunInput) -> None:
        """Have all capabilities check the start. Raises UsageError where the workshop's files do not allow it."""
        try:
            for extension in installed():
                extension.check_start(request, self.workshop)
        except (SandboxRefusal, EffectFailed) as error:
            raise UsageError(error.message, next_step=error.next_step) from error

    def check_input(self, request: StartRunInput) -> None:
        """Raise UsageError where the input, or that of an item, does not fit the worker's `schema_in_ref`."""
        if self.template is not None:
            check_single(self.template, request)
        if self.worker.input_ref is None:
            return
        place = Registry(self.workshop).place_of(request.worker)
        inputs: dict[str, Any] = {}
        for item in request.batch.items if request.batch is not None else ():
            if item.input is not None:
                inputs[f"{item.name}: "] = item.input
        # Lines that the run reads later may have inputs of their own.
        are_later = request.reads is not None and bool(request.reads.each_line)
        if not are_later and (request.batch is None or len(inputs) < len(request.batch.items)):
            inputs[""] = {} if request.input is None else request.input
        wrong: list[EffectFailed] = []
        for prefix, value in inputs.items():
            try:
                check_input(self.worker.input_ref, value, place)
            except EffectFailed as error:
                wrong.append(EffectFailed(f"{prefix}{error.message}", next_step=error.next_step))
        if wrong:
            raise UsageError("\n  ".join(one.message for one in wrong), next_step=wrong[0].next_step) from wrong[0]


def load_local_worker(
    folder: Path, worker: str, params: Mapping[str, str | int | float | bool] | None = None
) -> LocalWorker:
    """Find and load the worker, or the template with its parameters, in the workshop of this folder.

    Raises DefinitionError, also where the worker asks for more files than the workshop has, and UsageError for
    parameters that are not those of the template.
    """
    workshop = load_workshop(folder)
    start = StartRunInput(worker=worker, params=dict(params or {}))
    loaded, template = load_started(Registry(workshop), workshop.root, start)
    sandbox = workshop.config.sandbox
    try:
        narrow(root_tree(sandbox), loaded.sandbox, workshop_has_sandbox=sandbox is not None)
    except SandboxRefusal as refusal:
        raise DefinitionError(refusal.message, file=loaded.source, next_step=refusal.next_step) from refusal
    identity = None if template is None else template.template
    return LocalWorker(folder, workshop, loaded, None if identity is None else identity.name)


def template_path(worker: str, workshop: Path | None, *, has_params: bool) -> str | None:
    """Return the name by which runs call the template whose file `worker` names; None where that is no template.

    A YAML file is a template where it lies below `templates/` of the workshop, or where parameters are given for it.
    Any other is a worker file. Files are looked for from here, then from the workshop's folder.
    """
    if not worker.endswith(TEMPLATE_SUFFIXES) or worker.startswith(PACKAGE):
        return None
    root = None if workshop is None else workshop.resolve()
    name = PurePosixPath(worker).as_posix()
    for path in () if root is None else (Path.cwd() / worker, root / worker):
        real = path.parent.resolve() / path.name
        if real.is_file() and root is not None and real.is_relative_to(root):
            name = real.relative_to(root).as_posix()
            break
    return name if has_params or name.startswith(FOLDER) else None


def _known(worker: LocalWorker | None) -> LocalWorker:
    """Return the worker that files are for. Raises UsageError where no workshop is known."""
    if worker is None:
        raise UsageError(
            "files can only be attached in a workshop: its folder is where they are kept for the worker service",
            next_step="Go to the workshop's folder, or name it with --workshop DIR.",
        )
    return worker


def check_request_size(request: StartRunInput, *, kept_outside: bool = False) -> None:
    """Raise UsageError for a request with more bytes than can be sent; `kept_outside`: a blob store takes big ones."""
    size, most = len(request.model_dump_json()), MAX_VALUE_BYTES if kept_outside else MAX_INLINE_BYTES
    if size > most:
        raise UsageError(
            f"prompt and input have {size} bytes together; at most {most} can be sent",
            next_step="Give long text as a file: -a FILE.",
        )
