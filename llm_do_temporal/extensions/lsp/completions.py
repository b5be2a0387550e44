"""Words that may be written at a place of a file, and explanations of what stands there.

Values of environment variables are never among them: where a variable is named, nothing is offered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, cast

from llm_do_temporal.definitions.check import own_tree
from llm_do_temporal.definitions.keys.toolsets import DelegationOptions
from llm_do_temporal.definitions.schemas.published import Schema, published_schema
from llm_do_temporal.definitions.workers.places import named_worker
from llm_do_temporal.definitions.workers.worker_file import SEPARATOR, ParsedWorker
from llm_do_temporal.definitions.workshop import Workshop
from llm_do_temporal.definitions.yaml.documents import KeyPath
from llm_do_temporal.errors import SandboxRefusal
from llm_do_temporal.extensions.lsp.edited_file import (
    ANY,
    MAX_LIVE_CHARS,
    Cursor,
    EditedFile,
    NameKind,
    Span,
    TextPlace,
    WorkshopNames,
    cursor_at,
    name_kind,
)
from llm_do_temporal.policy.approvals import Judgement, Ruling, decide, ruling_of
from llm_do_temporal.policy.external import DEFAULT_CAPABILITIES
from llm_do_temporal.policy.files.sandbox import Mount, Tree
from llm_do_temporal.policy.shell import LISTED, UNLISTED
from llm_do_temporal.policy.values import CapabilityUse

_REFERENCE = "#/"
_MAX_OPTIONS = 200
_TYPES = {
    "string": "text",
    "integer": "number",
    "number": "number",
    "boolean": "true, false",
    "array": "list",
    "object": "keys",
}


@dataclass(frozen=True)
class KeyMeaning:
    """Key that may stand somewhere, and what it means."""

    name: str
    meaning: str
    shape: str
    """Kinds of values, in words."""
    default: Any = None
    """Default; None where there is none worth a word."""

    @property
    def markdown(self) -> str:
        """The key's documentation."""
        default = (
            ""
            if self.default in (None, "") or isinstance(self.default, dict | list)
            else f", default `{_plain(self.default)}`"
        )
        return f"**`{self.name}`** ({self.shape}{default})\n\n{self.meaning}".rstrip()


def keys_at(kind: str, path: KeyPath) -> dict[str, KeyMeaning]:
    """Return the keys that may stand in the keys and values at a path, without names of the author's choice."""
    found: dict[str, KeyMeaning] = {}
    for schema in _schemas_at(kind, path):
        for name, inner in cast("dict[str, Schema]", schema.get("properties", {})).items():
            found.setdefault(name, _meaning(kind, name, inner))
    return found


def values_at(kind: str, path: KeyPath) -> list[str]:
    """Return the words that may stand at a path, where these are few: choices, true and false."""
    found: list[str] = []
    for schema in _schemas_at(kind, path):
        choices = [*schema.get("enum", ()), *([schema["const"]] if "const" in schema else [])]
        choices += [True, False] if schema.get("type") == "boolean" else []
        found += [_plain(one) for one in choices]
    return list(dict.fromkeys(found))


def _schemas_at(kind: str, path: KeyPath) -> list[Schema]:
    root = published_schema(kind)
    here = list(_options(root, root))
    for part in path:
        here = [one for schema in here for inner in _inside(schema, part) for one in _options(root, inner)]
        here = here[:_MAX_OPTIONS]
    return here


def _inside(schema: Schema, part: str | int) -> Iterator[Schema]:
    if isinstance(part, int):
        inner = schema.get("items")
    else:
        inner = schema.get("properties", {}).get(part, schema.get("additionalProperties"))
    if isinstance(inner, dict):
        yield cast("Schema", inner)


def _options(root: Schema, schema: Schema) -> Iterator[Schema]:
    """Yield the schemas that a schema stands for, references and alternatives written out."""
    reference = schema.get("$ref")
    if isinstance(reference, str):
        yield from _options(root, _resolved(root, reference))
    elif "anyOf" in schema:
        for option in cast("list[Schema]", schema["anyOf"]):
            yield from _options(root, option)
    else:
        yield schema


def _resolved(root: Schema, reference: str) -> Schema:
    here: Any = root
    for part in reference.removeprefix(_REFERENCE).split("/"):
        here = cast("Any", here[int(part)] if isinstance(here, list) else here[part])
    return cast("Schema", here)


def _meaning(kind: str, name: str, schema: Schema) -> KeyMeaning:
    root = published_schema(kind)
    options = list(_options(root, schema))
    words: list[str] = []
    for option in options:
        choices = option.get("enum") or ([option["const"]] if "const" in option else [])
        words += [f"`{_plain(one)}`" for one in choices] or [_TYPES.get(str(option.get("type")), "")]
    shape = ", ".join(dict.fromkeys(word for word in words if word)) or "any value"
    return KeyMeaning(name, str(schema.get("description", "")), shape, schema.get("default"))


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


MAX_OFFERS = 500
_FIRST = frozenset({"worker", "function"})
"""Kinds of names that are offered before keys: where both may stand, most lines are names."""


@dataclass(frozen=True)
class Offer:
    """Word that may be written."""

    word: str
    kind: Literal["key", "choice"] | NameKind
    about: str = ""
    """Documentation, as Markdown."""
    insert: str = ""
    """Text in the place of the word, where it is another one."""


@dataclass(frozen=True)
class Offers:
    """Words that may be written in the place of one word."""

    start: TextPlace
    end: TextPlace
    words: tuple[Offer, ...]
    """Words in the order in which they are offered."""


def complete(file: EditedFile, spot: TextPlace, names: WorkshopNames) -> Offers | None:
    """Return what may be written at a place; None where nothing can be told."""
    if file.body_line is not None and spot.line >= file.body_line - 1:
        return None
    if len(file.front) > MAX_LIVE_CHARS or file.lines[spot.line].rstrip() == SEPARATOR:
        return None
    cursor = cursor_at(file.front.split("\n"), spot)
    if cursor is None:
        return None
    found = [*_keys(file, cursor, names), *_values(file, cursor, names)]
    unique = {(one.word, one.kind): one for one in found}.values()
    words = tuple(sorted(unique, key=lambda one: one.kind not in _FIRST))[:MAX_OFFERS]
    return Offers(TextPlace(spot.line, cursor.start), TextPlace(spot.line, cursor.end), words)


def _keys(file: EditedFile, cursor: Cursor, names: WorkshopNames) -> Iterator[Offer]:
    around = cursor.around
    if around is None:
        return
    end = "" if cursor.has_colon else ": "
    there = {str(one.path[-1]) for one in file.spans if one.role == "key" and one.path[:-1] == around}
    there.discard(cursor.word)
    for name, meaning in keys_at(file.kind, around).items():
        if name not in there:
            yield Offer(name, "key", meaning.markdown, f"{name}{end}")
    kind = name_kind(file.kind, (*around, ANY), "key")
    for offer in _names(kind, cursor.word, names) if kind is not None else ():
        if offer.word not in there:
            empty = "" if cursor.has_colon or kind == "capability" else "{}"
            yield Offer(offer.word, offer.kind, offer.about, f"{offer.word}{end}{empty}")


def _values(file: EditedFile, cursor: Cursor, names: WorkshopNames) -> Iterator[Offer]:
    path: KeyPath | None = cursor.value
    if path is None:
        return
    for word in values_at(file.kind, path):
        yield Offer(word, "choice")
    kind = name_kind(file.kind, path, "value")
    if file.kind == "worker" and path == ("name",):
        yield Offer(named_worker(file.path), "worker")
    elif kind is not None:
        yield from _names(kind, cursor.word, names)


def _names(kind: NameKind, word: str, names: WorkshopNames) -> Iterator[Offer]:
    match kind:
        case "worker":
            for name in names.workers:
                worker = names.worker(name)
                yield Offer(name, kind, "" if worker is None else worker.definition.description)
        case "model":
            yield from (Offer(name, kind) for name in names.models(word) if name.startswith(word))
        case "capability":
            yield from (Offer(name, kind) for name in names.capabilities)
        case "function":
            yield from (Offer(one.name, kind, one.description) for one in names.functions)
        case "class":
            yield from (Offer(name, kind, one.description) for name, one in names.classes.items())


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
        yield f"`{name}` of its Python: {judge.of(name, one.capabilities, one.policy.ruling)}"
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


def explain(file: EditedFile, spot: TextPlace, names: WorkshopNames) -> tuple[Span, str] | None:
    """Return the key or value at a place, with Markdown about it; None where there is nothing to say."""
    span = file.span_at(spot)
    if span is None:
        return None
    parts = [_of_name(file, span, names)]
    is_key = span.role == "key" and span.path
    meaning = keys_at(file.kind, span.path[:-1]).get(str(span.path[-1])) if is_key else None
    if meaning is not None:
        parts.append(meaning.markdown)
        if file.kind == "worker" and len(span.path) == 1 and span.path[0] in _ABOUT_ITSELF:
            parts.append(_may_do(named_worker(file.path), names))
    text = "\n\n---\n\n".join(part for part in parts if part)
    return (span, text) if text else None


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
