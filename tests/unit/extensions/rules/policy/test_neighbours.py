"""Calls just beside those that a rule lets pass: each trick is made, and the real gate says what becomes of it."""

from __future__ import annotations

from typing import Any

import pytest

from llm_do_temporal.extensions.rules.policy.verdicts import (
    Neighbour,
    arguments_beside,
    commands_beside,
    names_beside,
    neighbours_of,
    paths_beside,
)
from llm_do_temporal.policy.approvals import ApprovalRules
from llm_do_temporal.policy.files.attachments import Attachment
from llm_do_temporal.policy.kinds.kind import AllowEntry, AskedCall
from llm_do_temporal.policy.shell import ShellPolicy
from llm_do_temporal.policy.values import CapabilityUse
from tests.support.extensions.rules.past_calls import COMMANDS, TREE, asked_to_run, asked_to_write


def beside(
    entry: dict[str, Any], call: AskedCall, shell: ShellPolicy | None = COMMANDS, **more: Any
) -> dict[str, Neighbour]:
    """The neighbours of a call under a policy with just this entry, by their difference."""
    kind = AllowEntry.model_validate(entry)
    assert kind.covers(call)
    rules = ApprovalRules.model_validate({"allow": [entry], **more})
    return {one.trick: one for one in neighbours_of(kind.kind, call, rules, shell)}


def verdicts(found: dict[str, Neighbour]) -> dict[str, str]:
    return {trick: one.outcome.verdict.value for trick, one in found.items()}


NOTES = {"tool": "write_file", "below": "/notes", "suffix": ".md"}
LOG = {"command": "git log {path}"}


@pytest.mark.parametrize("path", ["/notes/a.md", "notes/a.md", "/notes//deep/a.md", "/notes/ä b.md"])
def test_of_the_files_beside_a_folder_only_those_in_it_with_its_suffix_pass(path: str) -> None:
    found = verdicts(beside(NOTES, asked_to_write(path).call))
    passing = {trick for trick, verdict in found.items() if verdict == "passes"}
    # The same file in another spelling, and other files of the kind.
    allowed = {"another file", "a folder further below", "slashes and dots that say nothing", "a relative path"}
    allowed.add("the same call of another worker")
    assert passing == allowed
    assert found["a step up with '..'"] == "refused"
    assert found["up and down again"] == "refused"
    assert found["an empty path"] in ("asks", "refused")
    for trick in (
        "another suffix",
        "a further suffix",
        "no suffix",
        "the suffix in capitals",
        "a sibling folder with the same beginning",
        "the folder above",
        "another case",
        "letters that look the same",
        "an invisible character",
        "a path of the machine",
        "a space at the end",
        "a link that leads elsewhere",
    ):
        assert found[trick] == "asks", trick
    assert found["a folder of a tool"] == "blocked"
    assert found["the file of a worker"] in ("asks", "blocked")


def test_without_a_suffix_more_of_the_folder_passes_and_that_is_said() -> None:
    found = verdicts(beside({"tool": "write_file", "below": "/notes"}, asked_to_write("/notes/a.md").call))
    assert found["another suffix"] == found["a further suffix"] == "passes"
    assert found["a link that leads elsewhere"] == "asks"


def test_one_file_has_no_neighbour_that_passes_but_itself() -> None:
    found = verdicts(beside({"tool": "write_file", "path": "/a.md"}, asked_to_write("/a.md").call))
    spellings = {"slashes and dots that say nothing", "a relative path", "the same call of another worker"}
    assert {trick for trick, verdict in found.items() if verdict == "passes"} == spellings


@pytest.mark.parametrize(
    ("line", "entry"),
    [("git log a.md", LOG), ("git log src/b.py", LOG), ("git log ./docs/c-d.md", LOG)],
)
def test_of_the_commands_beside_a_pattern_only_other_paths_pass(line: str, entry: dict[str, Any]) -> None:
    found = verdicts(beside(entry, asked_to_run(line).call))
    passing = {trick for trick, verdict in found.items() if verdict == "passes"}
    fitting = {
        "another word",
        "a word in another folder",
        "another suffix",
        "another case",
        "letters that look the same",
    }
    assert passing <= {f"{trick} in the open place" for trick in fitting} | {"the same call of another worker"}
    assert "another word in the open place" in passing
    for trick in ("a second command after ';'", "a second command after '&&'", "a pipe", "a redirection"):
        assert found[trick] == "refused", trick
    for trick in (
        "one more option",
        "an option with a path",
        "an extra word",
        "an empty word",
        "a word less",
        "an option in the open place",
        "a long option in the open place",
        "an assignment in the open place",
        "a host in the open place",
        "a step up with '..' in the open place",
        "an absolute path in the open place",
        "an empty word in the open place",
        "a link that leads elsewhere",
    ):
        assert found[trick] in ("asks", "blocked", "refused"), trick


def test_a_command_of_fixed_words_passes_in_no_other_form() -> None:
    entry = {"command": "make test", "callers": ["clerk"]}
    found = verdicts(beside(entry, asked_to_run("make test").call))
    assert "passes" not in found.values()
    assert "another case of the program" in found


def test_without_the_workers_own_rules_nobody_can_tell_about_commands() -> None:
    found = beside(LOG, asked_to_run("git log a.md").call, None)
    assert verdicts(found).pop("the same call of another worker") == "passes"
    assert {one.outcome.verdict.value for one in found.values() if one.outcome.verdict != "passes"} == {"unknown"}
    assert "not in the history" in found["a pipe"].outcome.reason


def delegation(*paths: str, tool: str = "deck_reader", **args: Any) -> AskedCall:
    given = {"worker": "deck_reader", "input": "go", "attachments": list(paths)}
    files = tuple(
        Attachment(path=path, sha256="0" * 64, bytes=1, media_type="text/plain", place=f"files{path}") for path in paths
    )
    use = CapabilityUse(name="worker.call", payload=given)
    return AskedCall(tool=tool, args={"input": "go", **args}, uses=(use,), tree=TREE, attachments=files)


@pytest.mark.parametrize(
    "call",
    [delegation("/decks/a.pdf"), delegation("/decks/a.pdf", tool="worker_call", worker_name="deck_reader")],
    ids=["tool of its own", "worker_call"],
)
def test_no_other_worker_passes_and_no_file_from_elsewhere(call: AskedCall) -> None:
    found = verdicts(beside({"worker": "deck_reader", "attachments": "/decks"}, call))
    for trick in ("another worker", "a longer name", "a shorter name", "another case", "letters that look the same"):
        assert found[trick] == "asks", trick
    for trick in ("the folder above", "a sibling folder with the same beginning", "a link that leads elsewhere"):
        assert found[f"an attachment: {trick}"] == "asks", trick
    assert found["an attachment: a step up with '..'"] == "refused"
    assert found["an attachment: another file"] == "passes"


def test_a_worker_that_is_given_no_files_is_given_none() -> None:
    found = verdicts(beside({"worker": "deck_reader"}, delegation()))
    assert {trick for trick, verdict in found.items() if verdict == "passes"} == {"the same call of another worker"}


def test_other_arguments_or_other_code_of_a_python_tool_do_not_pass() -> None:
    code = {"tool": "publish", "sha256": "a" * 64}
    call = AskedCall(
        tool="publish", args={"to": "news", "n": 1}, uses=(CapabilityUse(name="python.call", payload=code),)
    )
    entry = {"tool": "publish", "args": {"to": "news", "n": 1}, "sha256": "a" * 64}
    found = verdicts(beside(entry, call))
    assert found.pop("the same call of another worker") == "passes"
    assert set(found.values()) == {"asks"}
    assert {"another case in 'to'", "one more in 'n'", "without 'n'", "an argument more", "other code of the tool"} <= {
        *found
    }


def test_an_entry_for_the_files_in_one_folder_passes_none_further_below_and_none_of_another_worker() -> None:
    entry = {"tool": "write_file", "folder": "/notes", "suffix": ".md", "callers": ["clerk"]}
    found = verdicts(beside(entry, asked_to_write("/notes/a.md").call))
    assert found["a folder further below"] == found["the same call of another worker"] == "asks"
    command = {"command": "git log {path}", "folder": "/docs", "suffix": ".md"}
    found = verdicts(beside(command, asked_to_run("git log docs/a.md").call))
    assert found["a word in another folder in the open place"] == "asks"
    assert found["another suffix in the open place"] == "asks"


def test_what_passes_stands_first_and_names_the_entry() -> None:
    entry = {**NOTES, "why": "notes are ours"}
    found = list(beside(entry, asked_to_write().call).values())
    assert [one.outcome.verdict.value for one in found[:4]] == ["passes"] * 4
    assert "entry 1 of approvals.allow" in found[0].outcome.reason
    assert found[0].outcome.reason.endswith("(notes are ours)")


def test_other_rules_of_the_policy_count_too() -> None:
    found = verdicts(beside(NOTES, asked_to_write().call, rules={"sandbox.write": {"approvers": ["ann"]}}))
    assert "passes" not in found.values()
    wide = verdicts(beside(NOTES, asked_to_write().call, rules={"sandbox.write": "pre_approved"}))
    assert wide["a link that leads elsewhere"] == "passes"


def test_each_text_beside_another_differs_from_it() -> None:
    for path, folder in (("/notes/a.md", "/notes"), ("/1/2.3", "/1"), ("/a", "/"), ("/.env", "/")):
        assert all(edge.text != path or edge.is_linked for edge in paths_beside(path, folder))
    for words in (["git"], ["git", "log", "1"], ["./x", ".", ".."]):
        edges = list(commands_beside(words, len(words) - 1 if len(words) > 1 else None))
        assert len({(edge.trick, edge.text) for edge in edges}) == len(edges)
    assert all(edge.text != "x" for edge in names_beside("x"))
    assert all(args != {"a": None, "b": True} for _, args in arguments_beside({"a": None, "b": True}))
