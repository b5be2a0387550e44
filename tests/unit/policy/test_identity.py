"""Identical calls have one identity; whatever makes them differ makes it another."""

from __future__ import annotations

from typing import Any

import pytest

from llm_do_temporal.policy.files.attachments import Attachment
from llm_do_temporal.policy.files.sandbox import Mount, Tree
from llm_do_temporal.policy.identity import IDENTITY_VERSION, SeenFile, changes_nothing, identity_of, subject_of
from llm_do_temporal.policy.uses import CapabilityUse

TREE = Tree(mounts=(Mount(at="/", root="files"),))
OTHER = Tree(mounts=(Mount(at="/", root="other"),))
SEEN = SeenFile(path="/a", place="files/a", sha256="1", mode=0o644, after="2")
HANDED = Attachment(path="/a.pdf", bytes=1, media_type="application/pdf", sha256="1" * 64)


def identity(**more: Any) -> str:
    keys: dict[str, Any] = {
        "tool": "write_file",
        "args": {"path": "/a"},
        "uses": [CapabilityUse(name="sandbox.write", payload={"path": "/a"})],
        "version": IDENTITY_VERSION,
        "tree": TREE,
        "files": [SEEN],
        "attachments": [HANDED],
        "circumstances": "",
        "whom": [],
    }
    return identity_of(**{**keys, **more})


@pytest.mark.parametrize(
    "other",
    [
        {"tool": "edit_file"},
        {"args": {"path": "/b"}},
        {"tree": OTHER},
        {"files": [SEEN.model_copy(update={"sha256": "3"})]},
        {"attachments": []},
        {"circumstances": "bare"},
        {"whom": ["ada"]},
        {"done": True},
        {"version": IDENTITY_VERSION + 1},
    ],
)
def test_what_differs_has_another_identity(other: dict[str, Any]) -> None:
    assert identity(**other) != identity()


def test_a_subject_is_where_the_file_really_is() -> None:
    assert subject_of(CapabilityUse(name="sandbox.read", payload={"path": "/a"}), TREE) == ["sandbox.read", "files/a"]
    assert subject_of(CapabilityUse(name="sandbox.read", payload={"path": "/../a"}), TREE) == ["sandbox.read", None]
    assert subject_of(CapabilityUse(name="python.call", payload={"sha256": "1"}), TREE) == ["python.call", None, "1"]


def test_a_file_is_like_it_was_with_the_same_bytes_and_mode_in_the_same_place() -> None:
    assert SEEN.is_like(SEEN)
    assert SEEN.model_copy(update={"place": None}).is_like(SEEN)
    for change in ({"place": "files/b"}, {"sha256": "2"}, {"mode": 0o600}):
        assert not SEEN.is_like(SEEN.model_copy(update=change))


def test_a_call_that_leaves_all_as_it_is_changes_nothing() -> None:
    assert changes_nothing([SEEN.model_copy(update={"after": "1"})])
    assert not changes_nothing([SEEN])
    assert not changes_nothing([])
