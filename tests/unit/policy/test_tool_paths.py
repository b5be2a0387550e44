"""What the file tools may be used on, judged before any file is touched."""

from __future__ import annotations

from typing import Any

import pytest

from llm_do_temporal.errors import SandboxRefusal
from llm_do_temporal.policy.files.sandbox import Mount, Tree
from llm_do_temporal.policy.files.tool_paths import file_use, judge_path

TREE = Tree(
    mounts=(
        Mount(at="/notes", root="notes", suffixes=(".md",), max_file_bytes=10),
        Mount(at="/input", root="pipeline", readonly=True),
    )
)


@pytest.mark.parametrize(
    ("tool", "args", "refusal"),
    [
        # reading wants the suffix, nothing else
        ("read_file", {"path": "/notes/a.md"}, None),
        ("read_file", {"path": "/notes/a.pdf"}, "has a suffix that is not allowed here"),
        ("read_file", {"path": "/input/a.pdf"}, None),
        # writing wants a writable place, the suffix and the size, in bytes
        ("write_file", {"path": "/notes/a.md", "content": "ten bytes!"}, None),
        ("write_file", {"path": "/notes/a.md", "content": "ten bytes!!"}, "has 11 bytes; the limit here is 10"),
        ("write_file", {"path": "/notes/a.md", "content": "ääääää"}, "has 12 bytes; the limit here is 10"),
        ("write_file", {"path": "/notes/a.pdf", "content": ""}, "has a suffix that is not allowed here"),
        ("write_file", {"path": "/input/a.pdf", "content": ""}, "is read-only"),
        ("write_file", {"path": "/notes", "content": ""}, "is a folder"),
        # editing wants both; the size is known only with the file
        ("edit_file", {"path": "/notes/a.md", "old_text": "a", "new_text": "b" * 99}, None),
        ("edit_file", {"path": "/input/a.pdf", "old_text": "a", "new_text": "b"}, "is read-only"),
        # a listing is judged by its place alone
        ("list_files", {"path": "/input/a.pdf"}, None),
        # outside, whatever the tool
        ("read_file", {"path": "/a.md"}, "is outside this worker's files"),
        ("write_file", {"path": "notes/../a.md", "content": ""}, "contains '..'"),
        ("edit_file", {}, "is outside this worker's files"),
    ],
)
def test_a_path_is_judged_for_what_the_tool_would_do(tool: str, args: dict[str, Any], refusal: str | None) -> None:
    if refusal is None:
        assert judge_path(tool, TREE, args).path == args["path"]
        return
    with pytest.raises(SandboxRefusal) as refused:
        judge_path(tool, TREE, args)
    assert refusal in str(refused.value)


@pytest.mark.parametrize(
    ("tool", "args", "name", "payload"),
    [
        ("read_file", {"path": "/notes/a.md"}, "sandbox.read", {"path": "/notes/a.md"}),
        ("write_file", {"path": "/notes/a.md", "content": "ä"}, "sandbox.write", {"path": "/notes/a.md", "bytes": 2}),
        (
            "edit_file",
            {"path": "/notes/a.md", "old_text": "", "new_text": "abc"},
            "sandbox.write",
            {"path": "/notes/a.md", "bytes": 3},
        ),
    ],
)
def test_a_file_tool_uses_one_capability(tool: str, args: dict[str, Any], name: str, payload: dict[str, Any]) -> None:
    use = file_use(tool, judge_path(tool, TREE, args), args)
    assert (use.name, use.payload) == (name, payload)
