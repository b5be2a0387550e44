"""Patch of a layer in the form that `git apply` takes: hunks of text, literals of bytes, modes, links, renames."""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Callable, Iterator

from llm_do_temporal.policy.layers.changes import LayerChange, LayerChangeKind, changes_of
from llm_do_temporal.policy.layers.hunks import file_hunks
from llm_do_temporal.policy.layers.layer import Layer
from llm_do_temporal.policy.layers.nodes import LayerNode, NodeKind

Read = Callable[[LayerNode, str], bytes]
"""Returns the bytes of a file; its second argument is the path."""
_QUOTED = {9: "\\t", 10: "\\n", 13: "\\r", 34: '\\"', 92: "\\\\"}
_LITERAL_BYTES = 52
"""Bytes in one line of a binary literal."""


def patch_of(layer: Layer, read: Read) -> str:
    """Return the patch. Folders are left out, as git has none; of permissions it knows whether a file is a program."""
    return "".join(part for change in changes_of(layer) for part in _parts(change, read))


def _parts(change: LayerChange, read: Read) -> Iterator[str]:
    """Yield the patch of one change; two, where a link takes the place of a file or a file that of a link."""
    old, new = _of_git(change.base), _of_git(change.now)
    old_path = change.old_path or change.path
    if old is not None and new is not None and old.kind is not new.kind:
        yield _file(old, None, old_path, old_path, read)
        yield _file(None, new, change.path, change.path, read)
    elif old is not None or new is not None:
        yield _file(old, new, old_path, change.path, read, renamed=change.kind is LayerChangeKind.RENAMED)


def _file(
    old: LayerNode | None, new: LayerNode | None, old_path: str, path: str, read: Read, *, renamed: bool = False
) -> str:
    before = b"" if old is None else _bytes(old, old_path, read)
    after = b"" if new is None else _bytes(new, path, read)
    head = [f"diff --git {_quoted('a/' + old_path)} {_quoted('b/' + path)}"]
    if old is None and new is not None:
        head.append(f"new file mode {_mode(new)}")
    elif new is None and old is not None:
        head.append(f"deleted file mode {_mode(old)}")
    elif old is not None and new is not None and _mode(old) != _mode(new):
        head += [f"old mode {_mode(old)}", f"new mode {_mode(new)}"]
    if renamed:
        head += ["similarity index 100%", f"rename from {_quoted(old_path)}", f"rename to {_quoted(path)}"]
    if before == after:
        # Without a difference in bytes or mode there is nothing that git would take.
        return "\n".join(head) + "\n" if len(head) > 1 else ""
    hunks = file_hunks(before, after)
    if hunks is None:
        index = f"index {_object_id(old, before)}..{_object_id(new, after)}"
        return "\n".join([*head, index, "GIT binary patch", _literal(after), _literal(before), ""])
    names = ["--- /dev/null" if old is None else f"--- {_quoted('a/' + old_path)}"]
    names.append("+++ /dev/null" if new is None else f"+++ {_quoted('b/' + path)}")
    return "\n".join([*head, *names]) + "\n" + hunks.unified()


def _of_git(node: LayerNode | None) -> LayerNode | None:
    return None if node is None or node.kind is NodeKind.FOLDER else node


def _bytes(node: LayerNode, path: str, read: Read) -> bytes:
    return node.target.encode() if node.kind is NodeKind.LINK else read(node, path)


def _mode(node: LayerNode) -> str:
    return "120000" if node.kind is NodeKind.LINK else "100755" if node.mode & 0o100 else "100644"


def _quoted(path: str) -> str:
    """Return a path as git writes it: in quotes where it has characters that could be taken for something else."""
    data = path.encode()
    if all(32 <= byte < 127 and byte not in _QUOTED for byte in data):
        return path if " " not in path else f'"{path}"'
    escaped = (_QUOTED.get(byte) or (chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}") for byte in data)
    return '"' + "".join(escaped) + '"'


def _object_id(node: LayerNode | None, data: bytes) -> str:
    """Return the name that git gives to these bytes, by which it makes sure that a patch with bytes fits."""
    if node is None:
        return "0" * 40
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def _literal(data: bytes) -> str:
    packed = zlib.compress(data)
    lines = [f"literal {len(data)}\n"]
    for start in range(0, len(packed), _LITERAL_BYTES):
        part = packed[start : start + _LITERAL_BYTES]
        # The first letter tells how many bytes the line has.
        size = chr(ord("A") + len(part) - 1) if len(part) <= 26 else chr(ord("a") + len(part) - 27)
        lines.append(size + base64.b85encode(part, pad=True).decode() + "\n")
    return "".join(lines)
