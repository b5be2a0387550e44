"""What MCP servers say beside their results is bounded, and acts on no terminal."""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path
from typing import Any

import pytest

from llm_do_temporal.activities.external_answers import bounded, logged, logged_error, server_stderr
from llm_do_temporal.messages.sizes import MAX_EXTERNAL_ERROR_CHARS, MAX_LOGGED_CHARS
from llm_do_temporal.testing import call, scripted
from tests.support.runs.delegation import APPROVE_ALL, tool_results
from tests.support.runs.place import Place

SERVER = str(Path(__file__).parents[1] / "support/servers/loud_mcp_server.py")
FORGED = {
    "much": ("x", 3_000_000),
    "very much": ("\u00e9", 20_000_000),
    "a title": ("\x1b]0;owned\x07", 1),
    "a cleared screen": ("\x1b[2J\x1b[H$ ", 1),
    "lines that are rubbed out": ("\rall is well\x1b[K", 100),
    "the other way round": ("\u202eevil", 1),
    "NUL": ("a\0b", 1000),
    "backspaces": ("\b", 10_000),
    "nothing that is seen": ("\u200b\u2060", 1000),
    "a clipboard": ("\x1b]52;c;ZXZpbA==\x07", 1),
    "other controls": ("\x9b31m\x85\u2028", 10),
}
"""Words, and how often."""
HIDDEN = ("\x1b", "\x07", "\r", "\u202e", "\0", "\b", "\u200b", "\x9b", "\u2028")
HEAD = 2_000
"""What stands around the words in a message, a traceback included."""


def mcp(*arguments: str) -> dict[str, Any]:
    return {"mcp": {"loud": {"command": [sys.executable, SERVER, *arguments]}}}


def check_log(caplog: pytest.LogCaptureFixture) -> str:
    """What was logged, which is bounded and quiet."""
    ours = [one.getMessage() for one in caplog.records if one.name.startswith("llm_do_temporal")]
    assert all(one.exc_info is None for one in caplog.records if one.name.endswith("external"))
    # One character may be written out as ten.
    assert all(len(one) <= 10 * MAX_LOGGED_CHARS + HEAD for one in ours)
    assert [char for char in HIDDEN if any(char in one for one in ours)] == []
    return "\n".join(ours)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["much", "a cleared screen"])
async def test_the_error_of_a_call_is_as_long_as_an_error_may_be(
    place: Place, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    words, times = FORGED[name]
    model = scripted(call("fail", words=words, times=times), "Heard.")
    place.worker("main", model, toolsets=mcp())
    with caplog.at_level(logging.WARNING):
        assert (await place.run("main", mode=APPROVE_ALL)).output == "Heard."
    (heard,) = tool_results(model, "fail")
    assert words in heard
    assert len(heard) <= MAX_EXTERNAL_ERROR_CHARS + HEAD
    histories = await place.histories()
    assert max(event.ByteSize() for one in histories for event in one.events) < 8 * MAX_EXTERNAL_ERROR_CHARS
    check_log(caplog)


@pytest.mark.thorough
@pytest.mark.sampled(1)
@pytest.mark.parametrize("when", ["at the start", "in a call"])
async def test_what_a_server_says_aside_in_a_run_is_bounded_and_quiet(
    place: Place, when: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    loud = ("\x1b[2J\x1b[H$ ", 500_000)
    words, times = loud if when == "in a call" else ("", 0)
    model = scripted(call("speak", words=words, times=times), "Heard.")
    place.worker("main", model, toolsets=mcp(*([repr(loud)] if when == "at the start" else [])))
    with caplog.at_level(logging.WARNING):
        assert (await place.run("main", mode=APPROVE_ALL)).output == "Heard."
    assert "wrote to its standard error" in check_log(caplog)
    assert "\x1b[2J" not in capfd.readouterr().err


@pytest.mark.parametrize(("words", "times"), FORGED.values(), ids=FORGED)
async def test_what_a_program_writes_to_standard_error_is_bounded_and_quiet(
    words: str, times: int, caplog: pytest.LogCaptureFixture
) -> None:
    code = f"import sys; sys.stderr.buffer.write({words!r}.encode() * {times})"
    with caplog.at_level(logging.WARNING):
        async with server_stderr("loud") as stderr:
            program = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stderr=stderr)
            assert await program.wait() == 0
    assert "the server of toolset loud wrote to its standard error: " in check_log(caplog)


@pytest.mark.thorough
async def test_what_a_server_left_behind_keeps_nobody_waiting(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    model = scripted(call("leave", words="\x1b[2J"), "Left.")
    place.worker("main", model, toolsets=mcp())
    with caplog.at_level(logging.WARNING):
        assert (await place.run("main", mode=APPROVE_ALL)).output == "Left."
    check_log(caplog)


@pytest.mark.parametrize(("words", "times"), FORGED.values(), ids=FORGED)
def test_no_error_of_others_breaks_a_log(words: str, times: int) -> None:
    found = logged_error(ValueError(words * times))
    assert len(found) <= 10 * MAX_LOGGED_CHARS + HEAD
    assert [char for char in HIDDEN if char in found] == []


@pytest.mark.parametrize("half", ["\ud800", "\udfff" * 100, "a\ud83d", "\udc80b"], ids=ascii)
def test_half_characters_are_replaced(half: str) -> None:
    for found in (bounded(half), logged(half)):
        assert found.encode("utf-8")


@pytest.mark.control
def test_a_short_text_stays_as_it_is() -> None:
    assert bounded("Ask for something else.") == "Ask for something else."
    assert logged("one\ntwo: \u00e9") == "one\ntwo: \u00e9"
