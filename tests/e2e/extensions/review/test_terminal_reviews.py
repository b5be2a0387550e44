"""A person who reviews the changes of a run at a terminal: overview, a patch, parts by their ids, and the walk."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from tests.support.people.desk import Desk
from tests.support.people.tmux import at_terminal

COUNTER = "files/pottery/counter.py"


def remark_on(hunk: dict[str, Any]) -> str:
    """Return the remark that asks for another text in the line that a hunk changes, by its number."""
    (number,) = [at for at, line in enumerate(hunk["lines"]) if line.startswith("-")]
    wanted = hunk["lines"][number][1:].strip().replace("get_price", "price")
    return f"{COUNTER}:{hunk['new_start'] + number + 1}:customers type a short word: `{wanted}`"


def files_of_patch(desk: Desk, *options: str) -> list[str]:
    """Return the files that git changes with the run's patch, after it has found that it can."""
    patch = desk.type("export", "renamed", "--patch").stdout
    git = ["git", "apply", "--check", "--numstat", *options, "-"]
    listed = subprocess.run(git, cwd=desk.workshop, input=patch, capture_output=True, text=True, check=True)
    return [line.split("\t")[2] for line in listed.stdout.splitlines()]


@pytest.mark.thorough
@pytest.mark.extension("export")
def test_thirty_files_are_reviewed_at_the_terminal(shop: Desk) -> None:
    """Two hunks are rejected with remarks by options; the second review has these alone, and a person walks it."""
    shop.type("start", "api_renamer", "rename get_price to price_of", "--id", "renamed", code=3)
    assert len(files_of_patch(shop)) == 30

    (review,) = json.loads(shop.type("review", "renamed", COUNTER, "--json").stdout)
    hunks = [one for one in review["changes"][0]["hunks"] if any('"get_price' in line for line in one["lines"])]
    assert len(hunks) == 2
    options = [word for one in hunks for word in ("--reject", f"{COUNTER}:{one['id']}", "--comment", remark_on(one))]
    answered = shop.type("review", "renamed", "--digest", review["digest"], "--all", *options).stderr
    assert "accepts 29 of 30 changes, 1 in part" in answered
    assert "2 remarks" in answered

    shop.type("watch", "renamed", code=3)
    assert "price_of" in (shop.workshop / "files/pottery/prices.py").read_text()
    with at_terminal(shop) as terminal:
        terminal.command("review", "renamed")
        terminal.see("review 2 of run renamed", "1 change: 1 modified", "check passed", "[w]alk through", "a2> ")
        terminal.type("w")
        terminal.see("(1 of 1, part 1 of 2) accept?")
        terminal.type("y")
        terminal.see("(1 of 1, part 2 of 2) accept?")
        terminal.type("y")
        terminal.see("this answer accepts 1 of 1 changes", "answer> ")
        terminal.type("s")
        terminal.see("a2 changed", "exit 0")
    shop.type("result", "renamed")
    assert '"price ARTICLE"' in (shop.workshop / COUNTER).read_text()
    assert files_of_patch(shop, "--reverse") == [COUNTER]
