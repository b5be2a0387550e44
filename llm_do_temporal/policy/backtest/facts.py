"""Facts of a call that only a look at the files tells, as they would be: with no links, or with links elsewhere."""

from __future__ import annotations

from llm_do_temporal.errors import Refusal
from llm_do_temporal.policy.files.protection import PATH_TOOLS
from llm_do_temporal.policy.files.sandbox import Tree, join, locate
from llm_do_temporal.policy.identity import SeenFile
from llm_do_temporal.policy.kinds.kind import AskedCall

_ELSEWHERE = "another-place"
"""Real place of a file behind a link that leads elsewhere."""


def lacks_places(call: AskedCall) -> bool:
    """Return whether the call names files of which nobody has noted where they really are."""
    if any(one.place is None for one in (*call.files, *call.attachments)):
        return True
    return call.tool in PATH_TOOLS and not call.files


def with_places(call: AskedCall, *, are_linked: bool) -> AskedCall:
    """Return the call with its files where their paths say, or, where they `are_linked`, at another place."""
    attachments = tuple(
        one.model_copy(update={"place": _place(call.tree, one.path, is_linked=are_linked)}) for one in call.attachments
    )
    seen = [SeenFile(path=path, place=_place(call.tree, path, is_linked=are_linked)) for path in _named(call)]
    return call.model_copy(update={"files": tuple(seen), "attachments": attachments})


def _named(call: AskedCall) -> list[str]:
    """Return the virtual paths of the files that a file tool's call or a command names; none for another call."""
    if call.tool in PATH_TOOLS:
        given = [str(call.args.get("path", ""))]
    elif call.tool == "shell":
        payload = call.uses[0].payload
        given = [f"{payload.get('cwd', '/')}/{word}" for word in payload.get("argv", ())[1:] if word]
    else:
        return []
    return [place for path in given if (place := _virtual(call.tree, path)) is not None]


def _virtual(tree: Tree, path: str) -> str | None:
    try:
        return locate(tree, path).path
    except Refusal:
        return None


def _place(tree: Tree, path: str, *, is_linked: bool) -> str | None:
    if is_linked:
        return _ELSEWHERE
    try:
        place = locate(tree, path)
    except Refusal:
        return None
    return join(place.mount.root, place.relative)
