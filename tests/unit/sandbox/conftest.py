"""A workshop, opened both ways there are, and the same files with all, or half of them, in a layer only.

Whatever holds for the files of a workshop holds for those of a layer, too.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from llm_do_temporal.sandbox.safe_open import best_way_to_open, open_by_component
from tests.support.layers.layered_tree import LayeredTree, half
from tests.support.workshops.file_tree import Files

_NOT_OF_LAYERS = {
    # Calls that change one layer go one after the other, and a second attempt finds the layer of the first.
    "test_edits_side_by_side_are_all_kept",
    "test_a_second_attempt_after_the_first_one_worked_changes_nothing",
    "test_an_open_reader_keeps_the_old_file_whole",
    # They look at the ways of opening, and at what happens to a folder while it is read.
    "test_a_walk_that_takes_too_long_says_so",
    "test_a_folder_removed_during_the_walk_is_passed_over",
    "test_a_folder_that_keeps_turning_into_a_link_never_lets_anything_out",
    "test_nothing_is_left_of_a_write_that_fails",
    # No layer has folders that may not be read.
    "test_folders_that_may_not_be_read_are_counted",
    # No layer has paths of that many folders.
    "test_folders_nested_deeper_than_python_can_call",
}
_OF_ONE_LAYER = {
    # Thousands of files, and all calls twenty times over.
    "test_a_long_listing_is_cut_in_order",
    "test_no_descriptor_is_left_open",
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "files" in metafunc.fixturenames:
        name = metafunc.function.__name__
        layered = (
            [] if name in _NOT_OF_LAYERS else ["half a layer"] if name in _OF_ONE_LAYER else ["layer", "half a layer"]
        )
        ways = ["best way"] if best_way_to_open() is open_by_component else ["best way", "by component"]
        metafunc.parametrize("files", [*ways, *layered], indirect=True)


@pytest.fixture
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    workshop = tmp_path / "workshop"
    workshop.mkdir()
    match request.param:
        case "layer":
            return LayeredTree(workshop)
        case "half a layer":
            return LayeredTree(workshop, open_below=open_by_component, in_layer=half)
        case way:
            return Files(workshop, open_below=open_by_component if way == "by component" else best_way_to_open())
