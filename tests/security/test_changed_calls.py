"""A call that a person changes does only what was shown of it: whatever else it names is asked about again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic_ai.exceptions import ToolFailed
from temporalio.exceptions import ActivityError, ApplicationError, RetryState
from temporalio.testing import ActivityEnvironment

from llm_do_temporal.activities.commands import ShellActivities
from llm_do_temporal.messages.activities import PREVIEW_COMMAND, ActivityRef, ShellInput
from llm_do_temporal.messages.definitions import RunSettings
from llm_do_temporal.policy.approvals import ApprovalRules, Mode
from llm_do_temporal.policy.files.attachments import Attachment
from llm_do_temporal.policy.files.sandbox import Mount, Tree
from llm_do_temporal.policy.identity import SeenFile
from llm_do_temporal.policy.models import ModelSources
from llm_do_temporal.policy.shell import JudgedCommand, ShellPolicy
from llm_do_temporal.policy.values import CapabilityUse
from llm_do_temporal.storage.places import workshop_blobs
from llm_do_temporal.workflows.tools import shell as shell_tools
from llm_do_temporal.workflows.tools.gate import Gate
from llm_do_temporal.workflows.tools.gated_tool import PreparedCall, ToolOutcome, ToolQuestion
from tests.support.workflow.gated_calls import Person

SHOWN, SWAPPED = "echo shown\n", "echo SWAPPED\n"


class Commands:
    """The `shell` tool of one workshop, behind a gate."""

    def __init__(self, workshop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bare = False
        self.ran: list[ShellInput] = []
        self.workshop = workshop
        blobs = workshop_blobs(workshop)

        async def carried_out(activity: ActivityRef[ShellInput, Any], request: ShellInput, **more: Any) -> Any:
            shell = (
                ShellActivities(workshop, blobs, bwrap=lambda: None) if self.bare else ShellActivities(workshop, blobs)
            )
            try:
                if activity is PREVIEW_COMMAND:
                    return ActivityEnvironment().run(shell.preview_command, request)
                self.ran.append(request)
                return await ActivityEnvironment().run(shell.run_command, request)
            except ApplicationError as error:
                facts: Any = {"scheduled_event_id": 1, "started_event_id": 2, "identity": "", "activity_id": "1"}
                failed = ActivityError(
                    "failed", **facts, activity_type=activity.name, retry_state=RetryState.MAXIMUM_ATTEMPTS_REACHED
                )
                raise failed from error

        def judged(policy: object, tree: object, command: str, **more: Any) -> JudgedCommand:
            argv = tuple(command.split())
            use = CapabilityUse(name="proc.exec", payload={"argv": list(argv), "cwd": "/"})
            return JudgedCommand(argv=argv, use=use, cwd="/")

        monkeypatch.setattr(shell_tools, "run_activity", carried_out)
        monkeypatch.setattr(shell_tools, "run_at_most_once", carried_out)
        monkeypatch.setattr(shell_tools, "judge_command", judged)

    async def call(self, person: Person, command: str) -> str:
        tree = Tree(mounts=(Mount(at="/", root="."),))
        settings = RunSettings(mode=Mode.INTERACTIVE, rules=ApprovalRules(), models=ModelSources())
        invocation: Any = SimpleNamespace(worker=SimpleNamespace(shell=ShellPolicy()), tree=tree, settings=settings)
        tool = shell_tools.Shell(invocation, ShellPolicy(), person)
        try:
            return str((await Gate(settings, person).call(tool, {"command": command})).value)
        except ToolFailed as failed:
            return failed.message


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Commands:
    for name in ("run.sh", "other.sh"):
        (tmp_path / name).write_text(SHOWN)
    return Commands(tmp_path, monkeypatch)


def swap(workshop: Path) -> None:
    (workshop / "run.sh").write_text(SWAPPED)


def link(workshop: Path) -> None:
    (workshop / "run.sh").unlink()
    (workshop / "evil.sh").write_text(SHOWN)
    (workshop / "run.sh").symlink_to("evil.sh")


CHANGES: dict[str, Callable[[Path], object]] = {
    "other bytes": swap,
    "a link": link,
    "other permissions": lambda workshop: (workshop / "run.sh").chmod(0o777),
}


@pytest.mark.sampled(8)
@pytest.mark.parametrize("bare", [True, False], ids=["bare", "isolated"])
@pytest.mark.parametrize("changed", ["sh run.sh --dry", "sh /run.sh", "sh -erun.sh", "cat run.sh"])
@pytest.mark.parametrize("change", CHANGES)
async def test_a_changed_command_is_asked_about_again_where_its_file_is_another(
    commands: Commands, change: str, changed: str, bare: bool
) -> None:
    commands.bare = bare
    person = Person(while_asked=lambda: CHANGES[change](commands.workshop), changes_to={"command": changed})
    assert "Rejected" in await commands.call(person, "sh run.sh --all")
    assert len(person.asked) == 2
    assert [one.path for one in person.asked[1][0].files] == ["/run.sh"]
    assert commands.ran == []


@pytest.mark.parametrize("changed", ["sh other.sh", "sh run.sh other.sh", "cat ./other.sh", "sh deep/../other.sh"])
async def test_a_file_that_was_not_shown_is(commands: Commands, changed: str) -> None:
    person = Person(changes_to={"command": changed})
    assert "Rejected" in await commands.call(person, "sh run.sh")
    assert "/other.sh" in [one.path for one in person.asked[1][0].files]
    assert commands.ran == []


@pytest.mark.parametrize("command", ["echo hi", "cat run.sh", "cat /etc/hostname"])
async def test_a_command_that_would_run_bare_is_another_question(commands: Commands, command: str) -> None:
    isolated, bare = Person(agrees=0), Person(agrees=0)
    await commands.call(isolated, command)
    commands.bare = True
    await commands.call(bare, command)
    assert isolated.asked[0][0].identity != bare.asked[0][0].identity


async def test_isolation_that_ends_while_somebody_is_asked_is_asked_about(commands: Commands) -> None:
    def end() -> None:
        commands.bare = True

    person = Person(while_asked=end)
    assert "Rejected" in await commands.call(person, "cat run.sh")
    assert len(person.asked) == 2


@pytest.mark.parametrize("length", [195, 200, 1000, 20_000])
async def test_a_summary_says_how_much_it_leaves_out(commands: Commands, length: int) -> None:
    person = Person(agrees=0)
    command = f"echo {'x' * length} --and-this"
    await commands.call(person, command)
    (question, _diff), *_ = person.asked
    kept, _mark, left = question.summary.partition("… (")
    assert len(question.summary) <= 200
    assert left == f"{len('shell ' + command) - len(kept)} more characters)"
    assert question.uses[0].payload["argv"] == command.split()


class HandsOver:
    """A tool that hands over a file, as delegations do."""

    name, description = "hand_over", ""

    def __init__(self, files: dict[str, str], *, attached: bool) -> None:
        self.schema: dict[str, Any] = {"type": "object"}
        self.files, self.attached, self.done = files, attached, list[str]()

    async def prepare(self, args: dict[str, Any]) -> PreparedCall:
        path = args["path"]
        given: dict[str, Any] = {"files": (SeenFile(path=path, sha256=self.files[path], mode=0o644),)}
        if self.attached:
            one = Attachment(path=path, sha256=self.files[path], media_type="text/plain", bytes=1)
            given = {"attachments": (one,)}

        async def effect() -> ToolOutcome:
            self.done.append(path)
            return ToolOutcome("done")

        return PreparedCall((ToolQuestion((CapabilityUse(name="worker.call"),), args, "call", **given),), effect)


@pytest.mark.parametrize("attached", [True, False], ids=["attached", "named"])
@pytest.mark.parametrize(("path", "swapped"), [("/b", False), ("/b", True), ("/a", True)])
async def test_a_changed_call_hands_over_nothing_that_was_not_shown(path: str, swapped: bool, attached: bool) -> None:
    tool = HandsOver({"/a": "1" * 64, "/b": "2" * 64}, attached=attached)
    swap_it = (lambda: tool.files.update({path: "3" * 64})) if swapped else None
    person = Person(while_asked=swap_it, changes_to={"path": path, "more": 1})
    settings = RunSettings(mode=Mode.INTERACTIVE, rules=ApprovalRules(), models=ModelSources())
    with pytest.raises(ToolFailed, match="Rejected"):
        await Gate(settings, person).call(tool, {"path": "/a"})
    assert tool.done == []


@pytest.mark.control
@pytest.mark.parametrize("changed", ["cat run.sh run.sh", "touch new", "echo hi"])
async def test_a_change_to_what_was_shown_or_is_new_is_not_asked_about_twice(commands: Commands, changed: str) -> None:
    person = Person(changes_to={"command": changed})
    await commands.call(person, "sh run.sh")
    assert len(person.asked) == len(commands.ran) == 1
