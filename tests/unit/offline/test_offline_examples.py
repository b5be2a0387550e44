"""What the small plays do with the results that they get: files that exist, tools that fail, people who say no."""

from __future__ import annotations

import json
from typing import Any

import pytest

from llm_do_temporal.offline import offline_model
from llm_do_temporal.offline.calculator import calculate, sum_in
from llm_do_temporal.offline.code_analyzer import analyze
from llm_do_temporal.offline.file_organizer import organize
from llm_do_temporal.offline.model.play import PlayCall, PlaySteps, Say, perform
from llm_do_temporal.offline.model.script_model import ScriptModel
from llm_do_temporal.offline.model.seen import SeenRequest
from llm_do_temporal.offline.notes import keep_notes
from tests.support.providers.offline_answers import LIST, TEXT, WRITE, Talk, offering, tool

READ = tool("read_file", path=TEXT, max_chars={"type": "integer"})
SHELL = tool("shell", command=TEXT)
OPERATIONS = [tool(name, a=TEXT, b=TEXT) for name in ("add", "multiply", "divide")]
REJECTED = "Rejected by ada: "


def playing(play: Any) -> ScriptModel:
    act = perform(play)

    async def script(seen: SeenRequest) -> Any:
        return act(seen)

    return ScriptModel("offline", "play", script)


async def called(talk: Talk) -> tuple[str, dict[str, Any]]:
    """The one call of the next answer: the tool, and its arguments."""
    (call,) = await talk.calls()
    return call.tool_name, call.args_as_dict()


def ran(stdout: str = "", exit_code: int = 0, stderr: str = "") -> str:
    return json.dumps({"exit_code": exit_code, "stdout": stdout, "stderr": stderr})


def text_file(content: str, *, truncated: bool = False) -> str:
    return json.dumps({"content": content, "truncated": truncated, "total_chars": len(content)})


def listing(*paths: str) -> str:
    return json.dumps({"files": [{"path": path, "bytes": 1} for path in paths]})


class TestNotes:
    @pytest.fixture
    def talk(self) -> Talk:
        return Talk(playing(keep_notes), offering(READ, WRITE), "buy  bread\n")

    @pytest.mark.parametrize(("before", "after"), [("", "- buy bread\n"), ("- milk", "- milk\n- buy bread\n")])
    async def test_it_keeps_the_lines_that_are_there(self, talk: Talk, before: str, after: str) -> None:
        assert (await called(talk))[0] == "read_file"
        talk.reply(text_file(before))
        assert await called(talk) == ("write_file", {"path": "/notes.md", "content": after})
        talk.reply(json.dumps({"path": "/notes.md"}))
        assert f"{after.count('- ')} note" in await talk.text()

    async def test_a_file_that_does_not_exist_is_begun(self, talk: Talk) -> None:
        await talk.calls()
        talk.reply(RuntimeError("'/notes.md' does not exist"))
        assert (await called(talk))[1]["content"] == "- buy bread\n"

    @pytest.mark.parametrize(
        "answer", [text_file("- a\n", truncated=True), RuntimeError("'/notes.md' is not UTF-8 text")]
    )
    async def test_what_it_could_not_read_whole_is_not_overwritten(self, talk: Talk, answer: Any) -> None:
        await talk.calls()
        talk.reply(answer)
        assert "othing was written" in await talk.text()

    async def test_a_reason_that_names_no_file_ends_it(self, talk: Talk) -> None:
        await talk.calls()
        talk.reply(text_file(""))
        await talk.calls()
        talk.reply(REJECTED + "not today")
        assert f"The note is not saved: {REJECTED}not today" in await talk.text()

    async def test_it_does_not_claim_what_a_person_changed(self, talk: Talk) -> None:
        await talk.calls()
        talk.reply(text_file(""))
        await talk.calls()
        changed = "ada changed this call before it ran."
        talk.reply(json.dumps({"result": {"path": "/b.md"}, "note": changed}))
        text = await talk.text()
        assert changed in text
        assert "The new one" not in text

    async def test_without_files_it_says_what_it_lacks(self) -> None:
        assert "no tool to write" in await Talk(offline_model("notes"), offering(), "hi").text()


class TestCalculator:
    @pytest.mark.parametrize(
        ("prompt", "found"),
        [
            ("what is 2 + 3 * 4?", "2 + 3 * 4"),
            ("On 21.11. take (1.5+2)\u00d7-3.", "(1.5+2)*-3"),
            ("2^10", "2^10"),
            ("-2 * 3 - quickly", "-2 * 3"),
            ("six times seven", None),
            ("42", None),
            ("(" * 99 + "1+1" + ")" * 99, None),
            ("1+" * 200 + "1", None),
        ],
    )
    def test_it_finds_the_longest_sum(self, prompt: str, found: str | None) -> None:
        result = sum_in(prompt)
        assert (None if result is None else result[0]) == found

    async def test_it_goes_on_with_what_the_tools_say_and_not_with_what_is_right(self) -> None:
        talk = Talk(playing(calculate), offering(*OPERATIONS), "2 * 3 + 4")
        assert await called(talk) == ("multiply", {"a": 2.0, "b": 3.0})
        talk.reply(100)
        assert await called(talk) == ("add", {"a": 100, "b": 4.0})
        talk.reply(7)
        assert (await talk.text()).startswith("2 * 3 + 4 = 7\n")

    async def test_a_tool_that_fails_is_quoted(self) -> None:
        talk = Talk(playing(calculate), offering(*OPERATIONS), "1 / 0")
        await talk.calls()
        talk.reply(RuntimeError("nothing can be divided by zero"))
        assert "There is no result: divide(1, 0): nothing can be divided by zero" in await talk.text()


async def test_the_analyzer_tells_what_was_not_run_and_why() -> None:
    talk = Talk(playing(analyze), offering(LIST, SHELL), "how large is it? and `make test`")
    await talk.calls()
    talk.reply(listing("/b c.py", "/a.py"))
    commands = [call.args_as_dict()["command"] for call in await talk.calls()]
    assert all(command.endswith("-- a.py 'b c.py'") for command in commands)
    talk.reply(ran(" 3 a.py\n 9 b c.py\n12 total\n"), ran("a.py:1\nb c.py:2\n"), ran(exit_code=1))
    assert await called(talk) == ("shell", {"command": "make test"})
    talk.reply(REJECTED + "too slow")
    text = await talk.text()
    assert text.startswith("2 Python files with 12 lines; the largest is b c.py with 9.")
    assert "| b c.py | 9 | 2 |" in text
    assert f"`make test` was not run: {REJECTED}too slow" in text


async def test_where_no_command_runs_the_analyzer_reads() -> None:
    talk = Talk(playing(analyze), offering(LIST, SHELL, READ), "how large is it?")
    await talk.calls()
    talk.reply(listing("/a.py", "/b.py"))
    await talk.calls()
    refusal = "only isolation keeps them from writing"
    talk.reply(*[RuntimeError(refusal)] * 3)
    assert [call.tool_name for call in await talk.calls()] == ["read_file", "read_file"]
    talk.reply(text_file("1\n2\n"), RuntimeError("'/b.py' is not UTF-8 text"))
    text = await talk.text()
    assert "| a.py | 2 | ? |" in text
    assert f"Open tasks could not be looked for: {refusal}" in text


async def test_the_organizer_counts_a_move_only_where_the_listing_shows_it() -> None:
    talk = Talk(playing(organize), offering(LIST, SHELL), "tidy /in")
    await talk.calls()
    talk.reply(listing("/in/a b.md", "/in/c.png", "/in/d", "/in/images/old.png"))
    assert await called(talk) == ("shell", {"command": "mkdir -p /in/documents /in/images /in/other"})
    talk.reply(ran())
    moves = [call.args_as_dict()["command"] for call in await talk.calls()]
    assert moves == ["mv -n '/in/a b.md' /in/documents/", "mv -n /in/c.png /in/images/", "mv -n /in/d /in/other/"]
    talk.reply(ran(), REJECTED + "leave it", ran())
    await talk.calls()
    talk.reply(listing("/in/documents/a b.md", "/in/c.png", "/in/d"))
    text = await talk.text()
    assert text.startswith("Moved 1 of 3 files.")
    assert f"/in/c.png stayed where it was: {REJECTED}leave it" in text
    assert "/in/d stayed where it was: something of that name is there already" in text


async def test_folders_that_cannot_be_made_move_nothing() -> None:
    talk = Talk(playing(organize), offering(LIST, SHELL), "tidy /in")
    await talk.calls()
    talk.reply(listing("/in/a.md"))
    await talk.calls()
    talk.reply(ran(exit_code=1, stderr="mkdir: File exists"))
    assert "nothing was moved: mkdir: File exists" in await talk.text()


class TestByHand:
    async def test_it_makes_the_calls_of_the_prompt_in_their_order(self) -> None:
        prompt = 'Please:\nread_file /a.md\nwrite_file {"path": "/b.md", "content": "x"}'
        talk = Talk(offline_model("by-hand"), offering(READ, WRITE), prompt)
        assert await called(talk) == ("read_file", {"path": "/a.md"})
        talk.reply("one")
        assert await called(talk) == ("write_file", {"path": "/b.md", "content": "x"})
        talk.reply(REJECTED + "no")
        assert (await talk.text()).startswith(f"read_file: one\nwrite_file: {REJECTED}no\n")

    async def test_without_a_call_it_names_the_tools(self) -> None:
        assert (
            "Tools: read_file, write_file." in await Talk(offline_model("by-hand"), offering(READ, WRITE), "go").text()
        )


class TestActing:
    async def test_a_tool_that_is_not_offered_ends_the_play(self) -> None:
        talk = Talk(playing(organize), offering(SHELL), "tidy /in")
        assert "needs a tool 'list_files', and there is none" in await talk.text()

    async def test_arguments_that_a_tool_does_not_take_are_left_out(self) -> None:
        def play(_: SeenRequest) -> PlaySteps:
            yield Say("Both.", [PlayCall("shell", {"command": "ls", "cwd": "/"}), PlayCall("shell", {"command": "wc"})])
            return "done"

        calls = await Talk(playing(play), offering(SHELL), "go").calls()
        assert [call.args_as_dict() for call in calls] == [{"command": "ls"}, {"command": "wc"}]
        assert len({call.tool_call_id for call in calls}) == 2
