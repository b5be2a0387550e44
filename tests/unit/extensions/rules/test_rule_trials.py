"""Trials of rules on past calls, and the commands that show them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from llm_do_temporal.cli.__main__ import run_command
from llm_do_temporal.errors import DefinitionError, UsageError
from llm_do_temporal.extensions.rules.policy.verdicts import ChangeKind, Policy
from llm_do_temporal.extensions.rules.report import left_out, trial_lines, trial_sentence
from llm_do_temporal.extensions.rules.trial import (
    Trial,
    answer_in_words,
    policy_of_file,
    policy_of_workshop,
    try_policy,
    unified_diff,
    with_entries,
)
from tests.support.extensions.rules.past_calls import asked_to_run, asked_to_write, past_call, past_calls

TODAY = Policy()
NOTES = "{tool: write_file, below: /notes, suffix: .md}"


def tried(*entries: str, calls: Any = None) -> Trial:
    """What becomes of some calls with these entries more."""
    some = (
        past_call(asked_to_write("/notes/a.md"), run="r1", days_ago=4),
        past_call(asked_to_write("/notes/b.md"), "reject", run="r2", note="not yet", days_ago=3),
        past_call(asked_to_write("/notes/c.md", linked_to="files/x"), "approve", run="r3", days_ago=2),
        past_call(asked_to_write("/plans/d.md"), "modify", run="r4"),
    )
    return try_policy(with_entries(TODAY, entries), past_calls(*(calls or some)), today=TODAY)


def runs(trial: Trial, change: ChangeKind) -> list[str]:
    return [call.past.run for call in trial.changed(change)]


def test_what_newly_passes_begins_with_what_a_person_did_not_want() -> None:
    trial = tried(NOTES)
    assert runs(trial, ChangeKind.NEWLY_PASSED) == ["r2", "r1"]
    assert trial.against == 1
    assert not runs(trial, ChangeKind.NEWLY_ASKED)
    assert tried("{tool: write_file, path: /notes/a.md}").against == 0


def test_a_changed_call_counts_like_a_rejected_one() -> None:
    trial = tried("{tool: write_file, below: /plans}")
    assert (runs(trial, ChangeKind.NEWLY_PASSED), trial.against) == (["r4"], 1)


def test_without_a_policy_of_today_what_happened_is_what_counts() -> None:
    by_rule = asked_to_write("/notes/a.md", allowed="entry 1 of approvals.allow: …")
    calls = past_calls(past_call(by_rule, door="rule", by=""), past_call(asked_to_write("/b.md"), run="r2"))
    trial = try_policy(TODAY, calls)
    assert runs(trial, ChangeKind.NEWLY_ASKED) == ["r1"]
    assert not runs(trial, ChangeKind.NEWLY_PASSED)


def test_what_the_history_does_not_tell_is_listed_as_unknown() -> None:
    old = asked_to_write("/notes/a.md", files=())
    trial = tried(NOTES, calls=[past_call(old)])
    assert runs(trial, ChangeKind.UNKNOWN) == ["r1"]
    assert trial.against == 0
    assert "of 1 nobody can tell" in trial_sentence(trial, "30d")


def test_an_entry_shows_its_neighbours_by_the_newest_call_that_it_covers() -> None:
    (entry,) = tried(NOTES).entries
    assert entry.covered == 2
    assert entry.neighbours is not None
    assert "/notes/another-b.md" in {one.subject for one in entry.neighbours}
    (unused,) = tried("{tool: read_file, below: /notes}").entries
    assert (unused.covered, unused.neighbours) == (0, None)


def test_only_entries_that_are_new_are_tried_at_their_edge() -> None:
    today = with_entries(TODAY, [NOTES])
    more = with_entries(today, ["{command: git log}"])
    calls = past_calls(past_call(asked_to_write()), past_call(asked_to_run("git log"), run="r2"))
    assert [one.entry.command for one in try_policy(more, calls, today=today).entries] == ["git log"]
    assert [one.covered for one in try_policy(today, calls).entries] == [1]


def test_a_worker_without_known_rules_has_neighbours_of_which_nobody_can_tell() -> None:
    call = past_call(asked_to_run("git log a.md"), shell=None)
    (entry,) = tried("{command: 'git log {path}'}", calls=[call]).entries
    assert {one.outcome.verdict.value for one in entry.neighbours or ()} == {"unknown", "passes"}
    assert [one.trick for one in entry.neighbours or () if one.outcome.verdict == "passes"] == [
        "the same call of another worker"
    ]


def test_the_report_has_each_call_with_run_path_summary_and_what_was_said() -> None:
    lines = trial_lines(tried(NOTES), None)
    assert lines[0] == "newly passed: 2"
    assert lines[1].split()[:4] == ["RUN", "ID", "PATH", "ASKED"]
    assert "write_file /notes/b.md" in lines[2]
    assert "! rejected by ann: not yet" in lines[2]
    assert "approved by ann" in lines[3]
    head = next(number for number, line in enumerate(lines) if line.startswith("write_file of .md files below /notes"))
    assert lines[head].startswith("write_file of .md files below /notes: covers 2 past calls; of ")
    assert [line.split()[0] for line in lines[head + 1 : head + 3]] == ["VERDICT", "passes"]
    sentence = trial_sentence(tried(NOTES), "30d")
    assert sentence.startswith(
        "4 calls of 4 runs in 30d: 4 asked, 2 would ask; 2 newly pass, 1 of them though a person"
    )
    assert trial_lines(tried(), None) == ["newly passed: none"]
    assert trial_sentence(try_policy(TODAY, past_calls()), "7d") == "no call asked a person in the last 7d"


def test_what_models_wrote_cannot_steer_the_terminal() -> None:
    request = asked_to_write("/notes/a.md", summary="write\x1b[2J\u202e\nx", worker="w")
    text = "\n".join(trial_lines(tried(NOTES, calls=[past_call(request, note="\x1b[1m")]), None))
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_the_report_as_json_has_everything() -> None:
    found = json.loads(json.dumps(tried(NOTES).as_json()))
    assert (found["calls"], found["against"], found["runs"]) == (4, 1, 4)
    assert (found["before"], found["after"]) == ({"asks": 4}, {"passes": 2, "asks": 2})
    assert [one["answer"] for one in found["newly_passed"]] == ["rejected", "approved"]
    assert found["newly_passed"][0]["note"] == "not yet"
    assert found["newly_asked"] == found["newly_blocked"] == found["unknown"] == []
    assert found["entries"][0]["entry"] == {"tool": "write_file", "below": "/notes", "suffix": ".md"}
    assert {"trick", "call", "verdict", "reason"} == set(found["entries"][0]["neighbours"][0])


@pytest.mark.parametrize(
    ("decision", "door", "words"),
    [
        ("approve", "signal", "approved by ann: ok"),
        ("reject", "update", "rejected by ann: ok"),
        ("modify", "signal", "changed by ann: ok"),
        ("approve", "grant", "answered by what was remembered"),
        ("reject", "timer", "nobody decided in time"),
        (None, "signal", "no answer"),
    ],
)
def test_what_was_said_is_in_words(decision: str | None, door: str, words: str) -> None:
    assert answer_in_words(past_call(asked_to_write(), decision, door=door, note="ok")) == words


def test_runs_that_were_not_looked_at_are_told() -> None:
    trial = try_policy(TODAY, past_calls(past_call(asked_to_write()), locked=("x", "y"), is_cut=True))
    assert len(left_out(trial)) == 2
    assert left_out(trial)[1].endswith("x, y")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "keys and values"),
        ("[", "cannot be used"),
        ("write_file", "cannot be used"),
        ("{tool: write_file}", "a kind of calls is"),
        ("{tool: write_file, below: notes}", "starts with '/'"),
        ("{tool: write_file, below: /notes, sufix: .md}", "sufix"),
        ("{command: 'bash -c {path}'}", "refused"),
        ("[{command: git log}, {command: git diff}]", "cannot be used"),
        ("{command: 5}", "cannot be used"),
    ],
)
def test_an_entry_that_cannot_be_one_is_named_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(UsageError) as caught:
        with_entries(TODAY, [text])
    assert reason in f"{caught.value.message} {caught.value.next_step}"
    assert "allow.0" not in caught.value.message


@pytest.mark.parametrize(
    "text",
    [
        NOTES,
        f"- {NOTES}",
        "tool: write_file\nbelow: /notes\nsuffix: .md",
        '{"tool": "write_file", "below": "/notes", "suffix": ".md"}',
    ],
)
def test_an_entry_may_be_written_as_in_the_file(text: str) -> None:
    assert with_entries(TODAY, [text]).approvals.allow == with_entries(TODAY, [NOTES]).approvals.allow


def test_a_policy_is_read_from_a_file_or_its_folder(tmp_path: Path) -> None:
    file = tmp_path / "workshop.yaml"
    (tmp_path / "files").mkdir()
    file.write_text(f"sandbox: {{root: files, write_approval: false}}\napprovals:\n  allow:\n  - {NOTES}\n")
    assert policy_of_file(file) == policy_of_file(tmp_path) == policy_of_workshop(tmp_path)
    assert policy_of_file(file).approvals.allow[0].below == "/notes"


@pytest.mark.parametrize(
    ("text", "error"),
    [(b"approvals: {rulez: 1}", DefinitionError), (b"\xff", UsageError), (b"a" * 1_000_001, UsageError)],
    ids=["a wrong key", "no text", "too large"],
)
def test_a_file_that_is_no_policy_is_named(tmp_path: Path, text: bytes, error: type[Exception]) -> None:
    file = tmp_path / "other.yaml"
    file.write_bytes(text)
    with pytest.raises(error, match=r"other\.yaml"):
        policy_of_file(file)
    with pytest.raises(UsageError, match=r"missing\.yaml"):
        policy_of_file(tmp_path / "missing.yaml")


def make(folder: Path, text: str = "sandbox: {root: .}\n") -> list[str]:
    """The flags of a workshop with this file."""
    (folder / "workshop.yaml").write_text(text, encoding="utf-8")
    return ["--workshop", str(folder)]


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--since", "a month"], "--since a month: 'a month' is not a time; write it like 90s, 30m"),
        (["--since", "30"], "--since 30: '30' is not a time"),
        (
            ["--since", "999999999999d"],
            "'999999999999d' is too long; a time is at most 10000 days",
        ),
        (["--since", "9999999d"], "--since 9999999d: '9999999d' is too long"),
        (["--since", "٣d"], "--since ٣d: '٣d' is not a time"),
        (["--min-runs", "0"], "--min-runs 0 is not a number above zero"),
        (["--min-days", "-1"], "--min-days -1 is not a number above zero"),
    ],
)
def test_flags_that_cannot_be_used_are_said_before_a_server_is_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], says: str
) -> None:
    assert run_command(["rules", "suggest", *flags, *make(tmp_path)]) == 2
    assert says in capsys.readouterr().err


def test_a_workshop_that_is_wrong_is_said_before_a_server_is_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["rules", "suggest", *make(tmp_path, "approvals: {allow: [{tool: shell}]}\n")]) == 8
    assert "workshop.yaml:1" in capsys.readouterr().err


def test_the_entries_of_a_workshop_are_listed_as_sentences(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "approvals:\n  allow:\n    - {command: 'git log -n {number}', callers: [coder], why: reads}\n"
    assert run_command(["rules", *make(tmp_path, text)]) == 0
    assert capsys.readouterr().out.splitlines()[1].split(None, 1) == [
        "1",
        "the command `git log -n {number}`, by coder  reads",
    ]


def test_a_workshop_without_entries_says_where_they_come_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["rules", *make(tmp_path)]) == 0
    told = capsys.readouterr()
    assert told.out == ""
    assert "`llm-do-temporal rules suggest --workshop" in told.err


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a\nb\n", "a\nx\nb\n"),
        ("a\nb", "a\nb\nc\n"),  # no line end before
        ("a\nb\n", "a\nb"),  # none after
        ("", "a\n"),
        ("a\r\nb\r\n", "a\r\nx\r\nb\r\n"),
        ("a\u2028b\x0c\n", "a\u2028b\x0c\nc\n"),  # line ends to Python, and to nobody else
    ],
)
@pytest.mark.parametrize("program", [["patch", "-s", "-p1", "--binary"], ["git", "apply"]])
def test_patch_and_git_make_of_the_diff_what_was_meant(
    tmp_path: Path, program: list[str], before: str, after: str
) -> None:
    file = tmp_path / "workshop.yaml"
    file.write_bytes(before.encode())
    subprocess.run(program, input=unified_diff(before, after).encode(), check=True, cwd=tmp_path)
    assert file.read_bytes() == after.encode()


def test_git_takes_it_in_a_folder_of_a_repository(tmp_path: Path) -> None:
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "workshop.yaml").write_text("a\n", encoding="utf-8")
    subprocess.run(["git", "init", "-q"], check=True, cwd=tmp_path)
    subprocess.run(["git", "apply"], input=unified_diff("a\n", "a\nb\n"), text=True, check=True, cwd=folder)
    assert (folder / "workshop.yaml").read_text(encoding="utf-8") == "a\nb\n"


def test_nothing_changed_is_no_diff() -> None:
    assert unified_diff("a\n", "a\n") == ""
