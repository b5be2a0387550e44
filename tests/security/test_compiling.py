"""Patterns that take their time before any text is seen, and listings of servers that are too much to be checked."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import ToolsetTool
from pydantic_core import SchemaValidator, core_schema

from llm_do_temporal.activities.external import MAX_WARNINGS, listing_of
from llm_do_temporal.errors import DefinitionError
from llm_do_temporal.json_schema import check_schema
from llm_do_temporal.messages.definitions import ExternalToolset, McpServer
from tests.support.patience import PATIENCE_SECONDS

SERVER = ExternalToolset(name="e", server=McpServer(command=("x",)))


@pytest.mark.sampled(2)
@pytest.mark.timeout(PATIENCE_SECONDS)
@pytest.mark.parametrize(
    "patterns",
    [
        [r"(\p{L}|\p{N}){" f"{400 + number}}}" for number in range(300)],
        [f"x{number}" for number in range(20_000)],
        [r"\p{L}{" f"{600 + number}}}" for number in range(300)],
        [r"\S" * 1_900],
        [r"\w" * 1_900, r"\D" * 1_900],
        ["(?i)" + r"\p{L}" * 700 + str(number) for number in range(20)],
        ["(?i)" + "[^a]" * 950 + str(number) for number in range(20)],
        ["(" * number + ")" for number in range(1, 1_900)],
    ],
    ids=["refused", "many", "large", "shorthands", "two of shorthands", "folded", "folded classes", "broken"],
)
def test_a_schema_is_judged_within_bounds(patterns: list[str]) -> None:
    schema = {"type": "object", "properties": {f"a{number}": {"pattern": one} for number, one in enumerate(patterns)}}
    assert check_schema(schema) is not None


@pytest.mark.control
def test_many_ordinary_patterns_can_be_used() -> None:
    usual = [rf"^[a-z]{{1,{number}}}-\d+\s*\w*$" for number in range(1, 200)]
    assert check_schema({"properties": {f"a{n}": {"pattern": one} for n, one in enumerate(usual)}}) is None


@pytest.mark.parametrize(
    ("count", "schema"),
    [
        (50_000, {"type": "object"}),
        (600, {"type": "object"}),
        (2, {"type": "object", "description": "x" * 200_000}),
        (30, {"type": "object", "properties": {f"a{n}": {"pattern": r"(\p{L}|\p{N}){400}"} for n in range(300)}}),
    ],
    ids=["tools", "some tools", "bytes", "patterns"],
)
@pytest.mark.timeout(PATIENCE_SECONDS)
def test_a_listing_that_is_too_much_is_refused(count: int, schema: dict[str, Any]) -> None:
    with pytest.raises(DefinitionError, match="accepted"):
        listing_of(SERVER, listed([f"t{number}" for number in range(count)], schema), judges_calls=False)


@pytest.mark.parametrize("name", ["b\x1b[31m\n", "ü" * 70, " "], ids=["controls", "letters", "space"])
def test_tools_that_are_not_offered_are_counted(name: str, caplog: pytest.LogCaptureFixture) -> None:
    names = [f"{name}{number}" for number in range(500)]
    with caplog.at_level(logging.WARNING):
        found = listing_of(SERVER, listed(names, {"type": "array"}), judges_calls=False)
    assert len(caplog.records) == len(found.warnings) == MAX_WARNINGS
    assert found.warnings[-1] == "481 more tools of 'e' are not offered, or with less"


def listed(names: list[str], schema: dict[str, Any]) -> dict[str, ToolsetTool[Any]]:
    """What a toolset says that it has."""
    validator = SchemaValidator(core_schema.any_schema())
    return {
        name: ToolsetTool[Any](
            toolset=None,  # pyright: ignore[reportArgumentType]
            tool_def=ToolDefinition(name=name, parameters_json_schema=schema),
            max_retries=0,
            args_validator=validator,
        )
        for name in names
    }
