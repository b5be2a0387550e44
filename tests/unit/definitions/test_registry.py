"""Names and files: which file a name means, and what a worker knows of those it may call."""

from __future__ import annotations

import subprocess
import sys

import pytest

from llm_do_temporal.errors import DefinitionError, WorkerNotFound
from llm_do_temporal.messages.definitions import DelegateTool, DelegationToolset
from tests.support.patience import PATIENCE_SECONDS
from tests.support.workshops.workshop_folder import WorkshopFolder

PLACES = [
    "workers/echo.worker",
    "workers/echo.yaml",
    "workers/echo.yml",
    "workers/echo/worker.worker",
    "workers/echo/worker.yaml",
    "workers/echo/worker.yml",
    "echo.worker",
    "echo.yaml",
    "echo.yml",
    "workers/generated/echo.worker",
    "workers/generated/echo.yaml",
    "workers/generated/echo.yml",
]


def test_the_places_of_a_worker_are_searched_in_order(workshop: WorkshopFolder) -> None:
    for place in PLACES:
        workshop.write(place, f"instructions: {place}\n")
    for place in PLACES:
        assert workshop.load("echo").source == place
        assert workshop.registry().names() == ["echo"]
        (workshop.root / place).unlink()
    assert workshop.registry().names() == []


def test_workers_that_ship_come_last_and_have_a_name_of_their_own(workshop: WorkshopFolder) -> None:
    workshop.ship("echo.worker", "---\n---\nShipped: {{ file('part.md') }}")
    workshop.ship("part.md", "part")
    assert workshop.load("echo").source == "pkg:echo"
    workshop.write("workers/echo.worker", "---\n---\nOwn.")
    assert workshop.load("echo").instructions == "Own."
    shipped = workshop.load("pkg:echo")
    assert (shipped.name, shipped.source, shipped.instructions) == ("echo", "pkg:echo", "Shipped: part")


def test_a_shipped_worker_does_not_read_files_of_the_workshop(workshop: WorkshopFolder) -> None:
    workshop.write("part.md", "of the workshop")
    workshop.ship("echo/worker.worker", "---\n---\n{{ file('part.md') }}")
    with pytest.raises(DefinitionError, match=r"^pkg:echo/worker\.worker:3: template: there is no file 'part\.md'"):
        workshop.load("echo")


def test_the_workshop_file_and_other_programs_files_are_no_workers(workshop: WorkshopFolder) -> None:
    workshop.write("docker-compose.yaml", "services: {}\n")
    workshop.write("deploy.yml", "steps: []\n")
    workshop.write("workers/notes.md", "x")
    assert workshop.registry().names() == []
    with pytest.raises(WorkerNotFound):
        workshop.load("workshop")


def test_a_generated_worker_called_worker_is_not_a_folders(workshop: WorkshopFolder) -> None:
    workshop.write("workers/generated/worker.worker", "---\n---\n{{ x }}")
    assert workshop.registry().names() == ["worker"]
    with pytest.raises(WorkerNotFound):
        workshop.load("generated")


def test_an_unknown_name_gets_suggestions_and_the_places_searched(workshop: WorkshopFolder) -> None:
    workshop.write("workers/evaluator.worker", "---\n---\nx")
    with pytest.raises(WorkerNotFound) as caught:
        workshop.load("evalutor")
    for place in ("workers/evalutor.worker", "workers/evalutor/worker.worker", "workers/generated/", "pkg:evalutor"):
        assert place in caught.value.message
    assert caught.value.next_step == "Did you mean 'evaluator'?"


@pytest.mark.parametrize(
    ("others", "step"),
    [
        ([], "Write it to 'workers/zebra.worker'."),  # nothing there yet
        (["alpha", "beta"], "The workers here are 'alpha', 'beta'."),  # nothing like it
    ],
)
def test_without_a_close_name_the_next_step_still_helps(workshop: WorkshopFolder, others: list[str], step: str) -> None:
    for name in others:
        workshop.write(f"workers/{name}.worker", "---\n---\nx")
    with pytest.raises(WorkerNotFound) as caught:
        workshop.load("zebra")
    assert caught.value.next_step == step


@pytest.mark.parametrize(
    "name",
    ["../up", "/etc/passwd", "a/b", "workers/echo", "", ".", "Echo", "echo.worker", "pkg:", "pkg:../up", "shell"],
)
def test_what_cannot_be_a_name_is_refused(workshop: WorkshopFolder, name: str) -> None:
    workshop.write("../up.worker", "---\n---\nx")
    with pytest.raises(DefinitionError, match="worker name"):
        workshop.load(name)


def test_a_file_behind_a_link_that_leaves_the_workshop_is_refused(workshop: WorkshopFolder) -> None:
    workshop.write("../secret.worker", "---\n---\nsecret")
    workshop.write("workers/real.worker", "---\n---\nreal")
    (workshop.root / "workers" / "echo.worker").symlink_to("../../secret.worker")
    (workshop.root / "workers" / "inside.worker").symlink_to("real.worker")
    with pytest.raises(DefinitionError, match=r"'workers/echo\.worker' is a link that leads out of the workshop"):
        workshop.load("echo")
    assert workshop.load("inside").instructions == "real"


def test_a_worker_knows_the_tools_of_those_it_may_call(workshop: WorkshopFolder) -> None:
    workshop.write(
        "workers/chief.worker",
        """\
        toolsets:
          delegation:
            evaluator: {}
            writer:
            allow_workers: [evaluator, "pkg:writer"]
        ---
        Lead.
        """,
    )
    workshop.write("workers/evaluator.worker", "description: Evaluates.\n---\n{{ nobody_renders_this }}")
    workshop.write("workers/writer.worker", "attachment_policy: {max_attachments: 0}\n---\nx")
    assert workshop.load("chief").delegation == DelegationToolset(
        allow_workers=("evaluator", "pkg:writer"),
        tools=(
            DelegateTool(name="evaluator", description="Evaluates.", takes_attachments=True),
            DelegateTool(
                name="writer", description="Call the worker 'writer' to delegate a subtask.", takes_attachments=False
            ),
        ),
    )


def test_a_callee_that_is_missing_or_broken_is_no_mistake_of_the_caller(workshop: WorkshopFolder) -> None:
    workshop.write("workers/chief.worker", "toolsets: {delegation: {later: {}, broken: {}}}\n---\nLead.")
    workshop.write("workers/broken.worker", "locked: 5\n---\nx")
    delegation = workshop.load("chief").delegation
    assert delegation is not None
    later, broken = delegation.tools
    assert later.description.startswith("The worker 'later' could not be loaded: there is no worker 'later'")
    assert broken.description == "The worker 'broken' could not be loaded: 'locked' should be true or false, not '5'"
    assert not later.takes_attachments
    assert not broken.takes_attachments


def test_an_empty_list_of_workers_is_not_the_same_as_none(workshop: WorkshopFolder) -> None:
    workshop.write("workers/chief.worker", "toolsets: {delegation: {allow_workers: []}}\n---\nLead.")
    delegation = workshop.load("chief").delegation
    assert delegation is not None
    assert delegation.allow_workers == ()


def test_an_edited_file_is_read_anew(workshop: WorkshopFolder) -> None:
    registry = workshop.registry()
    workshop.write("workers/echo.worker", "---\n---\nOne.")
    first = registry.load("echo")
    workshop.write("workers/echo.worker", "---\n---\nTwo.")
    second = registry.load("echo")
    assert (first.instructions, second.instructions) == ("One.", "Two.")
    assert first.sha256 != second.sha256


def test_the_package_knows_neither_temporal_nor_pydantic_ai() -> None:
    code = (
        "import sys, llm_do_temporal.definitions\n"
        "heavy = {'temporalio', 'pydantic_ai', 'jsonschema'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=PATIENCE_SECONDS)
