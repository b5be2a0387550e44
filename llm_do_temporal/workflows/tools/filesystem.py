"""The `filesystem` toolset: judges virtual paths here, leaves the files to activities."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, TypeVar

from llm_do_temporal.messages.activities import (
    EDIT_FILE,
    FIND_FILES,
    LIST_FILES,
    PREVIEW_EDIT,
    PREVIEW_WRITE,
    READ_FILE,
    WRITE_FILE,
    ActivityRef,
    AttachedFile,
    EditFileInput,
    FileChange,
    FindFilesInput,
    ListFilesInput,
    ReadFileInput,
    WriteFileInput,
)
from llm_do_temporal.messages.layers import LayerWork
from llm_do_temporal.messages.sizes import MAX_READ_CHARS
from llm_do_temporal.policy.files.protection import WRITING_TOOLS, defines, file_use, judge_path
from llm_do_temporal.policy.files.sandbox import Place, Tree, describe_roots, normalise
from llm_do_temporal.policy.identity import SeenFile
from llm_do_temporal.policy.values import CapabilityUse
from llm_do_temporal.redaction.hidden_characters import shown_name
from llm_do_temporal.workflows.runtime.activities import run_activity, run_local_first
from llm_do_temporal.workflows.tools.gated_tool import GatedTool, PreparedCall, Shown, ToolOutcome, ToolQuestion
from llm_do_temporal.workflows.tools.working_layer import WorkingLayer, through

Change = TypeVar("Change", WriteFileInput, EditFileInput)

DEFAULT_MAX_CHARS = 20_000

_PATH = {"type": "string", "minLength": 1, "description": "Path in your file tree, like /notes/todo.md."}


_WRITES = "Write a text file, replacing it if it exists. Folders are made as needed."
_EDITS = "Replace one piece of a text file. `old_text` must occur exactly once."


def file_tools(tree: Tree, layer: WorkingLayer | None = None) -> list[GatedTool]:
    """Return the file tools of an invocation with this tree, which work on the layer; None: on the files themselves."""
    roots = describe_roots(tree) or "none"
    write = _schema({"path": _PATH, "content": {"type": "string"}}, "path", "content")
    texts = {"old_text": {"type": "string", "minLength": 1}, "new_text": {"type": "string"}}
    edit = _schema({"path": _PATH, **texts}, "path", "old_text", "new_text")
    return [
        ReadFile(tree, layer),
        ChangeFile(tree, layer, "write_file", _WRITES, write),
        ChangeFile(tree, layer, "edit_file", _EDITS, edit),
        ListFiles(tree, roots, layer),
    ]


def unusable(tool: str, tree: Tree) -> bool:
    """Whether every call of this tool would be refused, because nothing in the tree can be written.

    Such a tool is not shown to a model; a model that calls it all the same gets the reason.
    """
    return tool in WRITING_TOOLS and all(mount.readonly for mount in tree.mounts)


def _schema(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


@dataclass
class ReadFile:
    """`read_file`."""

    tree: Tree
    layer: WorkingLayer | None = None
    name: str = "read_file"
    description: str = (
        "Read a UTF-8 text file. Long files come in parts: when `truncated` is true, go on with `offset`. "
        "For PDFs, images and other binary files use attachments instead."
    )

    def __post_init__(self) -> None:
        self.schema = _schema(
            {
                "path": _PATH,
                "max_chars": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": MAX_READ_CHARS,
                    "default": DEFAULT_MAX_CHARS,
                },
                "offset": {"type": "integer", "minimum": 0, "default": 0, "description": "In characters."},
            },
            "path",
        )

    async def prepare(self, args: dict[str, Any]) -> PreparedCall:
        """Check the path; the effect reads."""
        place = judge_path(self.name, self.tree, args)
        request = ReadFileInput(
            mount=place.mount,
            relative=place.relative,
            path=place.path,
            max_chars=args.get("max_chars", DEFAULT_MAX_CHARS),
            offset=args.get("offset", 0),
        )
        use = file_use(self.name, place, args)

        async def read(asked: ReadFileInput) -> ToolOutcome:
            text = await run_local_first(READ_FILE, through(self.layer, asked), summary=f"read {place.path}")
            return ToolOutcome(text.model_dump(exclude={"read_key"}))

        async def bound(shown: Shown) -> ToolOutcome:
            return await read(request.model_copy(update={"expected": shown.file(place.path)}))

        question = ToolQuestion((use,), args, f"read_file {place.path}")
        return PreparedCall((question,), lambda: read(request), lambda: _seen_to_read(place, self.layer), bound)


@dataclass
class ChangeFile:
    """`write_file` and `edit_file`."""

    tree: Tree
    layer: WorkingLayer | None
    name: str
    description: str
    schema: dict[str, Any]

    async def prepare(self, args: dict[str, Any]) -> PreparedCall:
        """Check path and size; the effect of a write is atomic, preview and effect of an edit find the text."""
        place = judge_path(self.name, self.tree, args)
        use = file_use(self.name, place, args)
        summary = f"{self.name} {shown_name(place.path)} ({use.payload['bytes']} bytes)"
        question = ToolQuestion(uses=(use,), args=args, summary=summary, in_layer=self.layer is not None)
        at: dict[str, Any] = {"mount": place.mount, "relative": place.relative, "path": place.path}
        at["definitions"] = defines(place)
        if self.name == "write_file":
            write = WriteFileInput(content=args["content"], **at)
            return _change(WRITE_FILE, PREVIEW_WRITE, write, question, self.layer)
        edit = EditFileInput(old_text=args["old_text"], new_text=args["new_text"], **at)
        return _change(EDIT_FILE, PREVIEW_EDIT, edit, question, self.layer)


_PATTERN = (
    "Glob with *, ?, [abc], [!abc], {a,b}, and ** for any number of folders. All other signs stand for themselves. "
    "The default is all files."
)


@dataclass
class ListFiles:
    """`list_files`."""

    tree: Tree
    roots: str
    layer: WorkingLayer | None = None
    name: str = "list_files"

    def __post_init__(self) -> None:
        self.description = f"List the files below a folder. You can reach: {self.roots}."
        self.schema = _schema(
            {
                "path": {"type": "string", "default": ".", "description": "Folder to list."},
                "pattern": {"type": "string", "default": "**/*", "description": _PATTERN},
            }
        )

    async def prepare(self, args: dict[str, Any]) -> PreparedCall:
        """Check the folder; the effect lists."""
        path = normalise(args.get("path", "."), names=frozenset(m.at.strip("/") for m in self.tree.mounts))
        request = ListFilesInput(tree=self.tree, path=path, pattern=args.get("pattern", "**/*"))
        use = CapabilityUse(name="sandbox.list", payload={"path": path})

        async def effect() -> ToolOutcome:
            listing = await run_local_first(LIST_FILES, through(self.layer, request), summary=f"list {path}")
            return ToolOutcome(listing.model_dump(exclude={"read_key"}))

        return PreparedCall((ToolQuestion((use,), args, f"list_files {path}"),), effect)


async def _seen_to_read(place: Place, layer: WorkingLayer | None) -> Shown:
    file = AttachedFile(mount=place.mount, relative=place.relative, path=place.path)
    request = through(layer, FindFilesInput(files=(file,), digests=True))
    found = await run_local_first(FIND_FILES, request, summary=f"find {place.path}")
    return Shown(files=found.seen or None)


def _change(
    activity: ActivityRef[Change, FileChange],
    preview_activity: ActivityRef[Change, FileChange],
    request: Change,
    question: ToolQuestion,
    layer: WorkingLayer | None,
) -> PreparedCall:
    """Prepare a call that changes a file: `activity` carries it out, `preview_activity` shows the difference before."""
    previewed = False
    verb = activity.name.removesuffix("_file")

    async def change(asked: Change) -> ToolOutcome:
        summary = f"{verb} {shown_name(request.path)}"
        if layer is None:
            return ToolOutcome(_written(await run_activity(activity, asked, summary=summary)))

        async def in_layer(work: LayerWork) -> FileChange:
            # Nothing but blobs is written, so it may be tried within the workflow's task.
            laid = asked.model_copy(update={"layer": work})
            return await run_local_first(activity, laid, summary=f"{summary} (allowed: in the layer)")

        return ToolOutcome(_written(await layer.change(in_layer)))

    async def preview() -> Shown:
        nonlocal previewed
        change = await run_local_first(preview_activity, through(layer, request), summary=f"preview {request.path}")
        previewed = True
        return Shown(change.diff, (change.seen,))

    async def bound(shown: Shown) -> ToolOutcome:
        expected = None if shown.files is None else _expected(shown, request, previewed=previewed)
        return await change(request.model_copy(update={"expected": expected}))

    return PreparedCall((question,), lambda: change(request), preview, bound)


def _expected(shown: Shown, request: WriteFileInput | EditFileInput, *, previewed: bool) -> SeenFile:
    """Return the file that a call may change, as it must be. A file that was not shown, because a person changed the
    call, must be new."""
    seen = shown.file(request.path) or SeenFile(path=request.path)
    if isinstance(request, WriteFileInput):
        after = hashlib.sha256(request.content.encode(errors="replace")).hexdigest()
        return seen.model_copy(update={"after": after})
    # The text after the edit is known only where exactly this edit was shown.
    return seen if previewed else seen.model_copy(update={"after": None})


def _written(change: FileChange) -> str:
    # A write that is repeated after a crash finds the file there already: the answer must not depend on that.
    return f"Wrote {change.path} ({change.bytes} bytes)."
