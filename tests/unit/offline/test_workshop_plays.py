"""Models of a workshop, `offline:FILE.py:FUNCTION`: what a play may answer, and what becomes of one that goes wrong."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.models import ModelRequestParameters

from llm_do_temporal.activities.models import builder
from llm_do_temporal.definitions.check import check_workshop
from llm_do_temporal.errors import ModelFailed
from tests.support.providers.offline_answers import (
    LIST,
    PLAYS,
    TEXT,
    WRITE,
    Talk,
    offering,
    pdf,
    playing,
    tool,
    wanting,
)
from tests.support.workshops.drawn_decks import PIPELINE

DOCS = Path(__file__).parents[3] / "docs"
READ = tool("read_file", path=TEXT)
HEAD = "from pathlib import Path\nfrom llm_do_temporal.testing import SeenRequest, call, play\n\n\n"
MARKS = {"type": "object", "properties": {"mark": {"type": "integer", "minimum": 1}, "why": TEXT}, "required": ["mark"]}
Write = Callable[[str], None]


@pytest.fixture
def written(tmp_path: Path) -> Write:
    """Write `plays.py`, and a workshop whose model is its function `pitch`."""

    def write(text: str) -> None:
        (tmp_path / "workshop.yaml").write_text("model: offline:plays.py:pitch\n")
        (tmp_path / PLAYS).write_text(text)

    return write


def pitch(body: str) -> str:
    """A file with the play `pitch`."""
    return f"{HEAD}@play\ndef pitch(seen: SeenRequest):\n    {body}\n"


def asked(workshop: Path, prompt: str = "hi", parameters: ModelRequestParameters | None = None) -> Talk:
    return Talk(playing("pitch", workshop=workshop), parameters or offering(READ, WRITE), prompt)


def documented(page: str, name: str) -> str:
    """The Python of a page that begins with the name of its file."""
    blocks: list[str] = re.findall(r"^```python\n(.*?)^```", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)
    (found,) = [block for block in blocks if block.startswith(f"# {name}")]
    return found


async def test_a_text_a_mapping_and_calls_are_answers(tmp_path: Path, written: Write) -> None:
    written(pitch("return f'{seen.prompt}, {seen.input[\"a\"]}'"))
    assert await asked(tmp_path, 'See {"a": 3}').text() == 'See {"a": 3}, 3'
    written(pitch("return {'mark': 0, 'why': 'short'}"))
    (answer,) = await asked(tmp_path, parameters=wanting(MARKS)).calls()
    assert answer.args_as_dict() == {"mark": 1, "why": "short"}
    written(pitch("return 'No.' if seen.results('read_file') else call('read_file', path='/a.md', max=3)"))
    talk = asked(tmp_path)
    (reading,) = await talk.calls()
    assert (reading.tool_name, reading.args_as_dict()) == ("read_file", {"path": "/a.md"})
    talk.reply("text")
    assert await talk.text() == "No."


async def test_a_generator_is_sent_the_results_of_each_turn(tmp_path: Path, written: Write) -> None:
    written(
        pitch(
            "a, b = yield ['Both.', call('read_file', path='/a'), call('read_file', path='/b')]\n"
            "    (c,) = yield call('write_file', path='/c', content=a.data['content'])\n"
            "    return f'{b.ok} {b.text}, {c.rejection}'"
        )
    )
    talk = asked(tmp_path)
    assert len({call.tool_call_id for call in await talk.calls()}) == 2
    talk.reply('{"content": "one"}', ValueError("no file"))
    (writing,) = await talk.calls()
    assert writing.args_as_dict() == {"path": "/c", "content": "one"}
    talk.reply("Rejected by ada: no")
    assert await talk.text() == "False no file, Rejected by ada: no"


async def test_a_changed_file_or_module_counts_from_the_next_turn_on(tmp_path: Path, written: Write) -> None:
    (tmp_path / "words.py").write_text("WORD = 'one'\n")
    written(pitch("from words import WORD\n    return WORD"))
    talk = asked(tmp_path)
    assert await talk.text() == "one"
    (tmp_path / "words.py").write_text("WORD = 'another'\n")
    assert await talk.text() == "another"
    written(pitch("return 'last'"))
    assert await talk.text() == "last"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("raise ValueError('no such deck')", "plays.py:7: ValueError: no such deck"),
        ("raise SystemExit(3)", "plays.py:7: SystemExit: 3"),
        ("(one,) = yield call('read_file', path='/a')\n    raise OSError(one.text)", "plays.py:8: OSError: x"),
        ("return 7", "it answered a value of type int"),
        ("return None", "it answered nothing"),
        ("return []", "it answered a value of type list"),
        ("return [call('read_file'), 7]", "it answered a value of type list"),
        ("return call('read_file', path=Path('/a'))", "it answered what JSON cannot hold"),
        ("return {'mark': {1}}", "it answered what JSON cannot hold"),
        ("return call('read_file', path='\\ud800')", "it answered what JSON cannot hold: a text has half a character"),
        ("return {'mark': {'\\ud83d': 1}}", "it answered what JSON cannot hold: a text has half a character"),
        ("return {'text': '\\udc00'}", "it answered what JSON cannot hold: a text has half a character"),
        ("yield call('read_file', path=['\\ud800'])", "it answered what JSON cannot hold: a text has half a character"),
        ("yield 7", "it answered a value of type int"),
        ("yield from ()\n    return call('read_file', path='/a')", "it ended with a value of type Call"),
    ],
)
async def test_a_play_that_goes_wrong_fails_its_turn(tmp_path: Path, written: Write, body: str, said: str) -> None:
    written(pitch(body))
    talk = asked(tmp_path)
    if "(one,)" in body:
        await talk.calls()
        talk.reply("x")
    with pytest.raises(ModelFailed, match=r"the model 'offline:plays.py:pitch' failed: ") as failed:
        await talk.ask()
    assert said in str(failed.value)
    assert str(tmp_path) not in str(failed.value)


async def test_a_play_that_blocks_fails_its_turn(
    tmp_path: Path, written: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builder, "PLAY_SECONDS", 0.05)
    monkeypatch.setattr(threading, "go_on", threading.Event(), raising=False)
    written(pitch("import threading\n    threading.go_on.wait()"))
    try:
        with pytest.raises(ModelFailed, match=r"'offline:plays.py:pitch' did not answer within 0.05 seconds"):
            await asked(tmp_path).ask()
    finally:
        threading.go_on.set()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        (None, "workshop.yaml:1", "there is no file 'plays.py' in the workshop's folder"),
        (f"{HEAD}def other(seen):\n    return ''\n", "workshop.yaml:1", "'plays.py' has no function 'pitch'"),
        (f"{HEAD}pitch = 3\n", "workshop.yaml:1", "'plays.py' has no function 'pitch'"),
        (f"{HEAD}def pitch(seen):\n    return ''\n", "plays.py:5", "'pitch' is not marked as a model"),
        (f"{HEAD}@play\nasync def pitch(seen):\n    return ''\n", "plays.py:6", "'pitch' is `async`"),
        (f"{HEAD}@play\ndef pitch(seen)\n", "plays.py:6", "SyntaxError: expected ':'"),
        (f"{pitch('return 1')}\n\nraise ValueError('x')\n", "plays.py:10", "ValueError: x"),
        ("play = repr\n\n\n@play\ndef pitch(seen):\n    return ''\n", "plays.py:5", "'pitch' is not marked"),
        ("def play(it):\n    return it\n\n\n@play\ndef pitch(seen):\n    return ''\n", "plays.py:6", "not marked"),
    ],
)
async def test_a_play_that_cannot_be_used_is_named_by_check_and_by_a_turn(
    tmp_path: Path, written: Write, text: str | None, place: str, said: str
) -> None:
    written(text or "")
    if text is None:
        (tmp_path / PLAYS).unlink()
    (problem,) = check_workshop(tmp_path)
    assert str(problem).startswith(f"{place}: ")
    assert said in problem.message
    with pytest.raises(ModelFailed, match=r"the model 'offline:plays.py:pitch' failed: ") as failed:
        await asked(tmp_path).ask()
    assert said in str(failed.value)


async def test_no_file_is_run_for_a_name_that_is_not_marked(tmp_path: Path) -> None:
    (tmp_path / "setup.py").write_text("raise SystemExit('it ran')\n\n\ndef install(seen):\n    raise SystemExit\n")
    with pytest.raises(ModelFailed, match="'install' is not marked as a model"):
        await Talk(playing("install", "setup.py", tmp_path), offering(), "hi").ask()


@pytest.mark.parametrize(
    ("head", "mark"),
    [
        ("def play(it):\n    return it", "play"),
        ("from functools import cache as play", "play"),
        ("from llm_do_temporal.testing import play\nplay = repr", "play"),
        ("from llm_do_temporal.testing import play\nclass play: ...", "play"),
        ("import types\ntesting = types.SimpleNamespace(play=repr)", "testing.play"),
        ("from llm_do_temporal import testing as ours", "testing.play"),
    ],
)
async def test_no_file_is_run_whose_mark_is_not_ours(tmp_path: Path, head: str, mark: str) -> None:
    (tmp_path / PLAYS).write_text(f"{head}\nraise SystemExit('it ran')\n\n\n@{mark}\ndef pitch(seen):\n    return ''\n")
    with pytest.raises(ModelFailed, match="'pitch' is not marked as a model"):
        await asked(tmp_path).ask()


@pytest.mark.parametrize(
    ("head", "mark"),
    [
        ("from llm_do_temporal.testing import *", "play"),
        ("from llm_do_temporal.testing import play as model", "model"),
        ("from llm_do_temporal import testing", "testing.play"),
        ("import llm_do_temporal.testing as t", "t.play"),
        ("import llm_do_temporal.testing", "llm_do_temporal.testing.play"),
        ("try:\n    from llm_do_temporal.testing import play\nexcept ImportError:\n    raise", "play"),
    ],
)
async def test_the_mark_may_be_imported_in_any_way(tmp_path: Path, head: str, mark: str) -> None:
    (tmp_path / PLAYS).write_text(f"{head}\n\n\n@{mark}\ndef pitch(seen):\n    return 'yes'\n")
    assert await asked(tmp_path).text() == "yes"


@pytest.mark.parametrize("file", ["../plays.py", "/etc/plays.py", "link.py", "files/plays.py", "pkg:tools.py"])
async def test_a_play_is_a_file_of_the_workshop_that_no_worker_can_write(tmp_path: Path, file: str) -> None:
    shop = tmp_path / "shop"
    (shop / "files").mkdir(parents=True)
    (shop / "workshop.yaml").write_text(f"model: 'offline:{file}:pitch'\nsandbox: {{root: files}}\n")
    for place in (tmp_path, shop / "files"):
        (place / PLAYS).write_text(pitch("return 'no'"))
    (shop / "link.py").symlink_to(tmp_path / PLAYS)
    with pytest.raises(ModelFailed, match=f"the model 'offline:{file}:pitch' failed: "):
        await Talk(playing("pitch", file, shop), offering(), "hi").ask()
    (problem,) = check_workshop(shop)
    assert f"the model 'offline:{file}:pitch' cannot be used: " in problem.message


def test_check_runs_no_play_unless_it_is_asked_to(tmp_path: Path, written: Write) -> None:
    written(f"{pitch('return 1')}\n\nraise ValueError('x')\n")
    assert check_workshop(tmp_path, run_python=False) == []


def test_check_finds_the_plays_of_aliases_and_workers(tmp_path: Path, written: Write) -> None:
    written(pitch("return ''"))
    (tmp_path / "workshop.yaml").write_text("models:\n  own: offline:plays.py:alias\n")
    (tmp_path / "workers").mkdir()
    (tmp_path / "workers/a.worker").write_text("---\nmodel: offline:echo, offline:plays.py:worker\n---\nGo.\n")
    assert [(one.file, one.line) for one in check_workshop(tmp_path)] == [("workers/a.worker", 2), ("workshop.yaml", 2)]


async def test_the_play_of_the_how_to_keeps_notes(tmp_path: Path, written: Write) -> None:
    written(documented("how-to/test-workers.md", PLAYS))
    talk = Talk(playing("shopper", workshop=tmp_path), offering(READ, WRITE), "buy bread")
    await talk.calls()
    talk.reply('{"content": "- buy milk\\n"}')
    (writing,) = await talk.calls()
    assert writing.args_as_dict()["content"] == "- buy milk\n- buy bread\n"
    talk.reply("Rejected by ada: not today")
    assert await talk.text() == "Not saved: Rejected by ada: not today"


async def test_the_play_of_the_quickstart_reads_decks_and_has_them_read(tmp_path: Path, written: Write) -> None:
    written(documented("quickstart.md", PLAYS))
    deck = pdf((PIPELINE / "kelpworks.pdf").read_bytes())
    verdict: dict[str, Any] = {"verdict": {"enum": ["go", "watch", "pass"]}, "summary": TEXT}
    schema = {"type": "object", "properties": verdict, "required": ["summary", "verdict"]}
    reader = Talk(playing("pitch", workshop=tmp_path), wanting(schema), "evaluate this deck", deck)
    (answer,) = await reader.calls()
    assert answer.args_as_dict()["summary"].startswith("8 pages")
    paths = {"type": "array", "items": TEXT}
    clerk = asked(tmp_path, parameters=offering(LIST, WRITE, tool("deck_reader", input=TEXT, attachments=paths)))
    await clerk.calls()
    clerk.reply('{"files": [{"path": "/pipeline/kelpworks.pdf"}]}')
    (call,) = await clerk.calls()
    assert (call.tool_name, call.args_as_dict()["attachments"]) == ("deck_reader", ["/pipeline/kelpworks.pdf"])
    clerk.reply(answer.args_as_json_str())
    (writing,) = await clerk.calls()
    assert writing.args_as_dict()["path"] == "/evaluations/kelpworks.md"
    clerk.reply("{}")
    assert await clerk.text() == "Read 1 decks, wrote 1 pages."
