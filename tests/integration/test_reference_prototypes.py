"""The two prototypes of the reference: a tool names a file, and the file behind the name is attached."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage

from llm_do_temporal.testing import call, scripted
from tests.support.runs.delegation import last_tool_result
from tests.support.runs.place import Place

TOOLS = '''
def pick_deck() -> str:
    """Name the deck to evaluate."""
    return "path/to/deck.txt"


def list_inbox() -> str:
    """Name the list of files to organize."""
    return "path/to/files.txt"
'''


@pytest.mark.parametrize(
    ("tool", "worker", "file", "text"),
    [
        ("pick_deck", "pitch_evaluator", "deck.txt", "We sell kelp."),
        ("list_inbox", "file_organizer", "files.txt", "invoice.pdf\nphoto.png\n"),
    ],
)
async def test_a_tool_names_a_file_and_the_file_behind_the_name_is_attached(
    place: Place, tool: str, worker: str, file: str, text: str
) -> None:
    def delegate(messages: list[ModelMessage]) -> Any:
        return call(worker, input="Do your part.", attachments=[last_tool_result(messages)])

    main, callee = scripted(call(tool), delegate, last_tool_result), scripted("Done with it.")
    place.write("tools.py", TOOLS)
    place.write(f"input/{file}", text)
    place.write("prompts/orchestrator.txt", "You delegate.")
    place.write(f"prompts/{worker}.txt", f"You are the {worker}.")
    place.worker(worker, callee, f"{{{{ file('prompts/{worker}.txt') }}}}")
    place.worker(
        "main",
        main,
        "{{ file('prompts/orchestrator.txt') }}",
        toolsets={"custom": {tool: {"pre_approved": True}}, "delegation": {worker: {}}},
        attachments={"path_map": {f"path/to/{file}": f"/input/{file}"}},
    )
    assert (await place.run("main", mode="approve_all")).output == "Done with it."
    assert (main.requests[0].instructions, callee.requests[0].instructions) == (
        "You delegate.",
        f"You are the {worker}.",
    )
    assert f"Attached file: /input/{file}" in callee.requests[0].prompt
    assert text in callee.requests[0].prompt
