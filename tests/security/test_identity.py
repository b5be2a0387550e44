"""A remembered decision covers the call that was decided and no other, whatever looks alike."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from llm_do_temporal.desk import state as desk
from llm_do_temporal.messages.approvals import DecisionKind, DeskState, RequestApprovalInput
from llm_do_temporal.policy.files.attachments import Attachment
from llm_do_temporal.policy.files.sandbox import Mount, Tree
from llm_do_temporal.policy.identity import IDENTITY_VERSION, SeenFile
from llm_do_temporal.policy.values import CapabilityUse
from tests.support.workflow.desk_questions import LATER, asked, decided, request


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def use(name: str, **payload: Any) -> tuple[CapabilityUse, ...]:
    return (CapabilityUse(name=name, payload=payload),)


def tree(root: str, at: str = "/", **more: Any) -> Tree:
    return Tree(mounts=(Mount(at=at, root=root, **more),))


def file(path: str, text: str | None, *, place: str | None = None, **more: Any) -> SeenFile:
    facts = {"path": path, "place": place or path[1:], "sha256": None if text is None else sha(text)}
    return SeenFile.model_validate({**facts, "mode": None if text is None else 0o644, **more})


def handed(path: str, text: str, **more: Any) -> Attachment:
    return Attachment.model_validate(
        {"path": path, "sha256": sha(text), "bytes": len(text), "media_type": "application/pdf", **more}
    )


def question(**more: Any) -> RequestApprovalInput:
    return request(**{"identity_version": IDENTITY_VERSION, **more})


READ: dict[str, Any] = {
    "tool": "read_file",
    "args": {"path": "/a.txt"},
    "tree": tree("."),
    "capabilities": use("sandbox.read", path="/a.txt"),
    "files": (file("/a.txt", "as it was"),),
}
WRITE: dict[str, Any] = {
    "tool": "write_file",
    "args": {"path": "/a.txt", "content": "new"},
    "tree": tree("."),
    "capabilities": use("sandbox.write", path="/a.txt", bytes=3),
    "files": (file("/a.txt", "old", after=sha("new")),),
}
CALL: dict[str, Any] = {
    "tool": "worker_call",
    "args": {"worker_name": "reader", "input_data": "go", "attachments": ["/a.pdf", "/b.pdf"]},
    "tree": tree("."),
    "capabilities": use("worker.call", worker="reader", input="go", attachments=["/a.pdf", "/b.pdf"]),
    "attachments": (handed("/a.pdf", "one"), handed("/b.pdf", "two")),
    "circumstances": sha("the definition of reader"),
}
SHARE: dict[str, Any] = {
    "tool": "worker_call",
    "args": {"path": "/a.pdf", "bytes": 3, "target_worker": "reader"},
    "tree": tree("."),
    "capabilities": use("sandbox.read", path="/a.pdf", bytes=3, target_worker="reader"),
    "attachments": (handed("/a.pdf", "one"),),
    "circumstances": sha("the definition of reader"),
}
CONTEXT: dict[str, Any] = {
    "tool": "llm_worker_call",
    "args": {"worker_name": "t", "input": "go", "extra_context": ["/a.txt", "/b.txt"]},
    "tree": tree("."),
    "capabilities": use("worker.call", worker="t", input="go"),
    "files": (file("/a.txt", "one"), file("/b.txt", "two")),
    "circumstances": sha("the template"),
}
COMMAND: dict[str, Any] = {
    "tool": "shell",
    "args": {"command": "python run.py"},
    "tree": tree("."),
    "capabilities": use("proc.exec", argv=["python", "run.py"], cwd="/"),
    "files": (file("/run.py", "print()"),),
    "circumstances": sha("the folders, read-only or not, and the network"),
}
PYTHON: dict[str, Any] = {
    "tool": "tidy",
    "args": {"n": 1},
    "capabilities": use("python.call", tool="tidy", sha256=sha("tools.py")),
}
OTHERS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "read: other bytes": (READ, {"files": (file("/a.txt", "as it is"),)}),
    "read: gone": (READ, {"files": (file("/a.txt", None),)}),
    "read: a link leads elsewhere": (READ, {"files": (file("/a.txt", "as it was", place="b.txt"),)}),
    "read: the same path in another tree": (READ, {"tree": tree("sub"), "files": (file("/a.txt", "x"),)}),
    "read: the same path and bytes in another tree": (
        READ,
        {"tree": tree("sub"), "files": (file("/a.txt", "as it was", place="sub/a.txt"),)},
    ),
    "read: another tree, unseen": (READ, {"tree": tree("sub"), "files": ()}),
    "read: not seen at all": (READ, {"files": ()}),
    "read: one file more": (READ, {"files": (*READ["files"], file("/b.txt", "more"))}),
    "read: a digest in capitals": (READ, {"files": (file("/a.txt", "x").model_copy(update={"sha256": "A" * 64}),)}),
    "read: for writing": (READ, {"capabilities": use("sandbox.write", path="/a.txt")}),
    "read: also written": (
        READ,
        {"capabilities": (*READ["capabilities"], *use("sandbox.write", path="/a.txt"))},
    ),
    "read: the path in other capitals": (
        READ,
        {"args": {"path": "/A.txt"}, "capabilities": use("sandbox.read", path="/A.txt")},
    ),
    "read: an offset that is text": (READ, {"args": {"path": "/a.txt", "offset": "0"}}),
    "read: an offset more": (READ, {"args": {"path": "/a.txt", "offset": 0}}),
    "read: another tool": (READ, {"tool": "write_file"}),
    "write: over other bytes": (WRITE, {"files": (file("/a.txt", "precious", after=sha("new")),)}),
    "write: over a file where there was none": (
        WRITE | {"files": (file("/a.txt", None, after=sha("new")),)},
        {"files": (file("/a.txt", "precious", after=sha("new")),)},
    ),
    "write: over an empty file where there was none": (
        WRITE | {"files": (file("/a.txt", None, after=sha("new")),)},
        {"files": (file("/a.txt", "", after=sha("new")),)},
    ),
    "write: where it was shown to be gone": (WRITE, {"files": (file("/a.txt", None, after=sha("new")),)}),
    "write: through a link": (WRITE, {"files": (file("/a.txt", "old", place="b.txt", after=sha("new")),)}),
    "write: in another tree": (
        WRITE,
        {"tree": tree("sub"), "files": (file("/a.txt", "old", place="sub/a.txt", after=sha("new")),)},
    ),
    "write: in a mount of the same name": (
        WRITE,
        {"tree": Tree(mounts=(Mount(at="/", root="x"), Mount(at="/n", root="y")))},
    ),
    "write: other content": (WRITE, {"args": {"path": "/a.txt", "content": "new\n"}}),
    "write: other content that is there already": (
        WRITE,
        {"args": {"path": "/a.txt", "content": "x"}, "files": (file("/a.txt", "x", after=sha("x")),)},
    ),
    "write: there already, in another place": (
        WRITE,
        {"files": (file("/a.txt", "new", place="b.txt", after=sha("new")),)},
    ),
    "write: a definition": (WRITE, {"capabilities": use("sandbox.write.definitions", path="/a.txt", bytes=3)}),
    "write: an edit that goes on from its own result": (
        {**WRITE, "tool": "edit_file", "files": (file("/a.txt", "a", after=sha("aa")),)},
        {"files": (file("/a.txt", "aa", after=sha("aaa")),)},
    ),
    "call: an attachment swapped": (CALL, {"attachments": (handed("/a.pdf", "ONE"), handed("/b.pdf", "two"))}),
    "call: both attachments swapped": (CALL, {"attachments": (handed("/a.pdf", "two"), handed("/b.pdf", "one"))}),
    "call: an attachment of other bytes, as long": (
        CALL,
        {"attachments": (handed("/a.pdf", "eno"), handed("/b.pdf", "two"))},
    ),
    "call: an attachment less": (CALL, {"attachments": (handed("/a.pdf", "one"),)}),
    "call: an attachment more": (CALL, {"attachments": (*CALL["attachments"], handed("/c.pdf", "three"))}),
    "call: an attachment twice": (CALL, {"attachments": (*CALL["attachments"], handed("/a.pdf", "one"))}),
    "call: an attachment of another kind": (
        CALL,
        {"attachments": (handed("/a.pdf", "one", media_type="text/html"), handed("/b.pdf", "two"))},
    ),
    "call: from another tree": (CALL, {"tree": tree("sub")}),
    "call: the worker was written anew": (CALL, {"circumstances": sha("another definition of reader")}),
    "call: a worker that nothing is known of": (CALL, {"circumstances": ""}),
    "share: other bytes, as many": (SHARE, {"attachments": (handed("/a.pdf", "eno"),)}),
    "share: with a worker that was written anew": (SHARE, {"circumstances": sha("another definition of reader")}),
    "share: the same path in another tree": (SHARE, {"tree": tree("sub")}),
    "context: other bytes": (CONTEXT, {"files": (file("/a.txt", "one"), file("/b.txt", "2"))}),
    "context: files swapped": (CONTEXT, {"files": (file("/a.txt", "two"), file("/b.txt", "one"))}),
    "context: one file is gone": (CONTEXT, {"files": (file("/a.txt", "one"),)}),
    "context: the template was written anew": (CONTEXT, {"circumstances": sha("another template")}),
    "command: what it runs was written anew": (COMMAND, {"files": (file("/run.py", "import os"),)}),
    "command: what it runs is there now": (COMMAND | {"files": ()}, {"files": (file("/run.py", "print()"),)}),
    "command: in another folder": (COMMAND, {"capabilities": use("proc.exec", argv=["python", "run.py"], cwd="/x")}),
    "command: sees other folders": (COMMAND, {"circumstances": sha("the folders, all writable")}),
    "command: other words from the same text": (
        COMMAND,
        {"capabilities": (*COMMAND["capabilities"], *use("proc.exec.unlisted", argv=["sh"], cwd="/"))},
    ),
    "command: in another tree": (COMMAND, {"tree": tree("sub")}),
    "python: another tools.py": (PYTHON, {"capabilities": use("python.call", tool="tidy", sha256=sha("other"))}),
    "python: true is not 1": (PYTHON, {"args": {"n": True}}),
    "python: 1.0 is not 1": (PYTHON, {"args": {"n": 1.0}}),
    "python: text is not a number": (PYTHON, {"args": {"n": "1"}}),
    "people: others must agree": (READ, {"approvers": ("ann",)}),
    "people: more must agree": (READ, {"quorum": 2}),
    "people: not who started it": (READ, {"forbid_own": True}),
    "version: asked by an earlier one": (READ, {"identity_version": IDENTITY_VERSION - 1}),
    "version: asked by a later one": (READ, {"identity_version": IDENTITY_VERSION + 1}),
    "version: remembered by an earlier one": (
        READ | {"identity_version": IDENTITY_VERSION - 1},
        {"identity_version": IDENTITY_VERSION},
    ),
}
"""A call that was decided, and what is different in one that must be asked about for itself."""


def remembered(call: dict[str, Any], kind: DecisionKind) -> DeskState:
    state, _ = decided(asked(question(**call)), id="a1", decision=kind, note="so", remember="session")
    return state


@pytest.mark.parametrize("kind", [DecisionKind.APPROVE, DecisionKind.REJECT])
@pytest.mark.parametrize("other", OTHERS)
def test_another_call_is_asked_about_for_itself(other: str, kind: DecisionKind) -> None:
    call, change = OTHERS[other]
    state = remembered(call, kind)
    _, approval = desk.with_request(state, question(**{**call, **change, "key": "2"}), now=LATER)
    assert approval.verdict is None


@pytest.mark.parametrize("other", OTHERS)
def test_another_call_that_waits_beside_it_is_not_answered_with_it(other: str) -> None:
    call, change = OTHERS[other]
    both = asked(question(**call), question(**{**call, **change, "key": "2"}))
    state, answered = decided(both, id="a1", remember="session")
    assert [one.id for one in answered] == ["a1"]
    assert [one.id for one in desk.pending(state)] == ["a2"]


@pytest.mark.control
@pytest.mark.parametrize("call", [READ, WRITE, CALL, SHARE, CONTEXT, COMMAND, PYTHON])
def test_the_same_call_is_not_asked_about_again(call: dict[str, Any]) -> None:
    state = remembered(call, DecisionKind.APPROVE)
    again = {**call, "args": dict(reversed(call["args"].items())), "key": "2", "invocation": "run/main/other-1"}
    _, approval = desk.with_request(state, question(**again), now=LATER)
    assert approval.verdict is not None
    assert (approval.verdict.door, approval.verdict.digest) == ("grant", None)


@pytest.mark.control
def test_a_write_that_changes_nothing_any_more_is_not_asked_about_again() -> None:
    state = remembered(WRITE, DecisionKind.APPROVE)
    done = question(**{**WRITE, "key": "2", "files": (file("/a.txt", "new", after=sha("new")),)})
    _, approval = desk.with_request(state, done, now=LATER)
    assert approval.verdict is not None
