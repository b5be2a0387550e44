"""Kinds learned from past calls: the fewest and smallest that approvals speak for, and none that was ever refused."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from llm_do_temporal.extensions.rules.policy.lessons import LearnedKind, Lesson, Opinion, learned_kinds
from llm_do_temporal.policy.identity import SeenFile
from llm_do_temporal.policy.kinds.kind import AllowEntry, AskedCall, CallKind
from tests.support.people.asked_calls import command, delegation, python, write

DAY = date(2026, 3, 1)


def lessons(calls: Iterable[AskedCall], opinion: Opinion = "for", by: str = "ann", first: int = 0) -> list[Lesson]:
    """Each call in a run and on a day of its own."""
    return [
        Lesson(call, f"run-{number}", DAY + timedelta(days=number), opinion, by)
        for number, call in enumerate(calls, first)
    ]


def refused(*calls: AskedCall) -> list[Lesson]:
    return lessons(calls, "against", first=900)


def learned(given: Sequence[Lesson], **limits: Any) -> list[dict[str, Any]]:
    """The kinds as they would be written, without the callers."""
    found = [one.kind.as_mapping() for one in learned_kinds(given, **limits)]
    return [{name: value for name, value in kind.items() if name != "callers"} for kind in found]


NOTES = [write(f"/notes/{name}.md") for name in ("a", "b", "c", "d", "e")]
IN_NOTES = {"tool": "write_file", "folder": "/notes", "suffix": ".md"}


@pytest.mark.parametrize(
    ("calls", "kinds"),
    [
        # one file again and again is that file
        ([write("/notes/a.md")] * 4, [{"tool": "write_file", "path": "/notes/a.md"}]),
        # several of a folder and a suffix
        (NOTES, [IN_NOTES]),
        # of another tool it is another rule
        (
            [*NOTES, *(write("/log.md", tool="edit_file") for _ in range(3))],
            [IN_NOTES, {"tool": "edit_file", "path": "/log.md"}],
        ),
        # the same command is itself
        ([command("git status")] * 3, [{"command": "git status"}]),
        # a number may be free
        ([command(f"git log -n {n}") for n in (1, 5, 20, 7)], [{"command": "git log -n {number}"}]),
        (
            [command(f"git --no-pager log --oneline -n {n}") for n in (1, 5, 20, 7)],
            [{"command": "git --no-pager log --oneline -n {number}"}],
        ),
        ([command(f"tail -qn {n} app.log") for n in (1, 5, 20, 7)], [{"command": "tail -qn {number} app.log"}]),
        ([command(f"grep -rn -e x -A {n} .") for n in (1, 5, 20, 7)], [{"command": "grep -rn -e x -A {number} ."}]),
        # a file of one folder and suffix may be free
        (
            [command(f"wc -l logs/{name}.log") for name in "abcd"],
            [{"folder": "/logs", "suffix": ".log", "command": "wc -l {path}"}],
        ),
        (
            [command(f"grep -m5 --color=never -e x - logs/{name}.log") for name in "abcd"],
            [{"folder": "/logs", "suffix": ".log", "command": "grep -m5 --color=never -e x - {path}"}],
        ),
        (
            [command(f"/usr/bin/head -20 --lines=5 src/{name}.py") for name in "abcd"],
            [{"folder": "/src", "suffix": ".py", "command": "/usr/bin/head -20 --lines=5 {path}"}],
        ),
        # of a program that nobody knows, where it is data to nearly every program
        (
            [command(f"./tools/render notes/{name}.md") for name in "abcd"],
            [{"folder": "/notes", "suffix": ".md", "command": "./tools/render {path}"}],
        ),
        # code is read by what is known to read only
        (
            [command(f"ruff check src/{name}.py") for name in "abcd"],
            [{"folder": "/src", "suffix": ".py", "command": "ruff check {path}"}],
        ),
        (
            [command(f"git --no-pager log src/{name}.py") for name in "abcd"],
            [{"folder": "/src", "suffix": ".py", "command": "git --no-pager log {path}"}],
        ),
        ([delegation("reader", task=f"read {name}") for name in "abcd"], [{"worker": "reader"}]),
        (
            [delegation("reader", f"/decks/{name}.pdf", task=f"read {name}") for name in "abcd"],
            [{"folder": "/decks", "suffix": ".pdf", "worker": "reader"}],
        ),
        ([python("restart", service="web")] * 3, [{"tool": "restart", "args": {"service": "web"}, "sha256": "1" * 64}]),
    ],
)
def test_the_smallest_kind_that_covers_what_was_approved(calls: list[AskedCall], kinds: list[dict[str, Any]]) -> None:
    assert learned(lessons(calls)) == kinds


@pytest.mark.parametrize(
    "calls",
    [
        # task names, branches and tests are no files: the next one may be `deploy`
        [command(f"make {name}") for name in ("test", "lint", "docs", "build")],
        [command(f"git checkout {name}") for name in ("a1", "b1", "c1", "d1")],
        # hosts
        [command(f"curl -s https://{name}.example.com/health") for name in "abcd"],
        # interpreters and what runs files
        [command(f"python tools/{name}.py") for name in "abcd"],
        [command(f"pytest tests/{name}.py") for name in "abcd"],
        [command(f"python tools/report.py data/{name}.csv") for name in "abcd"],
        [command(f"luajit tools/{name}.lua") for name in "abcd"],
        [command(f"sed -l 5 {name} notes.txt") for name in ("ex/a.md", "ex/b.md", "ex/c.md", "ex/d.md")],
        # what a program that nobody knows may run
        [command(f"./tools/do jobs/{name}.yml") for name in "abcd"],
        # numbers that may be amounts, processes or permissions
        [command(f"./tools/refund {number}") for number in (1, 2, 3, 4)],
        [command(f"kill {number}") for number in (11, 12, 13, 14)],
        [command(f"chmod {number} a.sh") for number in (600, 640, 644, 444)],
        # programs that run others
        [command(f"env wc logs/{name}.log") for name in "abcd"],
        # folders
        [write(f"/clients/{name}/notes.md") for name in "abcd"],
        # the top of the tree, where everything lies
        [write(f"/{name}.md") for name in "abcd"],
        # hidden folders, in which programs are configured
        [write(f"/.github/workflows/{name}.yml") for name in "abcd"],
        [write(f"/notes/.claude/{name}.md") for name in "abcd"],
        [command(f"wc -l .hidden/{name}.log") for name in "abcd"],
        # names without a suffix
        [write(f"/notes/{name}") for name in "abcd"],
        [command(f"wc -l logs/{name}") for name in "abcd"],
        # several files at a time, and those at the top
        [delegation("reader", f"/decks/{name}.pdf", "/decks/z.pdf", task=name) for name in "abcd"],
        [delegation("reader", f"/{name}.pdf", task=name) for name in "abcd"],
        # the entry for a worker covers every task: one task, or few, are no reason for it
        [delegation("reader")] * 4,
        [delegation("reader", task=task) for task in "abab"],
        [delegation("reader", f"/decks/{name}.pdf") for name in "abcd"],
        [delegation("reader", "/decks/a.pdf", task=task) for task in "abcd"],
        # numbers that may be the names of files, commits or processes
        [command(f"cat {number}") for number in (1, 2, 3, 4)],
        [command(f"cat -n {number}") for number in (1, 2, 3, 4)],
        [command(f"git show {number}") for number in (1234567, 2345678, 3456789, 4567890)],
        [command(f"git shortlog -n {number}") for number in (1, 2, 3, 4)],
        [command(f"head -n 5 {number}") for number in (1, 2, 3, 4)],
        [command(f"grep -e -m {number}") for number in (1, 2, 3, 4)],
        [command(f"wc -l -- {number}") for number in (1, 2, 3, 4)],
        [command(f"tail --pid {number} app.log") for number in (11, 12, 13, 14)],
        # files with the names of others, with settings or with programs
        [command(f"md5sum -c lists/{name}.txt") for name in "abcd"],
        [command(f"sha256sum --check lists/{name}.txt") for name in "abcd"],
        [command(f"grep -f lists/{name}.txt notes/a.md") for name in "abcd"],
        [command(f"grep -rf lists/{name}.txt") for name in "abcd"],
        [command(f"file -C -m lists/{name}.txt") for name in "abcd"],
        [command(f"file -f lists/{name}.txt") for name in "abcd"],
        [command(f"wc --files0-from lists/{name}.txt") for name in "abcd"],
        [command(f"du -X lists/{name}.txt") for name in "abcd"],
        [command(f"sort --files0-from lists/{name}.txt") for name in "abcd"],
        [command(f"tar -cf a.tar -T lists/{name}.txt") for name in "abcd"],
        [command(f"tar cTf lists/{name}.txt a.tar") for name in "abcd"],
        [command(f"./tools/pack --files-from -- lists/{name}.txt") for name in "abcd"],
        [command(f"git grep -f lists/{name}.txt") for name in "abcd"],
        [command(f"git blame --contents lists/{name}.txt a.md") for name in "abcd"],
        # a program of the workers, whatever it is called
        [command(f"./tools/cat src/{name}.py") for name in "abcd"],
        [command(f"git -c core.pager=x log src/{name}.py") for name in "abcd"],
        [command(f"git --help src/{name}.py") for name in "abcd"],
        # what nobody would read in a workshop's file, not even word by word
        [python("note", text="x" * 3_000)] * 4,
        # arguments of tools whose meaning nobody knows
        [python("mail", to=f"{name}@example.com") for name in "abcd"],
        # links
        [write(f"/notes/{name}.md", place=f"files/secret/{name}.md") for name in "abcd"],
        # what is made by a template is another worker each time
        [delegation("reader", f"/decks/{name}/x.pdf") for name in "abcd"],
    ],
)
def test_what_is_never_freed(calls: list[AskedCall]) -> None:
    assert learned(lessons(calls)) == []


@pytest.mark.parametrize(
    ("running", "writing"),
    [
        ("bash tools/fix.sh", [f"/tools/{name}.sh" for name in "abcd"]),
        ("bash tools/fix.sh", ["/tools/fix.sh"] * 4),
        ("./tools/fix.sh", [f"/tools/{name}.sh" for name in "abcd"]),
        ("python3 tools/report.md", [f"/tools/{name}.md" for name in "abcd"]),
        ("make -f tools/all.mk", [f"/tools/{name}.mk" for name in "abcd"]),
        ("make --file=tools/all.mk", [f"/tools/{name}.mk" for name in "abcd"]),
        ("./tools/run.md", [f"/tools/{name}.md" for name in "abcd"]),
        ("bats tests", [f"/tests/unit/{name}.bats" for name in "abcd"]),
        ("sort --files0-from lists/a.txt", [f"/lists/{name}.txt" for name in "abcd"]),
        ("md5sum -c lists/a.txt", [f"/lists/{name}.txt" for name in "abcd"]),
        ("tar -cf a.tar -T lists/a.txt", [f"/lists/{name}.txt" for name in "abcd"]),
    ],
)
def test_who_may_run_a_file_learns_no_rule_that_writes_it(running: str, writing: list[str]) -> None:
    commands = lessons([command(running)] * 4)
    writes = lessons([write(path) for path in writing], first=10)
    assert learned([*commands, *writes]) == [{"command": running}]
    assert len(learned(writes)) == 1


@pytest.mark.parametrize(
    ("entry", "writing", "proposed"),
    [
        ({"command": "bash tools/fix.sh"}, "/tools/{}.sh", False),
        ({"command": "make --file=tools/all.mk"}, "/tools/{}.mk", False),
        ({"command": "./tools/render {path}"}, "/jobs/{}.yml", False),
        ({"command": "./tools/render {path}", "folder": "/jobs", "suffix": ".yml"}, "/jobs/{}.yml", False),
        ({"command": "./tools/render {path}", "folder": "/jobs", "suffix": ".yml"}, "/other/{}.yml", True),
        ({"command": "./tools/render {path}"}, "/notes/{}.md", True),  # data is not run
        ({"command": "./tools/render {number}"}, "/jobs/{}.yml", True),
        ({"command": "bats tests"}, "/tests/unit/{}.bats", False),
        ({"command": "bash ../up.sh"}, "/jobs/{}.yml", True),
        ({"command": "cat {path}"}, "/jobs/{}.yml", True),
        ({"tool": "write_file", "below": "/tools"}, "/tools/{}.sh", True),
        ({"worker": "reader"}, "/tools/{}.sh", True),
    ],
)
def test_no_rule_writes_a_file_that_an_entry_may_run(entry: dict[str, Any], writing: str, *, proposed: bool) -> None:
    writes = lessons([write(writing.format(name)) for name in "abcd"])
    assert bool(learned_kinds(writes, [AllowEntry(**entry)])) is proposed


@pytest.mark.parametrize(
    ("entry", "running", "proposed"),
    [
        ({"tool": "write_file", "path": "/tools/fix.sh"}, "bash tools/fix.sh", False),
        ({"tool": "edit_file", "below": "/"}, "bash tools/fix.sh", False),
        ({"tool": "write_file", "below": "/tools", "suffix": ".sh"}, "./tools/fix.sh", False),
        ({"tool": "write_file", "below": "/tests/unit"}, "bats tests", False),
        ({"tool": "write_file", "folder": "/tests", "suffix": ".bats"}, "bats /tests/unit", True),
        ({"tool": "write_file", "below": "/tools", "suffix": ".md"}, "bash tools/fix.sh", True),
        ({"tool": "write_file", "below": "/tools"}, "cat tools/fix.sh", True),
        ({"tool": "read_file", "below": "/tools"}, "bash tools/fix.sh", True),
        ({"command": "git status"}, "bash tools/fix.sh", True),
    ],
)
def test_no_rule_runs_a_file_that_an_entry_may_write(entry: dict[str, Any], running: str, *, proposed: bool) -> None:
    found = learned_kinds(lessons([command(running)] * 4), [AllowEntry(**entry)])
    assert bool(found) is proposed


def test_entries_run_nothing_where_a_worker_has_no_files() -> None:
    calls = [write(f"/tools/{name}.sh").model_copy(update={"worker": "other"}) for name in "abcd"]
    without = python("restart", service="web")
    entry = AllowEntry(command="bash tools/fix.sh")
    assert learned_kinds(lessons([without] * 3), [entry])
    assert not learned_kinds([*lessons([without]), *lessons(calls)], [entry])


def test_data_that_a_command_reads_may_be_written() -> None:
    commands = lessons([command("wc -l tools/fix.sh"), *[command("./render notes/a.md")] * 3], first=10)
    assert IN_NOTES in learned([*commands, *lessons(NOTES)])


@pytest.mark.parametrize(
    ("call", "kinds"),
    [
        (write("/notes/x.md"), []),  # a file of the folder
        (write("/notes/x.md", tool="edit_file"), []),  # whoever refuses an edit refuses the write
        (write("/notes/x.txt"), [IN_NOTES]),
        (write("/notes2/x.md"), [IN_NOTES]),
        (write("/notes/x.md", worker="other"), [IN_NOTES]),  # of a worker that the rule is not about
        # no rule follows a link, so a refusal of what it leads to is not about the rule
        (write("/notes/x.md", place="files/secret/x.md"), [IN_NOTES]),
    ],
)
def test_a_single_refusal_speaks_against_every_kind_that_covers_it(call: AskedCall, kinds: list[Any]) -> None:
    given = [*lessons(NOTES), *refused(call)]
    assert learned(given) == kinds
    assert learned([*refused(call), *lessons(NOTES)]) == kinds


def test_a_refusal_of_a_file_that_nobody_looked_at_counts_by_its_path() -> None:
    for files in ((), (SeenFile(path="/notes/x.md"),)):
        unknown = write("/notes/x.md").model_copy(update={"files": files})
        assert learned([*lessons(NOTES), *refused(unknown)]) == []
        assert learned([*lessons(NOTES), *lessons([unknown], first=50)]) == [IN_NOTES]


@pytest.mark.parametrize(
    ("approved", "refusal", "is_learned"),
    [
        # a name that is refused above or below is not free here
        (NOTES, write("/notes/sub/settings.md"), False),
        (NOTES, write("/settings.md"), False),
        (NOTES, write("/notes/sub/settings.txt"), True),
        (NOTES, write("/other/settings.md"), True),
        # unless this very file was approved in several runs
        (NOTES, write("/notes/sub/a.md"), False),
        ([*NOTES, *NOTES[:1] * 2], write("/notes/sub/a.md"), True),
        # another act
        (NOTES, command("cat notes/sub/settings.md"), True),
        ([command(f"wc -l logs/{n}.log") for n in "abcd"], command("wc -c logs/old/x.log"), False),
        ([command(f"wc -l logs/{n}.log") for n in "abcd"], command("rm logs/old/x.log"), True),
        (
            [delegation("reader", f"/decks/{n}.pdf", task=n) for n in "abcd"],
            delegation("reader", "/decks/board/x.pdf"),
            False,
        ),
        (
            [delegation("reader", f"/decks/{n}.pdf", task=n) for n in "abcd"],
            delegation("other", "/decks/board/x.pdf"),
            True,
        ),
    ],
)
def test_a_name_refused_in_a_folder_around_or_below_is_not_freed(
    approved: list[AskedCall], refusal: AskedCall, is_learned: bool
) -> None:
    found = learned([*lessons(approved), *refused(refusal)])
    assert any("folder" in kind for kind in found) is is_learned


def test_what_is_left_beside_a_refusal_is_learned_file_by_file() -> None:
    given = [*lessons([*NOTES, *NOTES[:1] * 3]), *refused(write("/notes/x.md"))]
    assert learned(given) == [{"tool": "write_file", "path": "/notes/a.md"}]


def test_calls_that_nobody_decided_about_say_nothing() -> None:
    assert learned(lessons(NOTES, "none")) == []
    assert learned([*lessons(NOTES), *lessons([write("/notes/x.md")], "none", first=50)]) == [IN_NOTES]


def test_one_run_frees_nothing_however_much_it_writes() -> None:
    once = [Lesson(write(f"/notes/{n}.md"), "run-1", DAY + timedelta(days=n), "for") for n in range(9)]
    assert learned(once) == []
    # two others for the support, with one file each: without the busy run there are two values
    assert learned([*once, *lessons([write("/notes/x.md"), write("/notes/y.md")], first=10)]) == []
    assert learned([*once, *lessons([write(f"/notes/{name}.md") for name in "xyz"], first=10)]) == [IN_NOTES]


@pytest.mark.parametrize(
    ("runs", "days", "limits", "is_learned"),
    [
        (3, 2, {}, True),
        (2, 2, {}, False),
        (3, 1, {}, False),
        (2, 2, {"min_runs": 2}, True),
        (3, 1, {"min_days": 1}, True),
        (4, 4, {"min_runs": 5}, False),
        (4, 4, {"min_days": 5}, False),
    ],
)
def test_several_runs_and_days_must_speak_for_it(
    runs: int, days: int, limits: dict[str, int], is_learned: bool
) -> None:
    given = [Lesson(command("git status"), f"run-{n % runs}", DAY + timedelta(days=n % days), "for") for n in range(12)]
    assert bool(learned(given, **limits)) is is_learned


def test_each_worker_teaches_about_itself_alone() -> None:
    main, other = lessons(NOTES), lessons([write(f"/notes/{name}.md", worker="other") for name in "ab"])
    (kind,) = learned_kinds([*main, *other])
    assert kind.kind.callers == ("main",)
    assert not kind.kind.covers(other[0].call)
    more = lessons([write(f"/notes/{name}.md", worker="other") for name in "abcde"])
    (both,) = learned_kinds([*main, *more])
    assert both.kind.callers == ("main", "other")
    assert len(both.support) == 10


def test_a_kind_tells_what_it_comes_from() -> None:
    given = [*lessons(NOTES), *lessons(NOTES[:1], by="bob", first=7), *lessons(NOTES[:1], by="", first=8)]
    (kind,) = learned_kinds(given)
    assert isinstance(kind, LearnedKind)
    assert (len(kind.support), kind.runs, kind.days, kind.people) == (7, 7, 7, ("ann", "bob"))


def test_the_most_useful_comes_first_and_none_is_for_what_another_answers() -> None:
    given = lessons([*NOTES, *NOTES, *[command("git status")] * 3, *[write("/notes/a.md")] * 5])
    found = learned_kinds(given)
    assert [len(one.support) for one in found] == [15, 3]


def test_the_order_of_the_calls_changes_nothing() -> None:
    given = [
        *lessons([*NOTES, command("git status"), *NOTES, *[command("git status")] * 3]),
        *refused(write("/x/y.md")),
    ]
    expected = learned(given)
    assert expected
    assert learned(given[::-1]) == expected


WRITES: dict[str, Any] = {"tool": "write_file", "folder": "/notes", "suffix": ".md"}
COUNTS: dict[str, Any] = {"command": "wc -l {path}", "folder": "/logs", "suffix": ".log"}
READS: dict[str, Any] = {"worker": "reader", "folder": "/decks", "suffix": ".pdf"}


@pytest.mark.parametrize(
    ("keys", "call", "is_covered"),
    [
        (WRITES, write("/notes/a.md"), True),
        (WRITES, write("/notes//./a.md"), True),
        (WRITES, write("/notes/sub/a.md"), False),
        (WRITES, write("/notes2/a.md"), False),
        (WRITES, write("/a.md"), False),
        (WRITES, write("/notes/.md"), False),
        (WRITES, write("/notes/.a.md"), False),
        (WRITES, write("/notes/a.md.sh"), False),
        (WRITES, write("/notes/a.MD"), False),
        (WRITES, write("/NOTES/a.md"), False),
        (WRITES, write("/notes/a.md\u200b"), False),
        (WRITES, write("/notes/a.md", place="files/secret.md"), False),
        (WRITES, write("/notes/a.md", tool="edit_file"), False),
        (COUNTS, command("wc -l logs/a.log"), True),
        (COUNTS, command("wc -l ./logs/a.log"), True),
        (COUNTS, command("wc -l logs/old/a.log"), False),
        (COUNTS, command("wc -l secrets/a.log"), False),
        (COUNTS, command("wc -l logs/a.key"), False),
        (COUNTS, command("wc -l a.log"), False),
        (COUNTS, command("wc -l logs/a.log logs/b.log"), False),
        (COUNTS, command("wc -c logs/a.log"), False),
        (READS, delegation("reader", "/decks/a.pdf"), True),
        (READS, delegation("reader", "/decks/a.pdf", "/decks/b.pdf"), True),
        (READS, delegation("reader", "/decks/board/a.pdf"), False),
        (READS, delegation("reader", "/decks/a.pdf", "/secrets/b.pdf"), False),
        (READS, delegation("reader", "/decks/a.txt"), False),
        (READS, delegation("reader", "/../decks/a.pdf"), False),
        (READS, delegation("reader"), False),  # it is about calls with files
        (READS, delegation("other", "/decks/a.pdf"), False),
    ],
)
def test_only_files_in_the_folder_itself_with_the_suffix(
    keys: dict[str, Any], call: AskedCall, is_covered: bool
) -> None:
    assert CallKind.model_validate(keys).covers(call) is is_covered


@pytest.mark.parametrize(
    ("keys", "call"),
    [
        (WRITES, write("/notes/a.md")),
        (COUNTS, command("wc -l logs/a.log")),
        (READS, delegation("reader", "/decks/a.pdf")),
        ({"tool": "restart", "args": {"service": "web"}, "sha256": "1" * 64}, python("restart", service="web")),
    ],
)
def test_only_calls_of_the_workers_that_are_named(keys: dict[str, Any], call: AskedCall) -> None:
    kind = CallKind.model_validate({**keys, "callers": ("main", "clerk")})
    by = {name: call.model_copy(update={"worker": name}) for name in ("main", "clerk", "other", "Main", "")}
    assert {name for name, made in by.items() if kind.covers(made)} == {"main", "clerk"}
    assert kind.sentence.endswith(", by main or clerk")


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        (WRITES, "write_file of .md files in /notes"),
        ({"tool": "write_file", "folder": "/notes"}, "write_file of files in /notes"),
        (COUNTS, "the command `wc -l {path}`, of .log files in /logs"),
        (READS, "calls of reader, with .pdf files in /decks"),
    ],
)
def test_the_sentence_says_where_the_files_lie(keys: dict[str, Any], sentence: str) -> None:
    assert CallKind.model_validate(keys).sentence == sentence


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({**WRITES, "below": "/notes"}, "`below` or `folder`"),
        ({**WRITES, "callers": ()}, "at least 1"),
        ({**WRITES, "folder": "/notes/../x"}, "'..'"),
        ({"command": "git log -n {number}", "folder": "/logs"}, "no word {path}"),
        ({"command": "wc -l {path}", "suffix": ".log"}, "`suffix` goes with `folder`"),
        ({"worker": "reader", "suffix": ".pdf"}, "`suffix` goes with `folder`"),
        ({**READS, "attachments": "/decks"}, "write one of them"),
        ({"tool": "restart", "args": {}, "folder": "/x"}, "does not go with"),
    ],
)
def test_keys_that_do_not_go_together_are_named(keys: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says.replace("{", r"\{")):
        CallKind.model_validate(keys)


def test_examples_of_an_entry_are_calls_of_its_callers() -> None:
    entry = AllowEntry.model_validate(
        {**WRITES, "callers": ("main",), "match": ("/notes/a.md",), "not_match": ("/x.md",)}
    )
    assert list(entry.failed_examples()) == []
    wrong = entry.model_copy(update={"not_match": ("/notes/b.md",)})
    assert [failed.text for failed in wrong.failed_examples()] == ["/notes/b.md"]
