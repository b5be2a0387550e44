"""The walk through a review: letters that are typed, and the answer that is sent in the end."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Mapping, Sequence
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from llm_do_temporal.cli.terminal import ask, prompts
from llm_do_temporal.cli.terminal.ask import Asker, LeaveKey, Parting
from llm_do_temporal.cli.terminal.prompts import Interrupt
from llm_do_temporal.client.client import LlmDoClient
from llm_do_temporal.client.history.questions import Question
from llm_do_temporal.client.question_document import Background, precedents_of
from llm_do_temporal.errors import EffectFailed
from llm_do_temporal.extensions.review import terminal
from llm_do_temporal.extensions.review.client import ChangeOrigin, Review, ReviewChange
from llm_do_temporal.extensions.review.policy.review import LineComment
from llm_do_temporal.messages.approvals import DecisionKind
from llm_do_temporal.messages.runs import RunMemo
from llm_do_temporal.policy.layers.layer import folder_node
from tests.support.extensions.review.reviewed import EDITED_NOVEL, NOVEL, ReviewedRun, Side, made_review
from tests.support.workshops.layered import MemoryBlobs

SIDES: dict[str, tuple[Side, Side]] = {
    "README.md": ("old\n", "new\n"),
    "gone.txt": ("bye\n", None),
    "novel.txt": (NOVEL, EDITED_NOVEL),
}


class Person:
    """Person at a terminal, with one run that asks for a review."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, sides: Mapping[str, tuple[Side, Side]] = SIDES, **facts: object
    ) -> None:
        self.blobs = MemoryBlobs()
        self.review = review = made_review(self.blobs, sides, **facts)
        self.run = ReviewedRun(review)
        self.screen = StringIO()
        self.left: Iterator[str | None] = iter(())
        monkeypatch.setattr(ask, "forget_typed", lambda: None)
        monkeypatch.setattr(prompts, "read_line", self._read)
        monkeypatch.delenv("PAGER", raising=False)

        async def background(client: object, question: Question, known: Sequence[Question]) -> Background:
            return Background(RunMemo(worker="clerk"), None, precedents_of(question, known))

        monkeypatch.setattr(ask, "read_background", background)

    async def types(self, *lines: str | None) -> Parting:
        """Type these lines, one at each prompt, and leave: None is the end of input."""
        self.left = iter(lines)
        console = Console(file=self.screen, width=100, height=40)
        asker = Asker(self.run, console, Interrupt(), LeaveKey("q", "[q]uit"), lambda asked: len(asked.votes))
        parting = await asker.ask(self.review.question, [self.review.question])
        assert next(self.left, "nothing") == "nothing"
        return parting

    async def _read(self, prompt: str) -> str | None:
        assert prompt
        return next(self.left)

    @property
    def hunks(self) -> list[str]:
        return [one.id for one in self.review.diff(self.review.change("novel.txt")).hunks]


@pytest.fixture
def person(monkeypatch: pytest.MonkeyPatch) -> Person:
    return Person(monkeypatch)


async def test_each_part_is_answered_by_a_letter(person: Person) -> None:
    await person.types("w", "y", "n", "y", "n", "s")
    answer = person.run.answer
    assert (answer.accept, answer.hunks) == (("README.md",), {"novel.txt": (person.hunks[0],)})
    assert "accepts 1 of 3 changes, 1 in part; 1 not accepted, which go back" in person.screen.getvalue()


async def test_the_rest_may_stay_in_the_layer(person: Person) -> None:
    await person.types("w", "n", "n", "d", "k")
    assert (person.run.answer.accept, person.run.answer.rest) == ((), "keep")


async def test_all_that_is_left_of_a_file_or_of_the_review(person: Person) -> None:
    await person.types("w", "n", "A", "s")
    assert person.run.answer.accept == ("gone.txt", "novel.txt")


async def test_accepting_the_rest_leaves_conflicts_out(monkeypatch: pytest.MonkeyPatch) -> None:
    person = Person(monkeypatch, conflicts={"novel.txt": "changed meanwhile"})
    await person.types("w", "A", "s")
    assert person.run.answer.accept == ("/",)
    assert "changed by somebody else meanwhile" in person.screen.getvalue()


async def test_what_was_skipped_comes_again(person: Person) -> None:
    await person.types("w", "s", "y", "a", "y", "y", "s")
    assert person.run.answer.accept == ("/",)


async def test_back_asks_the_part_before_once_more(person: Person) -> None:
    await person.types("w", "y", "k", "n", "n", "y", "k", "n", "n", "s")
    assert (person.run.answer.accept, dict(person.run.answer.hunks)) == ((), {})


async def test_a_remark_goes_with_the_answer(person: Person) -> None:
    await person.types("w", "c", "1", "why?", "c", "one", "c", "", "all of it", "A", "s")
    assert person.run.answer.comments == (
        LineComment(path="README.md", line=1, text="why?"),
        LineComment(path="README.md", text="all of it"),
    )
    assert "'one' is no number of a line" in person.screen.getvalue()


async def test_leaving_decides_nothing(person: Person) -> None:
    assert await person.types("w", "y", "q", "q", "q") is Parting.LEFT
    assert await person.types("w", None, None, None) is Parting.LEFT
    assert person.run.taken == []


async def test_going_back_to_the_beginning_forgets_the_answers(person: Person) -> None:
    await person.types("w", "y", "q", "b", "n", "n", "d", "s")
    assert person.run.answer.accept == ()


async def test_another_letter_is_told_and_asked_again(person: Person) -> None:
    await person.types("w", "z", "?", "A", "s")
    assert "type one of y, n" in person.screen.getvalue()
    assert "accept this part" in person.screen.getvalue()


async def test_a_file_is_accepted_as_it_was_edited(
    person: Person, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\ncase $1 in *.md) printf 'mine\\r\\n' > \"$1\";; esac\n")
    editor.chmod(stat.S_IRWXU)
    monkeypatch.setenv("VISUAL", str(editor))
    # Of the deleted file there is nothing to edit, and the novel is left as it was.
    await person.types("w", "e", "e", "n", "e", "d", "s")
    answer = person.run.answer
    assert (answer.accept, dict(answer.hunks)) == ((), {})
    assert person.blobs.read(answer.edits["README.md"]) == b"mine\r\n"
    assert "nothing to edit" in person.screen.getvalue()
    assert "nothing was edited" in person.screen.getvalue()


async def test_the_words_of_the_model_are_shown(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    async def origin(client: LlmDoClient, review: Review, change: ReviewChange) -> ChangeOrigin:
        if change.path == "gone.txt":
            raise EffectFailed("not kept any more")
        return ChangeOrigin("main", 3, "I rename it\x1b[2J.", 2)

    monkeypatch.setattr(terminal, "read_origin", origin)
    await person.types("w", "w", "n", "w", "q", "q", "q")
    assert "| I rename it\\x1b[2J." in person.screen.getvalue()
    assert "these are of turn 2" in person.screen.getvalue()
    assert "not kept any more" in person.screen.getvalue()


@pytest.mark.parametrize(
    ("letters", "is_taken"), [(["a", "n", "q"], False), (["a", "y"], True), (["v", "", "a"], True)]
)
async def test_all_is_accepted_after_a_look_or_a_word(person: Person, letters: list[str], is_taken: bool) -> None:
    await person.types(*letters)
    assert [one.decision for one in person.run.taken] == ([DecisionKind.APPROVE] if is_taken else [])
    assert "3 changes: 2 modified, 1 deleted" in person.screen.getvalue()
    assert "digest" not in person.screen.getvalue()


async def test_a_review_is_not_remembered(person: Person) -> None:
    await person.types("s", "k", "q")
    assert "a review is answered by itself" in person.screen.getvalue()


async def test_a_review_that_cannot_be_read_is_not_accepted_by_chance(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lost(run: str) -> list[Review]:
        raise EffectFailed("the blob is gone")

    monkeypatch.setattr(person.run, "reviews", lost)
    await person.types("a", "n", "w", "q")
    assert "the changes cannot be shown: the blob is gone" in person.screen.getvalue()
    assert person.run.taken == []


async def test_a_folder_that_is_refused_keeps_out_what_is_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    sides: dict[str, tuple[Side, Side]] = {
        "a.txt": (None, "a"),
        "made": (None, folder_node()),
        "made/x": (None, "x"),
        "made/y": (None, "y"),
    }
    person = Person(monkeypatch, sides=sides)
    await person.types("w", "y", "n", "y", "y", "s")
    assert person.run.answer.accept == ("a.txt",)
    assert "accepts 1 of 4 changes; 3 not accepted" in person.screen.getvalue()
    person = Person(monkeypatch, sides=sides)
    await person.types("w", "y", "n", "A", "s")
    assert person.run.answer.accept == ("a.txt",)
