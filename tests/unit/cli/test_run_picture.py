from __future__ import annotations

from rich.cells import cell_len
from rich.console import Console, RenderableType

from llm_do_temporal.cli.terminal.run_picture import render_run
from llm_do_temporal.client.views.run_view import Node, RunView
from llm_do_temporal.messages.conversation import LiveText
from tests.support.workflow.moments import START, after


def drawn(renderable: RenderableType, width: int = 100) -> list[str]:
    console = Console(width=width, color_system=None, highlight=False)
    with console.capture() as capture:
        console.print(renderable)
    return [line.rstrip() for line in capture.get().splitlines()]


def test_the_tree_shows_states_activity_turns_tokens_and_time(view: RunView) -> None:
    lines = drawn(render_run(view, after(75)))
    assert [line.split() for line in lines[:4]] == [
        ["●", "main", "boss", "turn", "2", "0", "tok", "1:15"],
        ["✓", "scout-1", "turn", "1", "1,234", "tok", "$0.0125", "0:05"],
        ["⏸", "scout-2", "approval:", "write", "/a.txt", "turn", "0", "0", "tok", "1:15"],
        ["●", "scout-3", "LLM", "turn", "turn", "0", "0", "tok", "1:15"],
    ]
    assert lines[1].startswith("  ✓")


def test_what_waits_for_a_person_says_for_how_long(view: RunView) -> None:
    view.nodes["c2"].asked_at = {"k": after(10)}
    assert "waits 1:05 for approval: write /a.txt" in drawn(render_run(view, after(75)))[2]


def test_progress_and_totals_stand_below(view: RunView) -> None:
    lines = drawn(render_run(view, after(75)))
    assert lines[-2].endswith("1/3 delegations")
    assert lines[-1] == "running · 3 turns · 1,200 tokens in, 34 out · $0.0125 + unpriced: test · 1:15"


def test_a_run_without_delegations_has_no_bar() -> None:
    view = RunView("r", nodes={"m": Node("m", path="main", worker="solo", started_at=START)}, started_at=START)
    assert len(drawn(render_run(view, after(3_700)))) == 2


def test_a_run_that_has_not_begun_can_be_drawn() -> None:
    assert drawn(render_run(RunView("r"), START))[-1] == "running · 0 turns · 0 tokens in, 0 out · 0:00"


def test_a_failure_is_shown_with_its_reason(view: RunView) -> None:
    node = view.nodes["c3"]
    node.status, node.error = "failed", "the model is gone"
    line = drawn(render_run(view, after(75)))[3]
    assert "✗ scout-3" in line
    assert "the model is gone" in line


def test_hostile_text_is_neither_markup_nor_obeyed(view: RunView) -> None:
    view.nodes["c2"].waiting = {"k": "[bold red]x[/] :smile: \x1b[2J \u202e"}
    view.nodes["c3"].doing = {1: "[link=http://x]y[/link]\nsecond line"}
    lines = drawn(render_run(view, after(75)), width=140)
    assert "[bold red]x[/] :smile: \\x1b[2J \\u202e" in lines[2]
    assert "[link=http://x]y[/link]\\nsecond line" in lines[3]


def test_a_high_tree_keeps_what_waits_and_runs_and_counts_the_rest(view: RunView) -> None:
    for number in range(4, 30):
        name = f"c{number}"
        view.nodes[name] = Node(name, path=f"main/scout-{number}", worker="scout", depth=1, status="completed")
        view.nodes["r"].children.append(name)
    lines = drawn(render_run(view, after(75), height=10))
    text = "\n".join(lines)
    assert len(lines) <= 10
    assert "⏸ scout-2" in text
    assert "● scout-3" in text
    assert "✓ scout-29" in text
    assert "… 24 more" in text


def test_a_narrow_terminal_cuts_lines_and_wraps_none(view: RunView) -> None:
    view.nodes["c3"].doing = {1: "word " * 60}
    lines = drawn(render_run(view, after(75)), width=60)
    assert len([line for line in lines if "scout" in line]) == 3
    assert all(len(line) <= 60 for line in lines)
    assert lines[3].endswith("…  turn 0      0 tok           1:15")


def test_a_run_that_no_service_goes_on_with_says_why(view: RunView) -> None:
    view.trouble = "attempt 3: this is encrypted with the key 'k'\x1b[2J, which this process does not have"
    lines = drawn(render_run(view, after(75), height=10))
    assert "attempt 3: this is encrypted with the key 'k'\\x1b" in lines[-2]
    assert len(lines) <= 10
    view.status = "completed"
    assert "attempt 3" not in "\n".join(drawn(render_run(view, after(75))))


def test_the_end_of_what_is_being_written_has_one_line_below_the_tree(view: RunView) -> None:
    tail = LiveText(text="so far\n[bold]x[/bold] \x1b[2J " + "漢字 " * 60 + "the end", chars=1_204)
    lines = drawn(render_run(view, after(75), tails={"c3": tail}))
    assert lines[4].startswith("main/scout-3 writes (1,204): ")
    assert lines[4].endswith("漢字 the end")
    assert cell_len(lines[4]) <= 100
    assert len(lines) == 7
    short = LiveText(text="so far\n[bold]x[/bold] \x1b[2J", chars=21, part="thinking")
    assert drawn(render_run(view, after(75), tails={"c3": short, "gone": short}))[4] == (
        "main/scout-3 thinks (21): so far [bold]x[/bold] \\x1b[2J"
    )
