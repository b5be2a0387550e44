"""Names of files in a review: two that differ never look the same, and what is shown decides its own file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from markupsafe import Markup

from llm_do_temporal.client.open_questions import InboxEntry
from llm_do_temporal.errors import DecisionRefused
from llm_do_temporal.extensions.review.client import Review
from llm_do_temporal.extensions.review.commands import ReviewOptions, chosen_parts
from llm_do_temporal.extensions.review.terminal import change_lines, overview_lines
from llm_do_temporal.policy.groups import CallGroup
from llm_do_temporal.redaction.hidden_characters import shown_name
from llm_do_temporal.ui.content import renderer
from tests.support.extensions.review.review_desk import review_desk
from tests.support.extensions.review.reviewed import NOON, NOVEL, Side, made_review
from tests.support.people.alike_names import ALIKE, seen
from tests.support.workshops.layered import MemoryBlobs


def review_of(*names: str, sides: tuple[Side, Side] = (None, "1\n")) -> Review:
    return made_review(MemoryBlobs(), {f"files/Y/{name}": sides for name in names})


def accepted(review: Review, **options: tuple[str, ...]) -> set[str]:
    choice = chosen_parts(review, ReviewOptions(**options))  # pyright: ignore[reportArgumentType]
    return {one.path for one in review.changes if choice.state(one) != "not accepted"}


@pytest.mark.parametrize("pair", ALIKE, ids=ascii)
def test_two_files_of_a_review_never_look_the_same(pair: tuple[str, str]) -> None:
    pictures: list[set[str]] = []
    for name in pair:
        review = review_of(name)
        (change,) = review.changes
        lines = [overview_lines(review, 200), change_lines(change, review.diff(change), 200)]
        pictures.append({seen("\n".join(line.plain for line in one)) for one in lines})
        assert shown_name(name) in lines[0][-1].plain
        assert shown_name(f"files/Y/{name}") in lines[1][0].plain
        marked = renderer.shown_name(change.path)
        assert marked.striptags() == shown_name(change.path)
        pictures[-1].add(seen(marked))
    assert not pictures[0] & pictures[1]


@pytest.mark.parametrize("pair", ALIKE, ids=ascii)
def test_the_shown_name_accepts_and_rejects_its_own_file(pair: tuple[str, str]) -> None:
    review = review_of(*pair)
    for name, other in (pair, pair[::-1]):
        path, kept = f"files/Y/{name}", f"files/Y/{other}"
        typed = shown_name(path)
        if typed in review.by_path and typed != path:
            with pytest.raises(DecisionRefused, match="may mean"):
                accepted(review, accept=(typed,))
            continue
        assert accepted(review, accept=(typed,)) == {path}
        assert accepted(review, accept=("files/",), reject=(typed,)) == {kept}
        choice = chosen_parts(review, ReviewOptions(comment=(f"{typed}:1: why?",)))
        assert [(one.path, one.line, one.text) for one in choice.comments] == [(path, 1, "why?")]
        assert review.meant(f"./{path}").path == path


def test_a_name_that_may_mean_two_files_is_refused_with_both() -> None:
    review = review_of("d\u200b.txt", '"d\\u200b.txt"')
    with pytest.raises(DecisionRefused) as refused:
        accepted(review, accept=('files/Y/"d\\u200b.txt"',))
    assert 'files/Y/"d\\u200b.txt"' in refused.value.message
    assert 'files/Y/"\\"d\\\\u200b.txt\\""' in refused.value.message
    assert accepted(review, accept=('./files/Y/"d\\u200b.txt"',)) == {'files/Y/"d\\u200b.txt"'}


def test_the_shown_name_of_a_folder_and_of_a_part_means_these() -> None:
    sides = {f"{name}/n.txt": (NOVEL, NOVEL.replace("line 5\n", "5\n")) for name in ("d\u200b", "d\\u200b")}
    review = made_review(MemoryBlobs(), sides)
    assert accepted(review, accept=('"d\\u200b"/',)) == {"d\u200b/n.txt"}
    assert accepted(review, accept=('"d\\\\u200b"/',)) == {"d\\u200b/n.txt"}
    (hunk,) = review.diff(review.changes[0]).hunks
    assert accepted(review, accept=(f'"d\\u200b"/n.txt:{hunk.id[:8]}',)) == {"d\u200b/n.txt"}
    with pytest.raises(DecisionRefused, match="is a folder"):
        accepted(review, accept=('"d\\u200b"',))


@pytest.mark.parametrize("pair", ALIKE, ids=ascii)
async def test_two_files_on_the_page_never_look_the_same(pair: tuple[str, str], tmp_path: Path) -> None:
    sides: dict[str, tuple[Side, Side]] = {f"Y/{name}": (None, "1\n") for name in pair}
    page = await (await review_desk(tmp_path, sides).browser()).open("/runs/run-1/approvals/a1")
    heads = re.findall(r'<h3 id="name-\d+">(.*?)</h3>', page.html, re.DOTALL)
    leaves = re.findall(r'<a href="#file-\d+"[^>]*>(.*?)</a>', page.html, re.DOTALL)
    for found in (heads, leaves):
        assert len({seen(Markup(one).striptags()) for one in found}) == 2
    texts = [Markup(one).striptags() for one in heads]
    assert all(any(text.endswith(f" {shown_name(f'Y/{name}')}") for text in texts) for name in pair)


def asked(name: str, number: int) -> InboxEntry:
    group = CallGroup(key="0" * 32, title=f"send in /{name}", cells={"to": name})
    facts = {"run": "run-1", "run_worker": "boss", "started_by": "", "worker": "boss", "path": "main", "tool": "send"}
    facts |= {"summary": "send", "task": "", "id": f"a{number}", "digest": f"d{number}"}
    return InboxEntry(**facts, asked_at=NOON, deadline=None, votes=0, quorum=1, approvers=(), group=group)  # pyright: ignore[reportArgumentType]
