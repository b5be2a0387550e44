"""Two tools of one name are reported with the toolsets they are of."""

from __future__ import annotations

from typing import Any, cast

import pytest

from llm_do_temporal.errors import DefinitionError
from llm_do_temporal.messages.definitions import ExternalTool, ExternalToolset
from llm_do_temporal.policy.files.sandbox import Mount, Tree
from llm_do_temporal.workflows.tools.external import ExternalCall, check_tool_names
from llm_do_temporal.workflows.tools.filesystem import file_tools
from llm_do_temporal.workflows.tools.gated_tool import GatedTool

FILES: list[GatedTool] = file_tools(Tree(mounts=(Mount(at="/", root="."),)))


def external(name: str) -> ExternalCall:
    """A tool of the toolset `mcp.docs`; nothing calls it."""
    toolset = ExternalToolset.model_construct(name="mcp.docs")
    tool = ExternalTool.model_construct(name=name, description="", parameters={})
    return ExternalCall(cast("Any", None), toolset, tool, name, judges_calls=False, model="")


@pytest.mark.parametrize(
    ("own", "others", "toolsets"),
    [
        # Twice in the toolsets of the worker itself.
        ({"filesystem": FILES, "custom": FILES[:1]}, [], "one of 'filesystem', one of 'custom'"),
        # Once in a toolset from elsewhere.
        ({"filesystem": FILES}, [external("read_file")], "one of 'filesystem', one of 'mcp.docs'"),
        # Under the name of the tool for structured output.
        ({}, [external("final_result")], "one of 'structured output', one of 'mcp.docs'"),
    ],
)
def test_tools_of_one_name_are_named_with_their_toolsets(
    own: dict[str, list[GatedTool]], others: list[ExternalCall], toolsets: str
) -> None:
    with pytest.raises(DefinitionError, match=toolsets):
        check_tool_names(own, others)


def test_tools_of_different_names_are_fine() -> None:
    check_tool_names({"filesystem": FILES}, [external("search")])
