"""Names of files as people see them: two that differ never look the same, and what is shown decides its own file."""

from __future__ import annotations

from itertools import combinations, product

import pytest

from llm_do_temporal.cli.groups import group_lines
from llm_do_temporal.cli.text import visible_line
from llm_do_temporal.client.open_questions import InboxEntry, alone, grouped
from llm_do_temporal.client.question_document import entry_title
from llm_do_temporal.policy.groups import CallGroup
from llm_do_temporal.redaction.hidden_characters import KnownNames, shown_name, shown_value
from llm_do_temporal.ui.content import renderer
from tests.support.people.alike_names import ALIKE, seen
from tests.support.workflow.desk_questions import NOON

PIECES = (
    *("", "a", " ", "\u00a0", "\u3000", "\u2003", "\t", "\n", "\r", "\x1b", "\u200b", "\u202e", "\ufeff", "\u3164"),
    *("\\", '"', "\\t", "\\n", "\\x20", "\\x0a", "\\x1b", "\\u200b", "\\u202e", "\\\\n", "\\xa0", "\U000e0041"),
    *("\\U000e0041", "e\u0301", "\u00e9", "\\u0301", "\u212b", "\u00c5", "\u1100\u1161", "\uac00", "\ufe0f", "'"),
)
NAMES = sorted({"".join(parts) for parts in product(PIECES, repeat=3)} - {""})


@pytest.mark.parametrize("write", [shown_name, shown_value], ids=["name", "value"])
def test_of_many_names_no_two_look_the_same(write: type[str]) -> None:
    shown = {name: write(name) for name in NAMES}
    assert len({seen(one) for one in shown.values()}) == len(shown) > 20_000
    assert all(one.isprintable() for one in shown.values())
    assert not [one for one in shown.values() if any(char.isspace() and char != " " for char in one)]


def test_what_is_shown_of_many_names_means_that_name() -> None:
    known = KnownNames(NAMES)
    for name in NAMES:
        meant = known.meant(shown_name(name))
        assert name in meant
        assert len(meant) == 1 or shown_name(name) in NAMES
        assert known.meant(f"./{name}") == [name]


@pytest.mark.control
@pytest.mark.parametrize("path", ["a.txt", "files/A b/ü-é.py", "日本語/🎉.md", "-x", "it's", 'a"b', "[x]{y}*", "✔️.md"])
def test_an_ordinary_name_is_shown_as_it_is(path: str) -> None:
    assert shown_name(path) == shown_value(path) == renderer.shown_name(path).striptags() == path


@pytest.mark.parametrize("pair", ALIKE, ids=ascii)
def test_two_files_in_the_summary_of_a_question_never_look_the_same(pair: tuple[str, str]) -> None:
    assert len({seen(visible_line(shown_name(f"/{name}"))) for name in pair}) == 2


def asked(name: str, number: int) -> InboxEntry:
    group = CallGroup(key="0" * 32, title=f"send in /{name}", cells={"to": name})
    facts = {"run": "run-1", "run_worker": "boss", "started_by": "", "worker": "boss", "path": "main", "tool": "send"}
    facts |= {"summary": "send", "task": "", "id": f"a{number}", "digest": f"d{number}"}
    return InboxEntry(**facts, asked_at=NOON, deadline=None, votes=0, quorum=1, approvers=(), group=group)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("pair", ALIKE, ids=ascii)
def test_two_values_of_a_group_never_look_the_same(pair: tuple[str, str]) -> None:
    both = [asked(name, number) for number, name in enumerate(pair)]
    (group,) = grouped(both)
    rows = group_lines(group, None)[-2:]
    assert len({seen(row.replace("a0", "").replace("a1", "")) for row in rows}) == 2
    titles = [group_lines(alone(one), None)[0] for one in both]
    assert len({seen(renderer.visible_line(entry_title(one)).striptags()) for one in both}) == 2
    assert titles == titles[:1] * 2  # a call alone is called by its summary
    heads = {seen(group_lines(grouped([one])[0], None)[0]) for one in both}
    assert len(heads) == 2


def test_all_pairs_of_short_names_are_told_apart_by_what_is_typed() -> None:
    short = [name for name in NAMES if len(name) <= 2][:120]
    known = KnownNames(short)
    for one, other in combinations(short, 2):
        assert shown_name(one) != shown_name(other)
        assert known.meant(shown_name(one)) != known.meant(shown_name(other))
