"""A person at a terminal: the live screen of a run, answers in place, a kill, and the inbox."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.support.patience import PATIENCE_SECONDS, eventually
from tests.support.people.desk import Desk, use_provider
from tests.support.people.tmux import Terminal, at_terminal, write_editor
from tests.support.providers.held_job import HeldJob
from tests.support.providers.provider import FakeProvider


def kill_services(desk: Desk) -> None:
    """SIGKILL the host, its server and its worker service, all at once."""
    host = psutil.Process(desk.host.pid)
    doomed = [host, *host.children(recursive=True)]
    assert len(doomed) >= 3, "a host, a server and a worker service were running"
    for process in doomed:
        with suppress(psutil.NoSuchProcess):
            process.kill()


def test_a_session(desk: Desk) -> None:
    """Start, live tree, an answer in place, detach, watch, kill -9 of everything, watch, result."""
    script, decks = HeldJob("evaluators"), len(desk.decks)
    job = ("pitch_orchestrator", "evaluate every deck", "--model", "openai-chat:gpt-test", "--id", "job")
    with FakeProvider(script) as provider:
        use_provider(desk, provider)
        with at_terminal(desk) as terminal:
            terminal.command("start", *job)
            terminal.see("● main pitch_orchestrator", f"● pitch_evaluator-{decks}", f"0/{decks} delegations")
            terminal.press("z", "q", "Enter", "q", "z")
            script.gate.open()
            terminal.see("[a]pprove", "a1> ")
            assert desk.evaluations() == {}
            terminal.type("a")
            terminal.see("a1 approved", "a2> ")
            terminal.type("d")
            screen = terminal.see("run job goes on; llm-do-temporal watch job", "exit 0")
            assert not {"zq", "qz"} & {line.strip("$ ") for line in screen.splitlines()}

            terminal.command("watch", "job")
            terminal.see("a2> ")
            desk.type("approve", "job", "a2")
            terminal.see("a2 needs no answer any more", "a3> ")
            kill_services(desk)
            terminal.see("the run goes on, connecting again …", "connected again")
            eventually(lambda: terminal.screen.count("a3> ") >= 2, "the question is asked again")
            terminal.press("C-c")
            terminal.see("exit 0")

            terminal.command("watch", "job")
            for number in range(3, decks + 1):
                terminal.see(f"a{number}> ")
                terminal.type("a")
            screen = terminal.see("exit 0")
        assert "✓ main pitch_orchestrator" in screen
        assert f"{decks}/{decks} delegations" in screen
        assert sorted(desk.evaluations()) == desk.decks
        assert desk.type("result", "job").stdout.strip() in screen


@pytest.mark.thorough
def test_a_call_is_changed_in_an_editor_by_a_command(shop: Desk, tmp_path: Path) -> None:
    """Saved unchanged nothing is decided; a mistake is told, and what was typed is offered again."""
    shop.type("start", "approvals_demo", "sell the boat", "--id", "four", "--detach")
    shop.pending("four", 1)
    with at_terminal(shop) as terminal:
        terminal.command("modify", "four", "a1", EDITOR="true")
        terminal.see("nothing was changed, so nothing is decided", "nothing is decided: a1 still waits", "exit 0")
        wrong = write_editor(tmp_path / "wrong.py", "content: |", "content: [")
        terminal.command("modify", "four", "a1", VISUAL=wrong)
        terminal.see("not valid YAML", "edit again? [Y/n]")
        terminal.type("n")
        terminal.see("a1 still waits", "exit 0")
        editor = write_editor(tmp_path / "editor.py", "sell the boat", "keep the boat")
        terminal.command("modify", "four", "a1", EDITOR=editor)
        terminal.see("+- keep the boat", "approve with this change? [y/N]")
        terminal.type("y")
        terminal.see("changed and approved: a1 of main", "exit 0")
    shop.type("result", "four")
    assert "keep the boat" in (shop.workshop / "files/notes.md").read_text()
    assert "--args" in shop.type("modify", "four", "a1", code=2).stderr


def converse(terminal: Terminal, *lines: tuple[str, ...]) -> None:
    """Type each line, and wait for all the texts behind it."""
    for typed, *answers in lines:
        terminal.type(typed)
        terminal.see(*answers)


@pytest.mark.thorough
def test_the_inbox(desk: Desk, tmp_path: Path) -> None:
    """What waits in all runs, answered in all the ways there are."""
    for run in ("one", "two", "three"):
        desk.type("start", "approvals_demo", "sell the boat", "--id", run, "--detach")
        desk.pending(run, 1)
    editor = write_editor(tmp_path / "editor.py", "sell the boat", "keep the boat")
    with at_terminal(desk) as terminal:
        terminal.command("approvals", "watch", EDITOR=editor, PAGER="sed s/^/paged:/")
        terminal.see("one a1", "two a1", "three a1", "Enter or a number: open")

        terminal.press("2")
        terminal.see("main · run two", "a1> ")
        converse(terminal, ("m", "+- keep the boat", "approve with this change? [y/N]"), ("y", "a1 changed"))
        desk.type("result", "two")
        assert "keep the boat" in (desk.workshop / "files/notes.md").read_text()

        terminal.see("main · run three")
        eventually(lambda: terminal.screen.count("a1> ") == 2, "the next question follows")
        terminal.type("?")
        terminal.see("reject, with a reason that the model is told")
        terminal.type("b")
        terminal.see("one a1", "g: group")
        terminal.press("?")
        terminal.see("open the question; after your answer the next one follows")
        terminal.press("k", "Enter")
        terminal.see("main · run one")
        eventually(lambda: terminal.screen.count("a1> ") == 4, "its question is asked")
        converse(
            terminal,
            ("v", "paged:sandbox.write needs approval"),
            ("r", "reason, which the model is told"),
            ("put it into /private.md", "a1 rejected"),
        )
        eventually(lambda: terminal.screen.count("main · run three") == 2, "the next question follows")
        terminal.type("b")

        terminal.see("one a2")
        terminal.press("j", "Enter")
        terminal.see("a2> ")
        converse(terminal, ("n", "note (empty: back)"), ("as agreed", "a2 approved"))
        assert "sell the boat" in desk.type("result", "one").stdout

        eventually(lambda: terminal.screen.count("main · run three") == 3, "the next question follows")
        converse(
            terminal,
            ("x", "stop the whole run three? [y/N]"),
            ("y", "asked run three to stop", "nothing waits for approval"),
        )
        terminal.press("q")
        terminal.see("exit 0")
    assert "as agreed" in desk.type("show", "one").stdout
    desk.type("result", "three", code=5)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("door", "who"),
    [
        pytest.param(words, who, id=name, marks=pytest.mark.extension(name))
        for name, words, who in (
            ("lsp", "lsp", "an editor"),
            ("mcp", "mcp", "an agent"),
            ("acp", "acp pitch_orchestrator", "an editor"),
        )
    ],
)
def test_a_door_for_pipes_says_so_at_a_terminal_and_ends_on_ctrl_c(
    desk: Desk, address: str, door: str, who: str
) -> None:
    desk.environment |= {"TEMPORAL_ADDRESS": address, "LLM_DO_WORKSHOP": str(desk.workshop)}
    with at_terminal(desk) as terminal:
        terminal.type(f"{sys.executable} -m llm_do_temporal.cli {door}; echo exit $?")
        terminal.see(f"{who} starts this; it speaks JSON on stdin; Ctrl-C ends it")
        terminal.press("C-c")
        terminal.see("exit 130")


@pytest.mark.extension("acp")
def test_the_agent_of_an_editor_says_that_a_file_is_no_pipe(desk: Desk, tmp_path: Path) -> None:
    command = desk.command("acp", "pitch_orchestrator")
    for end in ("stdin", "stdout"):
        with (tmp_path / "file").open("w+") as file:
            stdin, stdout = (file if end == one else subprocess.PIPE for one in ("stdin", "stdout"))
            done = subprocess.Popen(
                command, env=desk.environment, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE, text=True
            )
            _, said = done.communicate(timeout=PATIENCE_SECONDS)
        assert done.returncode == 2
        assert said.startswith(f"llm-do-temporal: acp speaks to an editor over pipes, and its {end} is none")
        assert "Traceback" not in said
