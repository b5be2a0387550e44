"""From nothing to a first answer: `init`, a file alone, `doctor`, and mistakes that are said before any run."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from llm_do_temporal.client.embedded.server import running_host
from tests.support.patience import COMMAND_SECONDS, eventually
from tests.support.people.desk import Desk
from tests.support.people.forked_program import run_forked
from tests.support.ports import unused_port


def typed(desk: Desk, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run a command exactly as it is written, and hold its exit code against `code`."""
    done = subprocess.run(
        [sys.executable, "-m", "llm_do_temporal.cli", *arguments],
        env=desk.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return done


def findings(printed: str) -> dict[str, dict[str, Any]]:
    return {one["what"]: one for one in json.loads(printed)["findings"]}


@pytest.mark.thorough
@pytest.mark.extension("maintenance")
def test_what_init_says_to_type_works(desk: Desk) -> None:
    shop = desk.workshop.parent / "shop"
    said = typed(desk, "init", str(shop)).stderr.splitlines()
    desk.workshop = shop
    start, doctor = [shlex.split(line)[1:] for line in said if line.startswith("  llm-do-temporal ")]
    waits = typed(desk, *start, code=3).stderr  # without a terminal nobody is asked in place
    approve, watch = [
        shlex.split(line.partition("llm-do-temporal ")[2])
        for line in waits.splitlines()
        if " approve " in line or " watch " in line
    ]
    assert "the workshop's own (process " in typed(desk, *doctor).stdout
    typed(desk, *approve)
    assert "1 note in /notes.md. The new one: buy bread" in typed(desk, *watch).stdout
    assert (shop / "files/notes.md").read_text() == "- buy bread\n"


@pytest.mark.thorough
@pytest.mark.extension("maintenance")
def test_doctor_says_what_a_server_lacks(desk: Desk, address: str) -> None:
    lacking = findings(desk.type("doctor", "--address", address, "--json", code=1).stdout)
    assert lacking["Temporal"]["message"] == f"{address}, named by --address"
    assert lacking["search attributes"]["status"] == "warning"
    assert lacking["worker service"]["status"] == "error"
    wrong = findings(desk.type("doctor", "--address", address, "--namespace", "nobodys", "--json", code=1).stdout)
    assert wrong["namespace"]["message"] == "there is no namespace 'nobodys'"


@dataclass
class Alone:
    """A folder with one worker file, and somebody who types there."""

    folder: Path
    environment: dict[str, str]

    @property
    def cache(self) -> Path:
        """Where servers of single files keep their state."""
        return Path(self.environment["XDG_CACHE_HOME"]) / "llm-do-temporal" / "files"

    def type(self, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        done = run_forked(arguments, folder=self.folder, environment=self.environment)
        assert done.returncode == code, f"{arguments}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done


@pytest.fixture
def alone(desk: Desk, tmp_path: Path) -> Iterator[Alone]:
    """A folder outside any workshop."""
    folder = tmp_path / "somewhere"
    folder.mkdir()
    (folder / "echo.worker").write_text("---\nmodel: offline:echo\n---\nSay it again.\n")
    alone = Alone(folder, desk.environment | {"XDG_CACHE_HOME": str(tmp_path / "cache")})
    yield alone
    for served in alone.cache.glob("*"):
        host = running_host(served)
        if host is not None:
            with suppress(ProcessLookupError):  # it may have left just now, as nobody needed it
                os.kill(host.pid, signal.SIGTERM)
            eventually(lambda served=served: running_host(served) is None, "the host has left")


@pytest.mark.thorough
def test_a_file_runs_and_nothing_is_written_beside_it(alone: Alone) -> None:
    assert alone.type("start", "echo.worker", "hello").stdout == "hello\n"
    assert [path.name for path in alone.folder.iterdir()] == ["echo.worker"]
    (served,) = alone.cache.iterdir()
    assert (served / ".llm-do" / "temporal.db").exists()


@pytest.mark.thorough
def test_other_commands_find_its_runs_by_the_file(alone: Alone) -> None:
    alone.type("start", "echo.worker", "hello", "--id", "job", "--detach")
    assert alone.type("result", "job", "--workshop", "echo.worker").stdout == "hello\n"


def test_a_worker_that_asks_for_files_is_refused_and_told_the_way(alone: Alone) -> None:
    (alone.folder / "clerk.worker").write_text("---\ntoolsets:\n  filesystem: {}\n---\nKeep notes.\n")
    done = alone.type("start", "clerk.worker", "go", "--model", "offline:echo", code=8)
    assert "clerk.worker:3: 'toolsets.filesystem' asks for files" in done.stderr
    assert "workshop.yaml" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "part"),
    [
        (("missing.worker", "go"), 2, "there is no file 'missing.worker'"),
        (("echo.worker", "go", "--address", "127.0.0.1:1"), 2, "on a server of its own"),
        (("echo.worker", "go", "--workshop", "."), 2, "'echo'"),
    ],
)
def test_what_does_not_go_together_is_said(alone: Alone, arguments: tuple[str, ...], code: int, part: str) -> None:
    done = alone.type("start", *arguments, code=code)
    assert part in done.stderr
    assert not alone.cache.exists()


@pytest.mark.thorough
def test_a_file_of_a_workshop_runs_without_its_files_and_says_so(desk: Desk, alone: Alone) -> None:
    alone.folder = desk.workshop
    done = alone.type("start", "greeter.worker", "hello", "--model", "offline:echo")
    assert "without the files of the workshop" in done.stderr
    assert not (desk.workshop / ".llm-do").exists()


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
