"""Bars of a chart stand on the base line, and the highest column is as high as there is room."""

from __future__ import annotations

from llm_do_temporal.ui.content.graphics import HEIGHT, WIDTH, columns, spread


def test_amounts_are_stacked_in_proportion() -> None:
    first, second = columns(["a", "b"], [[1, 1], [4, 0]], "{:.0f}".format)
    assert [bar.kind for bar in first.bars] == ["first", "second"]
    assert [bar.kind for bar in second.bars] == ["first"]
    assert first.bars[0].height == first.bars[1].height == second.bars[0].height / 4
    assert first.bars[1].y + first.bars[1].height == first.bars[0].y
    assert (first.value, second.value, first.label) == ("2", "4", "a")


def test_every_bar_is_within_the_picture() -> None:
    found = columns([str(number) for number in range(8)], [[number, 2, 1] for number in range(8)], str)
    for column in found:
        for bar in column.bars:
            assert bar.x >= 0
            assert bar.x + bar.width <= WIDTH
            assert 0 < bar.y < bar.y + bar.height < HEIGHT


def test_without_amounts_there_are_labels_alone() -> None:
    (column,) = columns(["a"], [[0]], str)
    assert (column.bars, column.value, column.label) == ((), "", "a")
    assert columns([], [], str) == []


def test_values_are_counted_in_equal_parts_of_a_range() -> None:
    assert spread([0, 0.1, 0.5, 0.99, 1], 4, 0, 1) == [2, 0, 1, 2]
    assert spread([3, 3], 3, 3, 3) == [2, 0, 0]
