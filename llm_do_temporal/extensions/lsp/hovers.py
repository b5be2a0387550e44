"""Explanations of what stands at a place of a file: a key's meaning, and what a worker may do.

Permissions are those of a worker that a person starts, read from definitions alone, by the same policy that judges
calls. A caller can only take away from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from llm_do_temporal.definitions.check import own_tree
from llm_do_temporal.definitions.keys.toolsets import DelegationOptions
from llm_do_temporal.definitions.workers.places import named_worker
from llm_do_temporal.definitions.workers.worker_file import ParsedWorker
from llm_do_temporal.definitions.workshop import Workshop
from llm_do_temporal.errors import SandboxRefusal
from llm_do_temporal.extensions.lsp.completions import key_at
from llm_do_temporal.extensions.lsp.edited_file import EditedFile
from llm_do_temporal.extensions.lsp.names import WorkshopNames, name_kind
from llm_do_temporal.extensions.lsp.yaml_places import Span, TextPlace
from llm_do_temporal.policy.approvals import Judgement, Ruling, decide, ruling_of
from llm_do_temporal.policy.external import DEFAULT_CAPABILITIES
from llm_do_temporal.policy.files.sandbox import Mount, Tree
from llm_do_temporal.policy.shell import LISTED, UNLISTED
from llm_do_temporal.policy.values import CapabilityUse

_ASKS = {None: None, Ruling.PRE_APPROVED: False, Ruling.NEEDS_APPROVAL: True}
_VERDICTS = {"allow": "without asking", "ask": "after a person has agreed", "block": "never"}


def permissions_of(worker: ParsedWorker, workshop: Workshop) -> str:
    """Return what a worker may do, as Markdown."""
    name = worker.place.name
    calls = [f"- {line}" for line in _calls(worker, workshop)] or ["- It has no tools."]
    files = [f"- {line}" for line in _files(worker, workshop)]
    mode = workshop.config.approvals.mode.value
    said = "" if mode == "interactive" else f" in mode `{mode}`"
    about = worker.definition.description.strip()
    head = [f"**`{name}`** — {about}" if about else f"**`{name}`**", "", f"What it may do{said}:"]
    return "\n".join([*head, "", *calls, "", "Its files:", "", *files])


def _calls(worker: ParsedWorker, workshop: Workshop) -> Iterator[str]:
    toolsets, judge = worker.definition.toolsets, _Judge(workshop)
    tree = _tree(worker, workshop)
    if toolsets.has_filesystem and isinstance(tree, Tree) and tree.mounts:
        yield f"list files: {judge.of('list_files', ['sandbox.list'])}"
        for what, tool, capability in (("read", "read_file", "sandbox.read"), ("write", "write_file", "sandbox.write")):
            mounts = [mount for mount in tree.mounts if what == "read" or not mount.readonly]
            if not mounts:
                yield f"{what} files: **never** (they are read-only)"
            verdicts = {
                mount.at: judge.of(
                    tool, [capability], asks=mount.read_approval if what == "read" else mount.write_approval
                )
                for mount in mounts
            }
            if len(set(verdicts.values())) == 1:
                yield f"{what} files: {next(iter(verdicts.values()))}"
            else:
                yield from (f"{what} files below `{at}`: {verdict}" for at, verdict in verdicts.items())
    if toolsets.delegation_options is not None:
        yield from _worker_calls(judge, toolsets.delegation_options)
    shell = toolsets.shell_policy
    if shell is not None:
        yield f"run commands that a rule of its file allows: {judge.of('shell', [LISTED, *shell.capabilities])}"
        yield f"run other commands: {judge.of('shell', [UNLISTED, *shell.capabilities])}"
    for name, one in toolsets.python_tools.items():
        yield f"`{name}` of its Python: {judge.of(name, one.capabilities, one.ruling)}"
    external = {f"mcp.{name}": keys for name, keys in (toolsets.mcp or {}).items()} | toolsets.classes
    for name, keys in external.items():
        if keys.enabled:
            policy = keys.policy
            yield f"tools of `{name}`: {judge.of(name, policy.capabilities or DEFAULT_CAPABILITIES, policy.ruling)}"


class _Judge:
    """The workshop's rules, for calls that are only imagined."""

    def __init__(self, workshop: Workshop) -> None:
        self._approvals = workshop.config.approvals

    def of(self, tool: str, capabilities: Iterable[str], ruling: Ruling | None = None, asks: bool | None = None) -> str:
        """Return the verdict on a call in words; `asks` is the setting of its files."""
        if ruling is Ruling.BLOCKED:
            return "**never** (its file)"
        said = _ASKS[ruling] if asks is None else asks
        names = list(dict.fromkeys(capabilities))
        uses = [CapabilityUse(name=name, asks=said) for name in names]
        judgement = decide(self._approvals, self._approvals.mode, tool, uses)
        return f"**{_VERDICTS[judgement.kind]}**{_people(judgement)} ({', '.join(f'`{name}`' for name in names)})"


def _people(judgement: Judgement) -> str:
    terms = judgement.terms
    if judgement.kind != "ask" or not terms.names_people:
        return ""
    who = "anybody" if terms.approvers is None else ", ".join(terms.approvers)
    many = f", {terms.quorum} people" if terms.quorum > 1 else ""
    return f": {who}{many}{', not whoever started the run' if terms.forbid_own else ''}"


def _worker_calls(judge: _Judge, options: DelegationOptions) -> Iterator[str]:
    listed = dict.fromkeys((*options.enabled_delegates, *(options.allow_workers or ())))
    if listed:
        named = ", ".join("every worker" if one == "*" else f"`{one}`" for one in listed)
        yield f"call {named}: {judge.of('worker_call', ['worker.call'])}"
    if options.creates_workers:
        yield f"create workers: {judge.of('worker_create', ['worker.create'])}"
    if options.template_rules is not None:
        yield f"call templates: {judge.of('worker_call', ['worker.call'])}"


def _files(worker: ParsedWorker, workshop: Workshop) -> Iterator[str]:
    tree = _tree(worker, workshop)
    if isinstance(tree, str):
        yield f"none: {tree}"
    elif not tree.mounts:
        yield "none"
    else:
        yield from (_mount(mount) for mount in tree.mounts)


def _mount(mount: Mount) -> str:
    words = ["read-only"] if mount.readonly else []
    words += [f"only {', '.join(mount.suffixes)}"] if mount.suffixes is not None else []
    words += [f"up to {mount.max_file_bytes} bytes"] if mount.max_file_bytes is not None else []
    folder = "the workshop's folder" if mount.root == "." else f"`{mount.root}`"
    return f"`{mount.at}` is {folder}" + (f" ({'; '.join(words)})" if words else "")


def _tree(worker: ParsedWorker, workshop: Workshop) -> Tree | str:
    """Return the files of a worker that is started directly, or why it has none."""
    try:
        return own_tree(worker, workshop)
    except SandboxRefusal as refusal:
        return refusal.message


_ABOUT_ITSELF = frozenset({"toolsets", "sandbox", "name"})
"""Keys of a worker whose meaning is what the worker may do."""


@dataclass(frozen=True)
class Explanation:
    """Text about a key or value."""

    span: Span
    markdown: str


def explain(file: EditedFile, spot: TextPlace, names: WorkshopNames) -> Explanation | None:
    """Return an explanation of what stands at a place; None where there is nothing to say."""
    span = file.span_at(spot)
    if span is None:
        return None
    parts = [_of_name(file, span, names)]
    meaning = key_at(file.kind, span.path) if span.role == "key" else None
    if meaning is not None:
        parts.append(meaning.markdown)
        if file.kind == "worker" and len(span.path) == 1 and span.path[0] in _ABOUT_ITSELF:
            parts.append(_may_do(named_worker(file.path), names))
    text = "\n\n---\n\n".join(part for part in parts if part)
    return Explanation(span, text) if text else None


def _of_name(file: EditedFile, span: Span, names: WorkshopNames) -> str:
    match name_kind(file.kind, span.path, span.role):
        case "worker":
            return _may_do(span.text, names)
        case "capability" if names.workshop is not None:
            ruling = ruling_of(names.workshop.config.approvals, span.text)
            return f"**`{span.text}`**: `{ruling.value}` in this workshop"
        case "function":
            return next((_described(one.name, one.description) for one in names.functions if one.name == span.text), "")
        case "class":
            found = names.class_of(span.text)
            return "" if found is None else _described(found.name, found.description)
        case "model" if names.workshop is not None and span.text in names.workshop.config.models:
            return f"alias of `{names.workshop.config.models[span.text].model}`"
        case _:
            return ""


def _may_do(name: str, names: WorkshopNames) -> str:
    worker = names.worker(name)
    return "" if worker is None or names.workshop is None else permissions_of(worker, names.workshop)


def _described(name: str, text: str) -> str:
    return f"**`{name}`**\n\n{text}".rstrip()
