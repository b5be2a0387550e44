"""Calls that may have happened in the run that this one goes on from: a person decides, whatever the rules allow."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic_ai.exceptions import ToolFailed

from llm_do_temporal.messages.definitions import RunSettings
from llm_do_temporal.policy.approvals import ApprovalRules, Mode, Rule, Ruling
from llm_do_temporal.policy.models import ModelSources
from llm_do_temporal.policy.values import REPEAT, CapabilityUse
from llm_do_temporal.workflows.tools.gate import Gate
from llm_do_temporal.workflows.tools.gated_tool import PreparedCall, ToolOutcome, ToolQuestion
from llm_do_temporal.workflows.tools.parts import Advice, InvocationPart, Parts
from tests.support.workflow.gated_calls import Person


@dataclass
class Push:
    """A command that the rules let pass."""

    name: str = "shell"
    description: str = ""
    schema: dict[str, Any] = field(default_factory=lambda: {"type": "object"})
    done: int = 0

    async def prepare(self, args: dict[str, Any]) -> PreparedCall:
        return PreparedCall((ToolQuestion((CapabilityUse(name="shell"),), args, "shell git push"),), self._effect)

    async def _effect(self) -> ToolOutcome:
        self.done += 1
        return ToolOutcome("pushed")


class Doubtful(InvocationPart):
    """Part that knows of a run which ended while the call was under way."""

    async def advice(self, key: str) -> Advice:
        """See InvocationPart."""
        return Advice(doubtful=True)


async def carry_out(tool: Push, person: Person, mode: Mode = Mode.INTERACTIVE) -> Any:
    rules = ApprovalRules(rules={"shell": Rule(ruling=Ruling.PRE_APPROVED)})
    settings = RunSettings(mode=mode, rules=rules, models=ModelSources())
    gate = Gate(settings, person, parts=Parts({"guest": Doubtful()}))
    gate.begin_answer("turn")
    return (await gate.call(tool, {})).value


async def test_a_person_is_asked_before_it_is_done_again() -> None:
    tool, person = Push(), Person()
    assert await carry_out(tool, person) == "pushed"
    assert [(use.name, question.summary) for question, _ in person.asked for use in question.uses] == [
        (REPEAT, "may have happened: shell git push")
    ]
    assert (tool.done, person.asked[0][0].changeable) == (1, False)


@pytest.mark.parametrize("mode", [Mode.INTERACTIVE, Mode.APPROVE_ALL, Mode.STRICT])
async def test_without_a_yes_it_is_not_done_and_the_model_is_told(mode: Mode) -> None:
    tool, person = Push(), Person(agrees=0)
    with pytest.raises(ToolFailed, match="the outcome of 'shell git push' is unknown") as caught:
        await carry_out(tool, person, mode)
    assert (
        "ada decided so" if mode is Mode.INTERACTIVE else "nobody can be asked in this mode"
    ) in caught.value.message
    assert (tool.done, len(person.asked)) == (0, int(mode is Mode.INTERACTIVE))
