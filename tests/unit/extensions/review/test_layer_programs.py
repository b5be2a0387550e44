"""Random programs in a real folder, and in a layer that is then committed: the same bytes, permissions and names."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

from llm_do_temporal.extensions.review.commit import LayerCommit
from llm_do_temporal.extensions.review.policy.review import Section, accepted, joined
from llm_do_temporal.policy.files.protection import Protection
from llm_do_temporal.policy.layers.layer import Layer, changes_of
from llm_do_temporal.sandbox.bubblewrap import working_bwrap
from llm_do_temporal.sandbox.layers.contents import LayerContents, base_files
from llm_do_temporal.sandbox.layers.overlay import overlay_problem
from tests.support.extensions.review.reviewed import UnsyncedDisk
from tests.support.workshops.layer_programs import LayerPlay, in_folder, random_program, random_tree
from tests.support.workshops.layered import MemoryBlobs, Seen, as_seen, seen

PROGRAMS = int(os.environ.get("LAYER_PROGRAMS", "300"))
"""Number of programs; `make layers` takes ten thousand."""
WITH_COMMANDS = 6
"""One of so many programs has commands among its steps: each starts processes."""
SHARES = 10
"""Number of tests among which the programs are divided: a slow machine takes half a second for a program."""


@pytest.fixture
def commands() -> bool:
    return overlay_problem(working_bwrap()) is None


@pytest.mark.sampled(3)
@pytest.mark.parametrize("share", range(SHARES))
def test_a_layer_that_is_committed_is_what_the_program_would_have_done(
    tmp_path: Path, share: int, commands: bool
) -> None:
    for seed in range(share, PROGRAMS, SHARES):
        folder = tmp_path / str(seed)
        folder.mkdir()
        _play(random.Random(seed), folder, seed, commands=commands and seed % WITH_COMMANDS == 0)
        shutil.rmtree(folder)


def _play(dice: random.Random, folder: Path, seed: int, *, commands: bool) -> None:
    base, real, part = (folder / name for name in ("base", "real", "part"))
    base.mkdir()
    random_tree(dice, base)
    for copy in (real, part):
        shutil.copytree(base, copy, symlinks=True)
    before = seen(base)
    contents = LayerContents(MemoryBlobs())
    program = random_program(dice, commands=commands)
    with base_files(base, contents=contents) as files:
        play = LayerPlay(files, contents, folder)
        for operation in program:
            assert play.carry_out(operation) == in_folder(operation, real), (seed, operation, program)
            play.layer = Layer.model_validate_json(play.layer.model_dump_json())
        assert seen(base) == before, (seed, program)
    _commit(play.layer, base, contents)
    assert seen(base) == seen(real), (seed, program)
    chosen = [change.path for change in changes_of(play.layer) if dice.random() < 0.5]
    wanted = joined(play.layer, chosen)
    _commit(accepted(play.layer, chosen), part, contents)
    assert seen(part) == _expected(before, play.layer, wanted, contents), (seed, program, chosen)


def _commit(layer: Layer, folder: Path, contents: LayerContents) -> None:
    commit = LayerCommit(folder, contents, Protection(), UnsyncedDisk())
    outcome = commit.commit(layer, key="r1", reviewed=layer.digest(), sections=list(Section))
    assert outcome.committed
    assert not outcome.conflicts


def _expected(before: Seen, layer: Layer, wanted: set[str], contents: LayerContents) -> Seen:
    after = dict(before)
    for path in wanted:
        after.pop(path, None)
        node = layer.entries[path].now
        if node is not None:
            after[path] = as_seen(node, path, contents)
    return after
