"""A command that names no approval takes only what this terminal showed last."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from llm_do_temporal.cli.commands import approvals as deciding
from llm_do_temporal.cli.options import Location
from llm_do_temporal.cli.terminal import last_shown
from llm_do_temporal.cli.terminal.last_shown import ShownQuestion, note_shown
from llm_do_temporal.errors import UsageError
from llm_do_temporal.policy.identity import IDENTITY_VERSION
from tests.support.workflow.desk_questions import write


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(last_shown, "is_seen", bool)
    _begun_here(monkeypatch)
    return tmp_path / "state"


def waiting(count: int = 1) -> list[Any]:
    requests = [write(identity_version=IDENTITY_VERSION, key=str(number)) for number in range(1, count + 1)]
    return [SimpleNamespace(id=f"a{number}", request=one) for number, one in enumerate(requests, 1)]


async def meant(pending: list[Any], approval: str | None = None, digest: str | None = None) -> ShownQuestion:
    async def approvals(run: str) -> list[Any]:
        return pending

    client: Any = SimpleNamespace(approvals=approvals)
    return await deciding._meant(client, Location(), "r1", approval, digest)  # pyright: ignore[reportPrivateUsage]


def shown(*pending: Any, run: str = "r1") -> None:
    note_shown(run, [ShownQuestion(one.id, one.request.digest) for one in pending])


def kept(state: Path) -> Path:
    (file,) = (state / "llm-do-temporal/shown").iterdir()
    return file


async def refuse(pending: list[Any], *given: Any) -> str:
    with pytest.raises(UsageError) as refused:
        await meant(pending, *given)
    assert refused.value.exit_code == 2
    return str(refused.value)


@pytest.mark.parametrize("count", [0, 1, 2, 3])
async def test_what_was_never_shown_here_has_to_be_named(count: int) -> None:
    told = await refuse(waiting(count))
    assert "say which approval" in told
    assert "has shown none" in told
    assert all(one.id in told for one in waiting(count))


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("left", [0, 1, 2])
async def test_of_several_that_were_shown_one_has_to_be_named(count: int, left: int) -> None:
    shown(*waiting(count))
    assert "has shown several" in await refuse(waiting(count)[:left])


@pytest.mark.parametrize("run", ["r2", "r1 ", "R1", "r1/main", "", "r1\n", "../r1", "r1\0"])
async def test_what_was_shown_of_another_run_is_not_meant(run: str) -> None:
    shown(*waiting(), run=run)
    await refuse(waiting())


async def test_what_another_terminal_showed_is_not_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as other:
        _has_session(other, os.getpid() + 1)
        shown(*waiting())
    await refuse(waiting())


async def test_a_session_from_outside_of_the_namespace_showed_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its number is 0 for everybody in there."""
    _has_session(monkeypatch, 0)
    shown(*waiting())
    await refuse(waiting())


async def test_a_terminal_with_the_number_of_one_that_has_gone_showed_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    shown(*waiting())
    read = Path.read_text

    def later(path: Path, **more: Any) -> str:
        text = read(path, **more)
        return text if path.name != "stat" else text.replace(text.rpartition(")")[2].split()[19], "1")

    monkeypatch.setattr(Path, "read_text", later)
    await refuse(waiting())


async def test_what_was_shown_last_is_meant_and_not_what_is_asked_since() -> None:
    first, second = waiting(2)
    shown(first)
    found = await meant([second])
    assert found == ("a1", first.request.digest)


async def test_an_id_stands_for_what_was_shown_under_it() -> None:
    """A run that was deleted and started again has other questions with the same ids."""
    (old,) = waiting()
    shown(old)
    assert await meant([], "a1") == ("a1", old.request.digest)


SPOILED: dict[str, Callable[[Path], object]] = {
    "empty": lambda file: file.write_text(""),
    "no JSON": lambda file: file.write_text("a1"),
    "an object": lambda file: file.write_text('{"a1": "x"}'),
    "a number": lambda file: file.write_text("1"),
    "null": lambda file: file.write_text("null"),
    "a pair too short": lambda file: file.write_text('[["a1"]]'),
    "a pair too long": lambda file: file.write_text('[["a1", "x", "y"]]'),
    "numbers for texts": lambda file: file.write_text("[[1, 2]]"),
    "one pair that is none": lambda file: file.write_text('[["a1", ""], "a2"]'),
    "deeply nested": lambda file: file.write_text("[" * 100_000),
    "no text": lambda file: file.write_bytes(b"\xff\xfe\0"),
    "a folder": lambda file: (file.unlink(), file.mkdir()),
    "gone": lambda file: file.unlink(),
    "a link": lambda file: (file.rename(file.with_name("x")), file.symlink_to("x")),
}


@pytest.mark.parametrize("spoiled", SPOILED)
async def test_a_spoiled_note_shows_nothing(state: Path, spoiled: str) -> None:
    shown(*waiting())
    SPOILED[spoiled](kept(state))
    await refuse(waiting())


async def test_a_note_of_somebody_else_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    shown(*waiting())
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    await refuse(waiting())


@pytest.mark.parametrize(
    "digest", ["", "a", "0" * 64, "*", ".*", " ", "nothing", "\u200b", "sha256:"], ids=lambda digest: ascii(digest)
)
@pytest.mark.parametrize("approval", [None, "a1"])
async def test_a_digest_that_names_nothing_takes_nothing(digest: str, approval: str | None) -> None:
    shown(*waiting())
    told = "no pending approvals" if len(digest) >= 32 else "--digest needs at least 32 digits"
    assert told in await refuse(waiting(), approval, digest)


@pytest.mark.parametrize("digits", range(1, 32))
async def test_a_few_digits_are_no_digest(digits: int) -> None:
    (one,) = waiting()
    assert "needs at least 32 digits" in await refuse([one], None, one.request.digest[:digits])


async def test_the_digest_of_another_question_is_not_that_of_the_one_that_is_named() -> None:
    one, other = waiting(2)
    await refuse([one, other], "a1", other.request.digest)


@pytest.mark.parametrize("there", ["folder", "linked"])
async def test_notes_are_for_their_owner_alone(state: Path, tmp_path: Path, there: str) -> None:
    if there == "linked":
        (tmp_path / "precious").write_text("precious")
        shown(*waiting())
        name = kept(state).name
        kept(state).unlink()
        (state / "llm-do-temporal/shown" / name).symlink_to(tmp_path / "precious")
        shown(*waiting())
        assert (tmp_path / "precious").read_text() == "precious"
    shown(*waiting())
    assert stat.S_IMODE(kept(state).stat().st_mode) == 0o600
    assert stat.S_IMODE(kept(state).parent.stat().st_mode) == 0o700


@pytest.mark.control
async def test_the_one_that_was_shown_last_is_taken() -> None:
    (one,) = waiting()
    shown(one)
    assert await meant([one]) == ("a1", one.request.digest)
    assert await meant(waiting(2), None, one.request.digest[:32]) == ("a1", one.request.digest)
    assert await meant([], "a9") == ("a9", "")


@pytest.mark.control
async def test_without_a_place_for_notes_a_question_has_to_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/none")
    shown(*waiting())
    assert last_shown.last_shown("r1") == []


@pytest.mark.parametrize("where", ["nowhere", "a pipe", "a file", "the background", "a closed stream"])
async def test_what_nobody_sees_was_not_shown(where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    main, terminal = os.openpty()
    read, write_end = os.pipe()
    file = {
        "nowhere": lambda: os.open(os.devnull, os.O_WRONLY),
        "a pipe": lambda: os.dup(write_end),
        "a file": lambda: os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT, 0o600),
    }.get(where, lambda: os.dup(terminal))()
    _has_in_front(monkeypatch, os.getpgrp() + (where == "the background"))
    with os.fdopen(file, "w") as stream:
        if where == "a closed stream":
            stream.close()
        note_shown("r1", [ShownQuestion("a1", "")], on=stream)
    await refuse(waiting())
    for one in (main, terminal, read, write_end):
        os.close(one)


@pytest.mark.control
def test_what_a_terminal_in_the_foreground_shows_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    _begun_here(monkeypatch)
    main, terminal = os.openpty()
    _has_in_front(monkeypatch, os.getpgrp())
    with os.fdopen(terminal, "w") as stream:
        note_shown("r1", [ShownQuestion("a1", "")], on=stream)
    assert last_shown.last_shown("r1") == [ShownQuestion("a1", "")]
    os.close(main)


def _has_in_front(monkeypatch: pytest.MonkeyPatch, group: int) -> None:
    def front(_descriptor: int) -> int:
        return group

    monkeypatch.setattr(os, "tcgetpgrp", front)


def _begun_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests may run in a session from outside of their namespace: then no terminal can be told from another."""
    _has_session(monkeypatch, os.getpid())


def _has_session(monkeypatch: pytest.MonkeyPatch, leader: int) -> None:
    def session(_process: int) -> int:
        return leader

    monkeypatch.setattr(os, "getsid", session)
