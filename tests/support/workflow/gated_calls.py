"""Calls through the real gate, the real tools and the real activities, with a person who answers; no server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.exceptions import ToolFailed
from temporalio.testing import ActivityEnvironment

from llm_do_temporal.activities.attachments import AttachmentActivities
from llm_do_temporal.activities.files import FileActivities
from llm_do_temporal.messages.activities import ActivityRef
from llm_do_temporal.messages.approvals import DecisionKind, Verdict
from llm_do_temporal.messages.definitions import RunSettings
from llm_do_temporal.policy.approvals import ApprovalRules, Mode, Terms
from llm_do_temporal.policy.files.sandbox import Mount, Tree
from llm_do_temporal.policy.models import ModelSources
from llm_do_temporal.storage.places import workshop_blobs
from llm_do_temporal.workflows.tools.filesystem import file_tools
from llm_do_temporal.workflows.tools.gate import Gate
from llm_do_temporal.workflows.tools.gated_tool import AskedTool, ToolQuestion
from tests.support.workflow.desk_questions import NOON

APPROVE, REJECT = DecisionKind.APPROVE, DecisionKind.REJECT


@dataclass
class Person:
    """Answers questions: approves the first `agrees`, rejects the others. While being asked, things may happen."""

    agrees: int = 1
    while_asked: Callable[[], object] | None = None
    """Done once, after the first question was put and before it is answered."""
    changes_to: dict[str, Any] | None = None
    """Arguments that the first answer puts in the place of those asked about."""
    asked: list[tuple[ToolQuestion, str | None]] = field(default_factory=list[tuple[ToolQuestion, str | None]])
    """Every question with the difference that was shown."""

    async def ask(
        self,
        tool: AskedTool,
        question: ToolQuestion,
        *,
        reason: str,
        terms: Terms,
        diff: str | None = None,
        account: str | None = None,
    ) -> Verdict:
        self.asked.append((question, diff))
        number = len(self.asked)
        if number == 1 and self.while_asked is not None:
            self.while_asked()
        kind, args = (APPROVE if number <= self.agrees else REJECT), question.args
        if number == 1 and self.changes_to is not None:
            kind, args = DecisionKind.MODIFY, self.changes_to
        return Verdict(decision=kind, args=args, by="ada", at=NOON, door="update")

    def report(self, tool: AskedTool, error: Exception) -> None:
        raise error

    async def withdraw_abandoned(self) -> None:
        """See AsksDesk."""


@dataclass
class GatedFiles:
    """The file tools of one workshop, behind a gate."""

    workshop: Path
    tree: Tree
    mode: Mode = Mode.INTERACTIVE
    rules: ApprovalRules = field(default_factory=ApprovalRules)

    async def call(
        self, person: Person, tool: str, before_effect: Callable[[], object] | None = None, /, **args: Any
    ) -> str:
        """What the model is told of a call; `before_effect` happens once it was allowed."""
        settings = RunSettings(mode=self.mode, rules=self.rules, models=ModelSources())

        async def begin() -> None:
            if before_effect is not None:
                before_effect()

        found = next(one for one in file_tools(self.tree) if one.name == tool)
        try:
            outcome = await Gate(settings, person, begin, tree=self.tree).call(found, args)
        except ToolFailed as failed:
            return failed.message
        return str(outcome.value)


def gated_files(workshop: Path, monkeypatch: pytest.MonkeyPatch, **mount: Any) -> GatedFiles:
    """The tools, their effects carried out at once by the activities of this workshop."""
    files = FileActivities(workshop, workshop_blobs(workshop))
    attachments = AttachmentActivities(workshop, workshop_blobs(workshop))

    async def carried_out(activity: ActivityRef[Any, Any], request: Any, **more: Any) -> Any:
        owner: Any = files if hasattr(files, activity.name) else attachments
        return ActivityEnvironment().run(getattr(owner, activity.name), request)

    module = "llm_do_temporal.workflows.tools.filesystem"
    monkeypatch.setattr(f"{module}.run_local_first", carried_out)
    monkeypatch.setattr(f"{module}.run_activity", carried_out)
    return GatedFiles(workshop, Tree(mounts=(Mount.model_validate({"at": "/", "root": ".", **mount}),)))
