"""Settlements of random layers: what was accepted can be committed, and no section takes a change of another one."""

from __future__ import annotations

import random

import pytest

from llm_do_temporal.errors import LlmDoError
from llm_do_temporal.policy.files.protection import Protection
from llm_do_temporal.policy.layers.draft import LayerDraft
from llm_do_temporal.policy.layers.layer import NO_LAYER, Layer
from llm_do_temporal.policy.layers.merge import against
from llm_do_temporal.policy.layers.nodes import NodeKind
from llm_do_temporal.policy.layers.review import ReviewManifest, sections_of
from llm_do_temporal.policy.layers.rounds.rebase import Rebase, rebased
from llm_do_temporal.policy.layers.rounds.settlement import SectionChoice, settled
from llm_do_temporal.policy.layers.sections import Section
from tests.support.workshops.layered import EDITOR, FilesInMind, kept_text, text_file

SHARED = Protection(shared=("data",))
FOLDERS = ("data", "data/a", "data/a/b", "data/x.worker", ".ci", "data/c")
NAMES = ("one.txt", "two.txt", "w.worker", ".envrc", "b", "link")


def _path(chance: random.Random) -> str:
    return f"{chance.choice(FOLDERS)}/{chance.choice(NAMES)}"


def _base(chance: random.Random) -> FilesInMind:
    files = FilesInMind()
    for _ in range(chance.randint(3, 12)):
        path = _path(chance)
        if path not in files.nodes and not any(
            over in files.nodes and files.nodes[over].sha256 for over in _over(path)
        ):
            files.put(path, text_file(chance.choice("abc"), chance.choice([0o644, 0o755])))
    return files


def _over(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def _drafted(chance: random.Random, files: FilesInMind) -> Layer:
    draft = LayerDraft(NO_LAYER, files, EDITOR)
    for _ in range(chance.randint(1, 15)):
        path, other = _path(chance), _path(chance)
        step = chance.choice(("write", "write", "delete", "folder", "rename", "link", "empty"))
        try:
            if step == "write":
                draft.write(path, kept_text(chance.choice("abcdef")))
            elif step == "rename":
                draft.rename(path, other)
            elif step == "link":
                draft.link(path, chance.choice(["one.txt", "/etc"]))
            elif step == "empty":
                draft.delete(chance.choice(FOLDERS))
            elif step == "folder":
                draft.folder(path)
            else:
                draft.delete(path)
        except LlmDoError:
            continue  # what makes no sense in this state of the files
    return draft.layer()


def _moved(chance: random.Random, files: FilesInMind) -> None:
    """Have somebody else change the files."""
    for _ in range(chance.randint(0, 4)):
        path = _path(chance)
        node = files.nodes.get(path)
        if chance.random() < 0.3:
            for one in [one for one in files.nodes if one == path or one.startswith(f"{path}/")]:
                del files.nodes[one]
        elif chance.random() < 0.1:
            folder = chance.choice(FOLDERS)
            for one in [one for one in files.nodes if one == folder or one.startswith(f"{folder}/")]:
                del files.nodes[one]
        elif not any(
            over in files.nodes and files.nodes[over].kind is not NodeKind.FOLDER for over in _over(path)
        ) and (node is None or node.kind is NodeKind.FILE):
            files.put(path, text_file(chance.choice("xyz")))


def _can_be_accepted(rebase: Rebase) -> bool:
    """Return whether every conflict is one that people may decide."""
    words = ("somebody else has", "somebody has removed this folder", "it is one file with")
    return all(reason.startswith(words) for reason in rebase.conflicts.values())


@pytest.mark.parametrize("seed", range(400))
def test_what_was_accepted_can_be_committed_and_is_of_the_accepted_sections(seed: int) -> None:
    chance = random.Random(seed)
    files = _base(chance)
    drafted = _drafted(chance, files)
    _moved(chance, files)
    rebase = rebased(drafted, files)
    read = Layer.model_validate_json(rebase.layer.model_dump_json())
    assert read.digest() == rebase.layer.digest()
    sections = sections_of(read, SHARED)
    manifest = ReviewManifest(layer=read, sections=sections, conflicts=rebase.conflicts)
    choices: dict[Section, SectionChoice] = {}
    for section, paths in sections.items():
        free = [path for path in paths if path not in rebase.conflicts or _can_be_accepted(rebase)]
        if chance.random() < 0.7:
            choices[section] = SectionChoice(
                whole=tuple(chance.sample(free, chance.randint(0, len(free)))), keeps_rest=chance.random() < 0.5
            )
    settlement = settled(manifest, choices)

    part = settlement.accepted
    assert against(part, files).conflicts == (), seed
    belongs = {path: section for section, paths in sections.items() for path in paths}
    for path, entry in part.changes.items():
        is_new_folder = entry.base is None and entry.now is not None and entry.now.kind is NodeKind.FOLDER
        assert belongs[path] in choices or (is_new_folder and belongs[path] is Section.ORDINARY), (seed, path)
    assert part.with_layer(settlement.rest).digest() == read.digest()
    assert settlement.kept.entries.items() <= settlement.rest.entries.items()
    # What is kept is a layer by itself, over the files with what was accepted.
    Layer.model_validate_json(settlement.kept.model_dump_json())
    for path in settlement.kept.entries:
        kept = belongs[path]
        assert kept in choices or settlement.kept.entries[path].base is None
