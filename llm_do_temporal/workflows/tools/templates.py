"""`llm_worker_call`: a model calls a template, a prepared prompt with its own rules for files."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from llm_do_temporal.errors import DelegationRefusal, EffectFailed, SandboxRefusal
from llm_do_temporal.json_schema import normalised
from llm_do_temporal.messages.activities import (
    FIND_FILES,
    LOAD_TEMPLATE,
    READ_FILE,
    AttachedFile,
    FindFilesInput,
    LoadedTemplate,
    LoadTemplateInput,
    ReadFileInput,
)
from llm_do_temporal.messages.definitions import PinnedWorker
from llm_do_temporal.messages.sizes import MAX_CONTEXT_CHARS
from llm_do_temporal.policy.delegation import TemplateRules, choose_template
from llm_do_temporal.policy.files.sandbox import Place, Tree, check_readable, check_size, locate
from llm_do_temporal.policy.identity import SeenFile
from llm_do_temporal.policy.values import CapabilityUse
from llm_do_temporal.workflows.runtime.activities import run_activity, run_local_first
from llm_do_temporal.workflows.tools.attachments import NamedPolicy, definition_digest
from llm_do_temporal.workflows.tools.delegate import Delegation, Delegator, completed
from llm_do_temporal.workflows.tools.gated_tool import PreparedCall, Shown, ToolQuestion
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
