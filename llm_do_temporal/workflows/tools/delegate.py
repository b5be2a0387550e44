"""The life of a call of a worker, behind every tool of the `delegation` toolset.

In order: allow-list, depth, load the callee (which pins it), its typed input, attachments against the tree and all
policies, model, then the questions for a person, then the child workflow.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import BaseModel
from temporalio import workflow
from temporalio.exceptions import FailureError

from llm_do_temporal.desk.entry import prompt_and_input
from llm_do_temporal.errors import EffectFailed, LlmDoError, RunAborted, SandboxRefusal
from llm_do_temporal.messages.activities import (
    BUILD_INPUT,
    LOAD_WORKER,
    SNAPSHOT_ATTACHMENTS,
    AttachedFile,
    BuildInputInput,
    BuiltInput,
    LoadWorkerInput,
    SnapshotInput,
)
from llm_do_temporal.messages.definitions import CalledTemplate, DelegateTool, PinnedWorker
from llm_do_temporal.messages.runs import InvocationResult, InvokeWorkerInput
from llm_do_temporal.policy.budget import limited_by
from llm_do_temporal.policy.delegation import check_allowed, check_depth
from llm_do_temporal.policy.files.attachments import (
    Attachment,
    AttachmentPaths,
    AttachmentPolicy,
    check_attachment_names,
    check_attachments,
    meant_path,
)
from llm_do_temporal.policy.files.sandbox import Tree, check_readable, check_size, locate, narrow, normalise
from llm_do_temporal.policy.identity import SeenFile, delegation_key, digest_of
from llm_do_temporal.policy.models import cut_words, resolve_model
from llm_do_temporal.policy.values import CapabilityUse
from llm_do_temporal.redaction.hidden_characters import shown_name
from llm_do_temporal.workflows.runtime.activities import current_call, run_activity, run_local_first
from llm_do_temporal.workflows.runtime.children import DeskLink, run_invocation
from llm_do_temporal.workflows.runtime.failures import explain, spent_before
from llm_do_temporal.workflows.tools.gated_tool import PreparedCall, Shown, ToolOutcome, ToolQuestion
from llm_do_temporal.workflows.tools.parts import NO_PARTS, Parts
from llm_do_temporal.workflows.tools.working_layer import WorkingLayer, through


@dataclass(frozen=True)
class NamedPolicy:
    """Policy that files must meet, with the name of its owner (`whose`) for messages."""

    policy: AttachmentPolicy
    whose: str


def own_policy(worker: PinnedWorker) -> NamedPolicy:
    """Return the worker's own policy."""
    return NamedPolicy(worker.attachment_policy, f"worker '{worker.name}'")


@dataclass(frozen=True)
class AttachmentSource:
    """Worker, or run, whose files are handed over."""

    tree: Tree
    paths: AttachmentPaths
    """Spellings of paths that the model of this source may use."""
    layer: WorkingLayer | None = None
    """Layer that its files are seen through; None: they are the workshop's own."""


async def snapshot_attachments(
    source: AttachmentSource, given: Sequence[str], limits: Sequence[NamedPolicy]
) -> tuple[Attachment, ...]:
    """Keep the files as they are now in the blob store; return one attachment for each path.

    Raises LlmDoError where a path leads nowhere, or one of the policies in `limits` refuses the files.
    """
    files = _files(source, given)
    if not files:
        return ()
    paths = [file.path for file in files]
    for limit in limits:
        check_attachment_names(limit.policy, paths, whose=limit.whose)
    for file in files:
        if file.mount is not None:
            check_readable(locate(source.tree, file.path))
    most = min(limit.policy.max_total_bytes for limit in limits)
    request = through(source.layer, SnapshotInput(files=files, max_total_bytes=most, tree=source.tree))
    found = await run_activity(SNAPSHOT_ATTACHMENTS, request, summary=f"snapshot {', '.join(paths)}")
    attachments = found.attachments
    for attachment in attachments:
        check_size(locate(source.tree, attachment.path), attachment.bytes)
    for limit in limits:
        check_attachments(limit.policy, attachments, whose=limit.whose)
    return attachments


def sharing_questions(
    tree: Tree, worker: PinnedWorker, attachments: Sequence[Attachment], *, surroundings: str
) -> list[ToolQuestion]:
    """Return the questions that a person may have to answer before the files go to the worker, one a file.

    `surroundings` are those of the call that they belong to.
    """
    questions: list[ToolQuestion] = []
    for attachment in attachments:
        payload = {"path": attachment.path, "bytes": attachment.bytes, "target_worker": worker.name}
        asks = locate(tree, attachment.path).mount.read_approval
        use = CapabilityUse(name="sandbox.read", payload=payload, asks=asks)
        summary = f"share {shown_name(attachment.path)} ({attachment.bytes} bytes) with {worker.name}"
        questions.append(
            ToolQuestion(
                (use,),
                payload,
                summary,
                changeable=False,
                attachments=(attachment,),
                circumstances=definition_digest(worker),
                surroundings=surroundings,
            )
        )
    return questions


def definition_digest(worker: PinnedWorker, **more: Any) -> str:
    """Return the digest of a worker's whole definition (its file, files that it includes, values that were filled in),
    and of all else, `more`, that makes a call of it."""
    rest = {
        name: value.model_dump(mode="json") if isinstance(value, BaseModel) else value for name, value in more.items()
    }
    return digest_of([worker.model_dump(mode="json"), rest])


def _files(source: AttachmentSource, given: Sequence[str]) -> tuple[AttachedFile, ...]:
    """Return the file that each path leads to, judged by its text alone. Raises SandboxRefusal."""
    names = [mount.at.strip("/") for mount in source.tree.mounts]
    found: list[AttachedFile] = []
    for spelled in given:
        path = meant_path(source.paths, spelled, names=names)
        try:
            place = locate(source.tree, path)
        except SandboxRefusal:
            virtual = normalise(path)
            if not path.startswith("/") or not source.tree.mounts:
                raise
            # It may be the host's name of a file of the tree: only an activity, which knows the workshop's folder, can
            # tell.
            file = AttachedFile(mount=None, relative=".", path=virtual)
        else:
            file = AttachedFile(mount=place.mount, relative=place.relative, path=place.path)
        found.append(file)
    return tuple(found)


_FROM_PYTHON = ("output_schema", "output_ref", "input_schema", "python", "external", "delegation", "warnings")
"""Fields of a pinned worker that are known only once its Python was run."""


@dataclass(frozen=True)
class Delegation:
    """Call of a worker that was loaded."""

    worker: PinnedWorker
    args: dict[str, Any]
    """Arguments of the tool, which a person may change."""
    shown: dict[str, Any]
    """Contents that a person is shown besides worker and attachments; `input` is among the keys."""
    prompt: str = ""
    input: Any = None
    paths: tuple[str, ...] = ()
    """Virtual paths of the files to hand over."""
    limits: tuple[NamedPolicy, ...] = ()
    """Policies for the files, besides those of caller and callee."""
    questions: tuple[ToolQuestion, ...] = ()
    """Questions to be asked before the call's own."""
    files: tuple[SeenFile, ...] = ()
    """Files that `more_prompt` reads, as they were when the call was prepared."""
    more_prompt: Callable[[Shown | None], Awaitable[str]] | None = None
    """Reads text that is added to the prompt, once the call was allowed. Given a preview, it reads the files as
    shown."""
    shape: Callable[[Any], Any] | None = None
    """Makes the tool's result from the worker's output; None: the output is the result."""
    template: CalledTemplate | None = None
    """Name and filled-in values of the template, where the worker is one."""


@dataclass
class Delegator:
    """Carries out the delegations of one invocation."""

    caller: InvokeWorkerInput
    desk: DeskLink
    created: dict[str, DelegateTool] = field(default_factory=dict[str, DelegateTool])
    """Workers that this invocation made, as tools, by name."""
    calls: Counter[str] = field(default_factory=Counter[str])
    """Number of calls of each worker, by its name."""
    begin: Callable[[], Awaitable[None]] | None = None
    """Awaited before a callee starts; returns when the limits allow one more invocation. None: no limits."""
    layer: WorkingLayer | None = None
    """Layer of the caller, which callees begin from; None: the workshop's files."""

    parts: Parts = NO_PARTS
    """Parts of capabilities in the caller."""

    async def prepare(self, callee: str, allow: Sequence[str], args: dict[str, Any], given: Any) -> PreparedCall:
        """Check a call of `callee` with the tool's arguments `args`, of which `given` is the input.

        `allow` names the workers that may be called. Raises LlmDoError where the call is refused.
        """
        check_allowed(callee, allow, caller=self.caller.worker.name)
        self.check_depth(callee)
        worker = await load_worker(callee, run_python=False)
        prompt, values = (given, None) if isinstance(given, str) else ("", given)
        call = Delegation(
            worker, args, {"input": given}, prompt=prompt, input=values, paths=tuple(args.get("attachments") or ())
        )
        toolset = self.caller.worker.delegation
        tools = () if toolset is None else toolset.tools
        # Whether the caller has a tool with the callee's name and the fields of its typed input.
        knows_fields = any(tool.name == callee and tool.input_schema is not None for tool in tools)
        if not worker.unloaded or knows_fields:
            # The class ran when the caller was loaded, which has its fields: nothing new runs here.
            call = await _with_typed_input(call)
        if not worker.unloaded:
            return await self.prepare_call(call)

        async def loaded() -> Delegation:
            complete = replace(call, worker=completed(worker, await load_worker(callee, run_python=True)))
            return complete if knows_fields else await _with_typed_input(complete)

        return await self.prepare_call(call, loaded)

    def check_depth(self, callee: str) -> None:
        """Raise DepthExceeded where a callee would run too deep."""
        check_depth(self.caller.depth + 1, self.caller.settings.max_depth, worker=callee)

    async def prepare_call(
        self, call: Delegation, loaded: Callable[[], Awaitable[Delegation]] | None = None
    ) -> PreparedCall:
        """Check model, files and attachments of a call whose callee was loaded.

        `loaded` runs the callee's Python and returns the call with its results; it is awaited once this call was
        allowed. None: the Python was run already, or there is none.
        """
        caller, worker = self.caller, call.worker
        tree = narrow(caller.tree, worker.sandbox, workshop_has_sandbox=caller.settings.workshop_has_sandbox)
        model = resolve_model(
            caller.settings.models,
            worker=worker.name,
            worker_model=worker.model,
            caller_model=caller.model,
            compatible=worker.compatible_models,
        )
        source = AttachmentSource(caller.tree, caller.worker.attachment_paths, self.layer)
        limits = (own_policy(caller.worker), *call.limits, own_policy(worker))
        attachments = await snapshot_attachments(source, call.paths, limits)
        circumstances = definition_digest(worker, tree=tree, prompt=call.prompt, input=call.input)
        questions = self._questions(call, worker, attachments, circumstances)

        async def carry_out(shown: Shown | None = None) -> ToolOutcome:
            return await self._run(call, tree, model, attachments, shown)

        async def then() -> PreparedCall:
            assert loaded is not None
            complete = await loaded()
            # The files that were shown stay as they are; files that only the callee's Python names come on top of them.
            more = await snapshot_attachments(source, complete.paths[len(call.paths) :], limits)
            everything = (*attachments, *more)
            for limit in limits if more else ():
                check_attachments(limit.policy, everything, whose=limit.whose)

            async def run(shown: Shown | None = None) -> ToolOutcome:
                return await self._run(complete, tree, model, everything, shown)

            left = self._questions(complete, worker, everything, circumstances) if more else ()
            return PreparedCall((*questions, *left), run, bound=run)

        return PreparedCall(questions, carry_out, bound=carry_out, then=then if loaded is not None else None)

    def _questions(
        self, call: Delegation, pinned: PinnedWorker, attachments: tuple[Attachment, ...], circumstances: str
    ) -> tuple[ToolQuestion, ...]:
        """Return the questions about the call; `pinned` is the callee as it was judged, before its Python was run."""
        surroundings = definition_digest(pinned, tree=self.caller.tree)
        sharing = sharing_questions(self.caller.tree, pinned, attachments, surroundings=surroundings)
        return (*sharing, *call.questions, _call_question(call, attachments, circumstances, surroundings))

    async def _run(
        self, call: Delegation, tree: Tree, model: str, attachments: tuple[Attachment, ...], shown: Shown | None
    ) -> ToolOutcome:
        caller, worker = self.caller, call.worker
        prompt = call.prompt + (await call.more_prompt(shown) if call.more_prompt else "")
        if self.begin is not None:
            await self.begin()
        self.calls[worker.name] += 1
        # Others begin while the record is asked.
        path = f"{caller.path}/{worker.name}-{self.calls[worker.name]}"
        fork = None if self.layer is None else self.layer.carried
        key = delegation_key(worker.name, digest_of_worker(worker), model, prompt, call.input, attachments)
        known = (await self.parts.advice(key)).known
        if known is not None and known.result is not None:
            output = call.shape(known.result.output) if call.shape else known.result.output
            return ToolOutcome(output, known.usage, note=_cut_note(worker.name, known.result))
        limited = limited_by(worker.limits, caller.limited)
        invocation = InvokeWorkerInput(
            run=caller.run,
            path=path,
            depth=caller.depth + 1,
            worker=worker,
            settings=caller.settings,
            tree=tree,
            model=model,
            prompt=prompt,
            input=call.input,
            attachments=attachments,
            template=call.template,
            item=caller.item,
            layer=fork,
            parts=caller.parts,
            content_key=key,
            called_by=current_call(),
            limited=limited,
            started_at=workflow.now() if limited else None,
        )
        try:
            result = await run_invocation(invocation, self.desk)
        except RunAborted:
            raise
        except LlmDoError as error:
            failure = EffectFailed(f"worker '{worker.name}' failed: {error}", next_step=error.next_step)
            return ToolOutcome(usage=spent_before(error), failure=failure)
        output = call.shape(result.output) if call.shape else result.output
        note = "" if self.layer is None or fork is None else await self.layer.join(fork, result.layer)
        notes = (note, _cut_note(worker.name, result))
        return ToolOutcome(output, result.usage, note="\n".join(filter(None, notes)))


def _cut_note(worker: str, result: InvocationResult) -> str:
    """Return a note for the caller's model about an answer that was cut; empty: it was not."""
    return "" if result.truncated is None else f"This answer of '{worker}' is not whole: {cut_words(result.truncated)}."


def digest_of_worker(worker: PinnedWorker) -> str:
    """Return the digest of a worker as it is pinned, for the key of a delegation."""
    return digest_of(worker.model_dump(mode="json", exclude={"warnings", "unloaded"}))


async def load_worker(name: str, *, run_python: bool) -> PinnedWorker:
    """Load the worker from its file as it is now. Raises the activity's error."""
    request = LoadWorkerInput(name=name, run_python=run_python)
    return await run_local_first(LOAD_WORKER, request, summary=f"load worker {name}")


def completed(worker: PinnedWorker, loaded: PinnedWorker) -> PinnedWorker:
    """Return the worker of an allowed call with the fields that its Python gave, taken from `loaded`.

    Raises EffectFailed where the worker's file has changed since the call was checked.
    """
    if loaded.sha256 != worker.sha256 or loaded.source != worker.source:
        raise EffectFailed(
            f"worker '{worker.name}' was not called: '{worker.source}' has changed since the call was checked",
            next_step="Call it again.",
        )
    given = {name: getattr(loaded, name) for name in _FROM_PYTHON}
    return worker.model_copy(update={**given, "unloaded": False})


async def _with_typed_input(call: Delegation) -> Delegation:
    """Return the call with the prompt, fields and files that the callee's class makes of the input, if there is one."""
    reference = call.worker.input_ref
    if reference is None:
        return call
    built = await build_input(call.worker, reference, call.shown["input"])
    prompt, values = prompt_and_input(built)
    return replace(call, prompt=prompt, input=values, paths=(*call.paths, *built.attachments))


async def build_input(worker: PinnedWorker, reference: str, values: Any) -> BuiltInput:
    """Build the callee's typed input from the values by its class. Raises LlmDoError where they do not fit it."""
    name = worker.source if worker.source.startswith("pkg:") else worker.name
    request = BuildInputInput(worker=name, reference=reference, values=values)
    return await run_local_first(BUILD_INPUT, request, summary=f"input of {worker.name}")


async def with_built_attachments(entry: InvokeWorkerInput, built: BuiltInput) -> InvokeWorkerInput:
    """Return the entry worker's invocation with the files of its own tree that its typed input attaches.

    Raises LlmDoError.
    """
    source = AttachmentSource(entry.tree, entry.worker.attachment_paths)
    try:
        attachments = await snapshot_attachments(source, built.attachments, (own_policy(entry.worker),))
    except FailureError as failure:
        raise explain(failure) from failure
    attachments = (*entry.attachments, *attachments)
    check_attachments(entry.worker.attachment_policy, attachments, whose=own_policy(entry.worker).whose)
    return entry.model_copy(update={"attachments": attachments})


def _call_question(
    call: Delegation, attachments: tuple[Attachment, ...], circumstances: str, surroundings: str
) -> ToolQuestion:
    worker, given = call.worker.name, call.shown["input"]
    paths = [attachment.path for attachment in attachments]
    named = ", ".join(map(shown_name, paths))
    payload = {"worker": worker, **call.shown, "attachments": paths}
    text = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
    summary = f"call {worker}" + (f" with {named}" if paths else "") + f": {text[:120]}"
    return ToolQuestion(
        (CapabilityUse(name="worker.call", payload=payload),),
        call.args,
        summary,
        attachments=attachments,
        files=call.files,
        circumstances=circumstances,
        surroundings=surroundings,
    )
