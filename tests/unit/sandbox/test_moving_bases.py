"""Random layers over bases that others change meanwhile, and random siblings: joined exactly, or told."""

from __future__ import annotations

import random
import shutil
from dataclasses import replace
from os.path import lexists
from pathlib import Path

from llm_do_temporal.policy.files.protection import Protection
from llm_do_temporal.policy.layers.layer import NO_LAYER, Layer
from llm_do_temporal.policy.layers.merge import against, merged
from llm_do_temporal.policy.layers.nodes import alike
from llm_do_temporal.policy.layers.sections import Section
from llm_do_temporal.sandbox.layers.base_files import base_files
from llm_do_temporal.sandbox.layers.commit import LayerCommit
from llm_do_temporal.sandbox.layers.contents import LayerContents
from llm_do_temporal.sandbox.layers.journal import CommitOutcome
from tests.support.workshops.layer_programs import LayerPlay, in_folder, random_program, random_tree
from tests.support.workshops.layered import MemoryBlobs, UnsyncedDisk, as_seen, seen

CASES = 200


def _played(dice: random.Random, folder: Path, contents: LayerContents, layer: Layer = NO_LAYER) -> Layer:
    """Return the layer after a random program; the folder stays as it is."""
    with base_files(folder, contents=contents) as base:
        play = LayerPlay(base, contents, folder, layer)
        for operation in random_program(dice, commands=False):
            play.carry_out(operation)
        return play.layer


def _commit(layer: Layer, folder: Path, contents: LayerContents, key: str) -> CommitOutcome:
    commit = LayerCommit(folder, contents, Protection(), UnsyncedDisk())
    return commit.commit(layer, key=key, reviewed=layer.digest(), sections=list(Section))


def test_a_commit_over_a_base_that_moved_is_exact_or_a_conflict(tmp_path: Path) -> None:
    exact = conflicting = 0
    for seed in range(CASES):
        dice = random.Random(seed)
        folder = tmp_path / str(seed)
        folder.mkdir()
        random_tree(dice, folder)
        contents = LayerContents(MemoryBlobs())
        layer = _played(dice, folder, contents)
        touched = [path for path in layer.changes if lexists(folder / path)]
        for operation in random_program(dice, commands=False)[:3]:
            # Somebody who works on other files all the time is never in the way.
            near = touched and dice.random() < 0.5
            in_folder(replace(operation, path=dice.choice(touched)) if near else operation, folder)
        drifted = seen(folder)
        outcome = _commit(layer, folder, contents, "whole")
        if outcome.committed:
            exact += 1
        else:
            conflicting += 1
            assert seen(folder) == drifted, seed
            with base_files(folder) as base:
                layer = against(layer, base).layer
            assert Layer.model_validate(layer) == layer
            outcome = _commit(layer, folder, contents, "what is left")
        assert (outcome.committed, outcome.conflicts) == (True, ()), seed
        expected = dict(drifted)
        for path, entry in layer.changes.items():
            expected.pop(path, None)
            if entry.now is not None:
                expected[path] = as_seen(entry.now, path, contents)
        assert seen(folder) == expected, seed
        shutil.rmtree(folder)
    assert min(exact, conflicting) > CASES // 10


def test_siblings_are_joined_path_by_path_and_their_layer_fits_together(tmp_path: Path) -> None:
    conflicting = 0
    for seed in range(CASES):
        dice = random.Random(seed)
        folder = tmp_path / str(seed)
        folder.mkdir()
        random_tree(dice, folder)
        contents = LayerContents(MemoryBlobs())
        fork = _played(dice, folder, contents)
        mine, child = (_played(dice, folder, contents, fork) for _ in range(2))
        merge = merged(mine, child, fork)
        assert Layer.model_validate(merge.layer) == merge.layer, seed
        told = {one.path for one in merge.conflicts}
        conflicting += bool(told)
        for path in {**mine.entries, **child.entries}:
            entries = [layer.entries.get(path) for layer in (fork, mine, child, merge.layer)]
            some = next(entry for entry in entries[1:] if entry is not None)
            began, ours, theirs, joined = (some.base if entry is None else entry.now for entry in entries)
            if path in told or alike(theirs, began):
                assert alike(joined, ours), (seed, path)
            else:
                assert alike(joined, theirs), (seed, path)
                assert alike(ours, began) or alike(ours, theirs), (seed, path)
        shutil.rmtree(folder)
    assert CASES // 10 < conflicting < CASES
