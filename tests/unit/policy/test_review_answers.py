"""Answers to reviews: which changes they accept."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from llm_do_temporal.errors import DecisionRefused
from llm_do_temporal.policy.layers.answer import LineComment, ReviewAnswer, named
from llm_do_temporal.policy.layers.carried import CarriedLayer, LayerUpdate
from llm_do_temporal.policy.layers.layer import Layer, LayerEntry, layer_of
from tests.support.workshops.layered import EDITOR, text_file

SHOWN = "a" * 64
PATHS = ("README.md", "src", "src/a.py", "src/b.py", "src-old/c.py")


def _layer(*paths: str) -> Layer:
    return layer_of({path: LayerEntry(now=text_file("new"), base=None, author=EDITOR) for path in paths})


@pytest.mark.parametrize(
    ("answer", "accepted"),
    [
        ({}, PATHS),
        ({"accept": []}, ()),
        ({"accept": ["src/"]}, ("src", "src/a.py", "src/b.py")),
        ({"accept": ["src/a.py", "src/a.py", "README.md"]}, ("README.md", "src/a.py")),
        # A file that is accepted in part, or as a person has edited it, is not accepted as a whole.
        ({"hunks": {"src/a.py": ["1"]}}, ("README.md", "src", "src/b.py", "src-old/c.py")),
        ({"accept": ["src/"], "edits": {"src/b.py": "b" * 64}}, ("src", "src/a.py")),
    ],
)
def test_an_answer_accepts_exactly_the_paths_that_it_names(
    answer: dict[str, object], accepted: tuple[str, ...]
) -> None:
    taken = ReviewAnswer.model_validate({"changes": SHOWN, **answer}).paths(_layer(*PATHS))

    assert sorted(taken) == sorted(accepted)


def test_a_conflict_is_accepted_by_its_name_and_by_no_folder_or_star() -> None:
    layer, conflicts = _layer(*PATHS), frozenset({"src/a.py"})

    assert "src/a.py" not in ReviewAnswer(changes=SHOWN).paths(layer, conflicts)
    for folder in ("src/", "/"):
        assert "src/a.py" not in ReviewAnswer(changes=SHOWN, accept=(folder,)).paths(layer, conflicts)
    with pytest.raises(DecisionRefused, match="by somebody else"):
        ReviewAnswer(changes=SHOWN, accept=("src/",)).paths(_layer("src/a.py"), conflicts)
    assert "src/a.py" in ReviewAnswer(changes=SHOWN, accept=("*", "src/a.py")).paths(layer, conflicts)


@pytest.mark.parametrize("everything", ["*", "/"])
def test_everything_is_named_in_two_ways_while_no_file_has_the_name_of_one(everything: str) -> None:
    assert sorted(ReviewAnswer(changes=SHOWN, accept=(everything,)).paths(_layer(*PATHS))) == sorted(PATHS)


def test_a_file_called_like_a_word_is_accepted_by_its_path_alone() -> None:
    """The name of a changed file is chosen by the model."""
    layer = _layer("*", "**", "./a", "b", "c/*")
    with pytest.raises(DecisionRefused, match="may mean all changes, or the changed file"):
        ReviewAnswer(changes=SHOWN, accept=("*",)).paths(layer)
    for path in layer.changes:
        assert ReviewAnswer(changes=SHOWN, accept=(named(path),)).paths(layer) == [path]
    assert sorted(ReviewAnswer(changes=SHOWN).paths(layer)) == sorted(layer.changes)


@pytest.mark.parametrize("name", ["src/z.py", "srcs/", "", "../README.md", "SRC/a.py"])
def test_a_path_that_was_not_shown_is_refused(name: str) -> None:
    with pytest.raises(DecisionRefused, match="not among the changes"):
        ReviewAnswer(changes=SHOWN, accept=(name,)).paths(_layer(*PATHS))


@pytest.mark.parametrize("comment", [{"path": "a", "text": ""}, {"path": "a", "line": 0, "text": "x"}])
def test_a_comment_has_words_and_a_line_of_the_file(comment: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        LineComment.model_validate(comment)


def test_an_update_is_put_over_the_layer_or_comes_with_a_manifest_of_its_own() -> None:
    before = CarriedLayer(manifest="c" * 64, recent=_layer("a"))

    assert before.updated(LayerUpdate(entries=_layer("b"))) == CarriedLayer(manifest="c" * 64, recent=_layer("a", "b"))
    assert before.updated(LayerUpdate(entries=_layer("b"), manifest=SHOWN)).recent == _layer("b")
