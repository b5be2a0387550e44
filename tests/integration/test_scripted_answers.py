"""Runs whose questions are answered by a script, which they take along when they go on as new."""

from __future__ import annotations

from typing import Any

import pytest

from llm_do_temporal.cli.reports.show import read_record
from llm_do_temporal.testing import scripted
from tests.support.runs.parked import FILESYSTEM, write_call
from tests.support.runs.place import Place

ANSWERS: list[dict[str, Any]] = [
    {"tool": "write_file", "decision": "approve", "left": 11, "by": "ada", "source": "run-1 a3"},
]


@pytest.mark.thorough
async def test_a_script_answers_as_often_as_it_says_and_nobody_is_asked(hasty: Place) -> None:
    turns = [write_call(f"/{number}.txt", str(number)) for number in range(13)]
    model = scripted(*turns, "Done.")
    hasty.worker("main", model, toolsets=FILESYSTEM)
    run = await hasty.start("main", script=ANSWERS, scripted=True)
    result = await hasty.client.result(run)

    assert len(await hasty.chain(run)) > 1
    written = sorted(int(path.stem) for path in hasty.folder.glob("*.txt"))
    assert written == list(range(11))
    assert result.output == "Done."
    _, decided, _ = await read_record(hasty.client, run)
    assert [one.data.get("source", one.data["by"]) for one in decided] == ["run-1 a3"] * 11 + ["script"] * 2
    assert "write a `decide` for 'write_file'" in str(model.requests[-1].messages[-1])
