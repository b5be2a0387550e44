"""The tools of the `delegation` toolset.

`worker_call` names the callee in an argument; a tool per worker has the callee's name. Templates and the making
of workers have modules of their own. The life of a call is in `delegate`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from llm_do_temporal.errors import DelegationRefusal, EffectFailed, SandboxRefusal
from llm_do_temporal.json_schema import normalised
from llm_do_temporal.messages.activities import (
    DRAFT_WORKER,
    FIND_FILES,
    LOAD_TEMPLATE,
    READ_FILE,
    SAVE_WORKER,
    AttachedFile,
    DraftWorkerInput,
    FindFilesInput,
    LoadedTemplate,
    LoadTemplateInput,
    ReadFileInput,
    SavedWorker,
    SaveWorkerInput,
)
from llm_do_temporal.messages.definitions import DelegateTool, PinnedWorker
from llm_do_temporal.messages.layers import LayerWork
from llm_do_temporal.messages.sizes import MAX_CONTEXT_CHARS
from llm_do_temporal.policy.delegation import TemplateRules, check_name, choose_template
from llm_do_temporal.policy.files.sandbox import Place, Tree, check_readable, check_size, locate
from llm_do_temporal.policy.identity import SeenFile
from llm_do_temporal.policy.values import CapabilityUse
from llm_do_temporal.workflows.runtime.activities import run_activity, run_local_first
from llm_do_temporal.workflows.tools.delegate import Delegation, Delegator, NamedPolicy, completed, definition_digest
from llm_do_temporal.workflows.tools.gated_tool import GatedTool, PreparedCall, Shown, ToolOutcome, ToolQuestion
from llm_do_temporal.workflows.tools.working_layer import WorkingLayer, through

MAX_CONTEXT_ENTRIES = 20
MAX_PATH_CHARS = 400
"""Longest entry that may be a path; a longer text, or a text of several lines, is none."""
_LIKE_A_PATH = re.compile(r"(?!\w+://)(?:\S*/\S*|\S*\.[A-Za-z]\w{0,9})")
"""Single word with a slash, or with the suffix of a file, that is no URL."""

_FILE = {
    "type": "object",
    "properties": {"path": {"type": "string", "minLength": 1}},
    "required": ["path"],
    "additionalProperties": False,
}
_TEXT_OR_FILE = {"anyOf": [{"type": "string", "minLength": 1}, _FILE]}


@dataclass(frozen=True)
class _Context:
    """Entry of `extra_context`: a text, or a file of the caller's."""

    text: str = ""
    place: Place | None = None
    seen: SeenFile | None = None
    """The file as it was found; None for a text."""


class TemplateTool:
    """`llm_worker_call`."""

    name = "llm_worker_call"

    def __init__(self, delegator: Delegator, rules: TemplateRules) -> None:
        self._delegator = delegator
        self._rules = rules
        allowed = f"always {rules.lock}" if rules.lock else ", ".join(rules.allow) or "none"
        self.description = (
            f"Call a named LLM worker with its own context and optional file attachments. Workers: {allowed}."
        )
        self.schema: dict[str, Any] = {
            "type": "object",
            "properties": {
                "worker_name": {"type": "string", "minLength": 1, "description": "Which worker to call."},
                "input": {"type": "string", "description": "Main text to process."},
                "attachments": {
                    "type": ["array", "null"],
                    "items": _TEXT_OR_FILE,
                    "description": "Paths of files in your file tree to attach.",
                },
                "extra_context": {
                    "type": ["array", "null"],
                    "items": _TEXT_OR_FILE,
                    "maxItems": MAX_CONTEXT_ENTRIES,
                    "description": "Snippets of text, or paths of text files in your file tree, to add to the input.",
                },
                "params": {
                    "type": ["object", "null"],
                    "additionalProperties": {"type": ["string", "number", "boolean"]},
                    "description": "Values for the worker's own parameters.",
                },
                "expect_json": {
                    "type": ["boolean", "null"],
                    "default": False,
                    "description": "Get the result as JSON; only where the worker has a schema.",
                },
            },
            "required": ["worker_name", "input"],
            "additionalProperties": False,
        }

    async def prepare(self, args: dict[str, Any]) -> PreparedCall:
        """Check the call and load the template with its parameters filled in."""
        caller = self._delegator.caller
        template = choose_template(self._rules, args["worker_name"], caller=f"worker '{caller.worker.name}'")
        self._delegator.check_depth(template)
        params: dict[str, Any] = args.get("params") or {}
        request = LoadTemplateInput(
            template=template,
            params={name: _as_text(value) for name, value in params.items()},
            input=args["input"],
            run_python=False,
        )
        loaded = await _load(request)
        worker = loaded.worker
        as_json = bool(args.get("expect_json"))
        if as_json and not worker.unloaded:
            _check_schema(worker, template)
        context = await _find_context(caller.tree, args.get("extra_context") or (), self._delegator.layer)
        shown = {"input": args["input"], "template": template}
        shown |= {name: args[name] for name in ("extra_context", "params", "expect_json") if args.get(name)}
        call = Delegation(
            worker,
            args,
            shown,
            prompt=loaded.prompt,
            paths=tuple(_path(entry) for entry in args.get("attachments") or ()),
            limits=(NamedPolicy(self._rules.attachments, f"'templates' of worker '{caller.worker.name}'"),),
            questions=tuple(_reading_question(entry.place, entry.seen, worker) for entry in context if entry.place),
            files=tuple(entry.seen for entry in context if entry.seen),
            more_prompt=_reader(context, self._delegator.layer),
            shape=_normal_form(worker) if as_json else _text_of,
            template=loaded.template,
        )

        async def with_python() -> Delegation:
            again = await _load(request.model_copy(update={"run_python": True}))
            complete = completed(worker, again.worker)
            if as_json:
                _check_schema(complete, template)
            return replace(call, worker=complete, shape=_normal_form(complete) if as_json else _text_of)

        return await self._delegator.prepare_call(call, with_python if worker.unloaded else None)


async def _load(request: LoadTemplateInput) -> LoadedTemplate:
    return await run_local_first(LOAD_TEMPLATE, request, summary=f"load template {request.template}")


def _check_schema(worker: PinnedWorker, template: str) -> None:
    if worker.output_schema is None:
        raise DelegationRefusal(
            f"template '{template}' has no schema, so its result cannot be expected as JSON",
            next_step="Call it without expect_json.",
        )


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _text_of(output: Any) -> str:
    return output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)


def _normal_form(worker: PinnedWorker) -> Callable[[Any], Any]:
    """Return the function that brings a result into the normal form of the template's schema, the same whichever model
    wrote it."""
    schema = worker.output_schema
    return lambda output: output if schema is None else normalised(schema, output)


def _path(entry: Any) -> str:
    return str(entry if isinstance(entry, str) else entry["path"])


async def _find_context(tree: Tree, entries: Sequence[Any], layer: WorkingLayer | None) -> list[_Context]:
    """Find the entries that are files of the tree; an entry that names no file is context text itself.

    Raises EffectFailed for an entry that looks like a path and leads nowhere.
    """
    found = [_as_context(tree, entry) for entry in entries]
    places = [context.place for context in found if context.place is not None]
    if not places:
        return found
    files = tuple(AttachedFile(mount=place.mount, relative=place.relative, path=place.path) for place in places)
    request = through(layer, FindFilesInput(files=files, digests=True, near=True))
    facts = await run_activity(FIND_FILES, request, summary=f"find {', '.join(p.path for p in places)}")
    sizes = dict(zip((place.path for place in places), facts.bytes, strict=True))
    seen = {file.path: file for file in facts.seen}
    settled: list[_Context] = []
    for context, entry in zip(found, entries, strict=True):
        if context.place is None:
            settled.append(context)
        elif (size := sizes[context.place.path]) is not None:
            check_size(context.place, size)
            settled.append(replace(context, seen=seen.get(context.place.path)))
        elif isinstance(entry, str) and not _is_mistyped(entry):
            settled.append(_Context(text=entry))
        else:
            raise _missing(context.place.path, facts.near.get(context.place.path))
    return settled


def _as_context(tree: Tree, entry: Any) -> _Context:
    path = _path(entry)
    if isinstance(entry, str) and ("\n" in entry or len(entry) > MAX_PATH_CHARS):
        return _Context(text=entry)
    try:
        place = locate(tree, path)
        check_readable(place)
    except SandboxRefusal:
        # A worker without files cannot have meant one.
        if not isinstance(entry, str) or (tree.mounts and _is_mistyped(entry)):
            raise
        return _Context(text=entry)
    return _Context(place=place)


def _is_mistyped(entry: str) -> bool:
    """Whether a text that names no file looks like a mistyped path."""
    return _LIKE_A_PATH.fullmatch(entry.strip()) is not None


def _missing(path: str, near: str | None) -> EffectFailed:
    step = "Give the path of a file in your file tree, or the text itself."
    return EffectFailed(
        f"there is no file '{path}' for extra_context", next_step=step if near is None else f"Did you mean '{near}'?"
    )


def _reading_question(place: Place, seen: SeenFile | None, target: PinnedWorker) -> ToolQuestion:
    payload = {"path": place.path, "target_worker": target.name}
    use = CapabilityUse(name="sandbox.read", payload=payload, asks=place.mount.read_approval)
    return ToolQuestion(
        (use,),
        payload,
        f"read {place.path} for {target.name}",
        changeable=False,
        files=() if seen is None else (seen,),
        circumstances=definition_digest(target),
    )


def _reader(context: Sequence[_Context], layer: WorkingLayer | None) -> Callable[[Shown | None], Awaitable[str]] | None:
    if not context:
        return None

    async def read(shown: Shown | None) -> str:
        parts: list[str] = []
        left = MAX_CONTEXT_CHARS
        for entry in context:
            text, heading = entry.text, "Extra context:"
            if entry.place is not None:
                text = await _read(entry, entry.place, left, shown, layer)
                heading = f"Extra context, the file {entry.place.path}:"
                left -= len(text)
            parts.append(f"\n\n{heading}\n{text}")
        return "".join(parts)

    return read


async def _read(context: _Context, place: Place, most: int, shown: Shown | None, layer: WorkingLayer | None) -> str:
    request = ReadFileInput(
        mount=place.mount,
        relative=place.relative,
        path=place.path,
        max_chars=max(most, 1),
        offset=0,
        expected=None if shown is None else context.seen,
    )
    text = await run_local_first(READ_FILE, through(layer, request), summary=f"read {place.path}")
    if text.truncated or text.total_chars > most:
        raise EffectFailed(
            f"'{place.path}' has {text.total_chars} characters; the files of extra_context may have "
            f"{MAX_CONTEXT_CHARS} together",
            next_step="Attach it, or hand over the part that matters as text.",
        )
    return text.content


_AFTER_REVIEW = "It can be called once a person has reviewed it: call submit_changes, or finish your work."


class WorkerCreate:
    """`worker_create`."""

    name = "worker_create"
    description = (
        "Create a new worker with instructions of its own, for a subtask that no worker you may call fits. "
        "A person sees the whole definition first. It starts with no tools and no files of its own unless the "
        "workshop says otherwise, and can be called at once."
    )

    def __init__(self, delegator: Delegator, made: Callable[[DelegateTool], None]) -> None:
        """`made` is called with the tool for every new worker, once its file is there."""
        self._delegator = delegator
        self._made = made
        optional: dict[str, Any] = {"type": ["string", "null"], "minLength": 1}
        self.schema: dict[str, Any] = {
            "type": "object",
            "properties": {
                "name": {
                    "type": "string",
                    "description": "Lower-case letters, digits, '_' and '-', beginning with a letter.",
                },
                "instructions": {"type": "string", "minLength": 1, "description": "What the worker is told to do."},
                "description": {"type": "string", "description": "One line: what the worker is for."},
                "output_schema_ref": {
                    **optional,
                    "description": "The shape of its result: one that a worker of this workshop uses already.",
                },
                "model": {**optional, "description": "provider:name, or an alias of the workshop."},
            },
            "required": ["name", "instructions", "description"],
            "additionalProperties": False,
        }

    async def prepare(self, args: dict[str, Any]) -> PreparedCall:
        """Check the arguments and draft the file; the effect writes exactly that draft."""
        name: str = args["name"]
        check_name(name)
        request = DraftWorkerInput.model_validate(args)
        draft = await run_activity(DRAFT_WORKER, request, summary=f"draft worker {name}")
        use = CapabilityUse(name="worker.create", payload={"definition": draft.text})

        layer = self._delegator.layer
        saving = SaveWorkerInput(name=name, text=draft.text)

        async def save(work: LayerWork | None = None) -> SavedWorker:
            return await run_activity(
                SAVE_WORKER, saving.model_copy(update={"layer": work}), summary=f"save worker {name}"
            )

        async def effect() -> ToolOutcome:
            saved = await (save() if layer is None else layer.change(save))
            description = args["description"].strip()
            tool = DelegateTool(name=name, description=description, takes_attachments=saved.takes_attachments)
            if layer is not None:
                layer.propose(saved.source, draft.text, tool)
                return ToolOutcome({"name": name, "file": saved.source, "note": _AFTER_REVIEW})
            self.offer(tool)
            return ToolOutcome({"name": name, "file": saved.source})

        async def preview() -> str:
            return draft.text

        summary = f"create worker {name} ({draft.source})"
        return PreparedCall((ToolQuestion((use,), args, summary, in_layer=layer is not None),), effect, preview)

    def take_over(self, args: dict[str, Any], value: Any) -> None:
        """See TakesOver. A worker that waited for a review is offered with the review."""
        if isinstance(value, dict) and "note" not in value:
            self.offer(DelegateTool(name=args["name"], description=args["description"].strip()))

    def offer(self, tool: DelegateTool) -> None:
        """Let the caller call a worker that it has made."""
        self._delegator.created[tool.name] = tool
        self._made(tool)


_ATTACHMENTS = {
    "type": ["array", "null"],
    "items": {"type": "string", "minLength": 1},
    "description": "Paths of files in your file tree to hand over, like /pipeline/deck.pdf.",
}


@dataclass
class WorkerCallTool:
    """`worker_call`: a call of any worker of an allow-list."""

    delegator: Delegator
    allow: tuple[str, ...]
    creates: bool = False
    """Whether the caller may make workers, which it may then call."""
    name: str = "worker_call"

    def __post_init__(self) -> None:
        allowed = "any worker of the workshop" if "*" in self.allow else ", ".join(self.allow) or "nobody"
        more = ", and any worker that you have made with worker_create" if self.creates else ""
        self.description = (
            f"Call another worker to delegate a subtask, and get its result. You may call: {allowed}{more}."
        )
        names = {"type": "string", "minLength": 1}
        if self.allow and "*" not in self.allow:
            names = {"type": "string", "description": f"One of: {', '.join(self.allow)}{more}."}
        self.schema: dict[str, Any] = {
            "type": "object",
            "properties": {
                "worker_name": names,
                "input_data": {
                    "anyOf": [{"type": "string"}, {"type": "object", "additionalProperties": True}],
                    "description": "What the worker is given: text, or an object.",
                },
                "attachments": _ATTACHMENTS,
            },
            "required": ["worker_name", "input_data"],
            "additionalProperties": False,
        }

    async def prepare(self, args: dict[str, Any]) -> PreparedCall:
        """See Delegator.prepare."""
        allow = (*self.allow, *sorted(self.delegator.created))
        return await self.delegator.prepare(args["worker_name"], allow, args, args["input_data"])


class NamedWorker:
    """Tool that calls a certain worker and has its name."""

    def __init__(self, delegator: Delegator, tool: DelegateTool) -> None:
        self._delegator = delegator
        self._typed = tool.input_schema is not None
        self.name = tool.name
        self.description = tool.description or f"Call the worker {tool.name} to delegate a subtask."
        plain = {"input": {"type": "string", "description": "What the worker is asked to do."}}
        given: dict[str, Any] = tool.input_schema or {"properties": plain, "required": ["input"]}
        attachments = {"attachments": _ATTACHMENTS} if tool.takes_attachments else {}
        self.schema: dict[str, Any] = {
            "type": "object",
            "properties": {**given["properties"], **attachments},
            "required": list(given.get("required", ())),
            "additionalProperties": False,
        }
        if "$defs" in given:
            self.schema["$defs"] = given["$defs"]

    async def prepare(self, args: dict[str, Any]) -> PreparedCall:
        """See Delegator.prepare."""
        fields = {name: value for name, value in args.items() if name != "attachments"}
        return await self._delegator.prepare(self.name, (self.name,), args, fields if self._typed else args["input"])


def delegation_tools(delegator: Delegator, offer: Callable[[GatedTool], None]) -> list[GatedTool]:
    """Return the delegation tools that the caller's definition asks for.

    `offer` is called with one more for each worker that the caller makes and could not call otherwise.
    """
    toolset = delegator.caller.worker.delegation
    if toolset is None:
        return []
    tools: list[GatedTool] = [NamedWorker(delegator, tool) for tool in toolset.tools]
    if toolset.allow_workers is not None:
        tools.append(WorkerCallTool(delegator, toolset.allow_workers, toolset.create))
    if toolset.create:
        has_generic = toolset.allow_workers is not None
        tools.append(WorkerCreate(delegator, lambda made: None if has_generic else offer(NamedWorker(delegator, made))))
        if not has_generic:
            tools += [NamedWorker(delegator, made) for made in delegator.created.values()]
    if toolset.templates is not None:
        tools.append(TemplateTool(delegator, toolset.templates))
    return tools
