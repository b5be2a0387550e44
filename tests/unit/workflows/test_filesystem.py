"""What the file tools judge before any file is touched."""

from __future__ import annotations

from typing import Any

import pytest

from llm_do_temporal.policy.files.sandbox import Mount, Tree
from llm_do_temporal.workflows.tools.filesystem import file_tools


@pytest.mark.parametrize(
    ("tool", "args", "capability", "asks", "summary"),
    [
        ("read_file", {"path": "/input/a.pdf"}, "sandbox.read", True, "read_file /input/a.pdf"),
        ("list_files", {"path": "/input"}, "sandbox.list", None, "list_files /input"),
        ("list_files", {}, "sandbox.list", None, "list_files /"),
        ("write_file", {"path": "/a.txt", "content": "ä"}, "sandbox.write", False, "write_file /a.txt (2 bytes)"),
        (
            "edit_file",
            {"path": "/a", "old_text": "a", "new_text": "b"},
            "sandbox.write",
            False,
            "edit_file /a (1 bytes)",
        ),
        # files that workers are made of are another matter
        ("write_file", {"path": "/main.worker", "content": ""}, "sandbox.write.definitions", False, None),
    ],
)
async def test_a_call_says_which_capability_it_uses(
    tool: str, args: dict[str, Any], capability: str, asks: bool | None, summary: str | None
) -> None:
    tree = Tree(
        mounts=(
            Mount(at="/", root=".", write_approval=False),
            Mount(at="/input", root="pipeline", read_approval=True),
        )
    )
    (found,) = [one for one in file_tools(tree) if one.name == tool]
    (question,) = (await found.prepare(args)).questions
    (use,) = question.uses
    assert (use.name, use.asks) == (capability, asks)
    assert question.args == args
    assert summary is None or question.summary == summary


def test_every_tool_describes_itself_and_closes_its_schema() -> None:
    tree = Tree(mounts=(Mount(at="/notes", root="notes"), Mount(at="/input", root="pipeline", readonly=True)))
    tools = file_tools(tree)
    assert [tool.name for tool in tools] == ["read_file", "write_file", "edit_file", "list_files"]
    assert all(tool.description and tool.schema["additionalProperties"] is False for tool in tools)
    assert "/notes (read-write), /input (read-only)" in tools[-1].description
    assert "none" in file_tools(Tree())[-1].description
