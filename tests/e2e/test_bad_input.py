"""A mistake gets one clear line that says what to do, the right exit code, and leaves no run behind."""

from __future__ import annotations

import json
import socket
import subprocess
from pathlib import Path

import pytest

from tests.support.people.desk import Desk
from tests.support.ports import unused_port

WORKSHOP = "name: bad\nsandbox: {root: .}\n"
FINE = "---\ndescription: Fine.\n---\nSay hi.\n"


@pytest.fixture
def bad(desk: Desk) -> Desk:
    """A workshop of our own in place of the shipped one."""
    desk.workshop = desk.workshop.parent / "bad"
    desk.workshop.mkdir()
    write(desk, "workshop.yaml", WORKSHOP)
    write(desk, "fine.worker", FINE)
    return desk


def write(desk: Desk, name: str, text: str) -> None:
    """Put a file into the workshop."""
    (desk.workshop / name).write_text(text, encoding="utf-8")


def told(done: subprocess.CompletedProcess[str], *parts: str) -> None:
    """Nothing on stdout, no traceback, and every part in what was said."""
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("llm-do-temporal: ")
    for part in parts:
        assert part in done.stderr, done.stderr


def test_a_folder_without_a_workshop(bad: Desk) -> None:
    (bad.workshop / "workshop.yaml").unlink()
    told(bad.type("start", "fine", "hi", code=8), "workshop.yaml")


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("attached", "policy", "part"),
    [
        # not there
        ("missing.pdf", "", "missing.pdf'"),
        # a folder
        ("folder", "", "folder' is a folder"),
        # more bytes than the worker takes
        ("big.pdf", "attachment_policy: {max_total_bytes: 10}", "10"),
        # a type that the worker does not take
        ("big.pdf", "attachment_policy: {allowed_suffixes: [.txt]}", ".txt"),
        # more files than the worker takes
        ("big.pdf", "attachment_policy: {max_attachments: 0}", "at most 0"),
    ],
)
def test_a_bad_attachment_starts_no_run(bad: Desk, attached: str, policy: str, part: str) -> None:
    write(bad, "fine.worker", f"---\nname: fine\n{policy}\n---\nSay hi.\n")
    (bad.workshop / "folder").mkdir()
    write(bad, "big.pdf", "%PDF-1.4 eleven bytes and more")
    done = bad.type("start", "fine", "hi", "--model", "offline:echo", "-a", str(bad.workshop / attached), code=2)
    told(done, part)


def test_no_model_anywhere_names_every_place_to_set_one(bad: Desk) -> None:
    told(bad.type("start", "fine", "hi", code=2), "no model", "workshop.yaml", "--model", "LLM_DO_MODEL")


def test_a_missing_key_is_named_before_there_is_a_run(bad: Desk) -> None:
    done = bad.type("start", "fine", "hi", "--model", "openai-chat:gpt-test", code=2)
    assert "OPENAI_API_KEY is not set, and the model 'openai-chat:gpt-test' needs it" in done.stderr


def test_dev_says_that_its_port_is_in_use(bad: Desk) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        told(bad.type("dev", "--port", port, code=2), f"port {port} is in use", "--port")


@pytest.mark.thorough
def test_a_second_dev_in_the_same_workshop_says_who_serves_it(bad: Desk) -> None:
    bad.begin("dev", "--port", str(unused_port()), "--ui-port", str(unused_port()))
    address = bad.host.address
    told(bad.type("dev", "--port", str(unused_port()), code=2), "already serves", address)
    assert bad.host.address == address


def test_a_server_that_does_not_answer(bad: Desk) -> None:
    told(bad.type("list", "--address", "127.0.0.1:1", code=4), "127.0.0.1:1")


@pytest.mark.thorough
def test_a_decision_that_cannot_be_taken(shop: Desk) -> None:
    first, second = shop.decks[:2]
    shop.type("start", "pitch_orchestrator", f"evaluate {first}.pdf and {second}.pdf", "--id", "unsure", "--detach")
    one, other = shop.pending("unsure", 2)
    told(shop.type("approve", "nobody", code=2), "no run 'nobody'")
    told(shop.type("approve", "unsure", "a9", code=2), "no approval 'a9'", "a1")
    told(shop.type("modify", "unsure", "a1", "--args", "{", code=2), "JSON")
    told(shop.type("modify", "unsure", "a1", "--args", json.dumps({"path": 5}), code=2), "path")
    escape = json.dumps({"path": "/../x", "content": "x"})
    told(shop.type("modify", "unsure", "a1", "--args", escape, code=2), "..")
    told(shop.type("approve", "unsure", code=2), "2 are pending", "a1", "a2")
    assert shop.pending("unsure", 2) == [one, other]
    shop.type("approve", "unsure", one["id"])
    told(shop.type("reject", "unsure", "a1", "--reason", "late", code=2), "already decided")
    told(shop.type("approve", "unsure", code=2), "1 is pending", other["id"], "this terminal has shown none")
    for command in (["approve"], ["reject", "--reason", "late"], ["modify", "--args", "{}"]):
        told(shop.type(*command, "unsure", "--digest", other["digest"][:31], code=2), "at least 32 digits, and has 31")
    told(shop.type("approve", "unsure", "--digest", "0" * 32, code=2), "no pending approvals", "have the digest")
    shop.type("approve", "unsure", "--digest", other["digest"][:32])
    shop.type("watch", "unsure")
    assert sorted(shop.evaluations()) == [first, second]
    assert not list(Path(shop.workshop).rglob("*.tmp"))
