"""The gate: in which order a call is checked, judged, asked about and carried out, and what may leave it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic_ai.exceptions import ModelRetry, ToolFailed
from temporalio.exceptions import ApplicationError
from temporalio.workflow import NondeterminismError

from llm_do_temporal.errors import ApprovalRefusal, ApprovalTimedOut, EffectFailed, RunAborted, SandboxRefusal
from llm_do_temporal.messages.approvals import DecisionKind, Verdict
from llm_do_temporal.messages.definitions import RunSettings
from llm_do_temporal.messages.sizes import MAX_CALL_BYTES, OVERSIZED
from llm_do_temporal.policy.approvals import ApprovalRules, Mode, Rule, Ruling, Terms
from llm_do_temporal.policy.models import ModelSources
from llm_do_temporal.policy.values import REPEAT, CapabilityUse
from llm_do_temporal.workflows.tools.gate import Gate
from llm_do_temporal.workflows.tools.gated_tool import AskedTool, PreparedCall, ToolOutcome, ToolQuestion
from llm_do_temporal.workflows.tools.parts import Advice, InvocationPart, Parts
from tests.support.workflow.activity_failures import activity_failed
from tests.support.workflow.desk_questions import NOON
from tests.support.workflow.gated_calls import Person


@dataclass
class Recorder:
    """A tool and a desk in one that write down what they are asked; `raises` goes off at its step."""

    raises: dict[str, Exception] = field(default_factory=dict[str, Exception])
    answers: list[Verdict] = field(default_factory=list[Verdict])
    value: Any = "done"
    terms: list[Terms] = field(default_factory=list[Terms])
    uses: dict[str, str] = field(default_factory=dict[str, str])
    """What a call with these arguments does, where that is no `worker.call`."""
    steps: list[str] = field(default_factory=list[str])
    name: str = "tool"
    description: str = ""
    schema: dict[str, Any] = field(
        default_factory=lambda: {
            "type": "object",
            "properties": {"n": {"type": "integer"}},
            "additionalProperties": False,
        }
    )

    async def prepare(self, args: dict[str, Any]) -> PreparedCall:
        self._step(f"prepare {args}")
        shared = ToolQuestion(
            (CapabilityUse(name="sandbox.read", asks=True),), {"path": "/a"}, "share /a", changeable=False
        )
        use = self.uses.get(str(args.get("n")), "worker.call")
        own = ToolQuestion((CapabilityUse(name=use),), args, "call tool")
        return PreparedCall((shared, own), self._effect, self._preview)

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
        self.terms.append(terms)
        self._step(f"ask {question.summary} ({diff}; {reason})")
        return self.answers.pop(0)

    def report(self, tool: AskedTool, error: Exception) -> None:
        self.steps.append(f"report {type(error).__name__}")

    async def withdraw_abandoned(self) -> None:
        self._step("withdraw")

    async def _effect(self) -> ToolOutcome:
        self._step("effect")
        return ToolOutcome(self.value)

    async def _preview(self) -> str:
        self._step("preview")
        return "+1"

    def _step(self, step: str) -> None:
        self.steps.append(step)
        error = self.raises.get(step.split(" ")[0])
        if error is not None:
            raise error


def answer(decision: DecisionKind = DecisionKind.APPROVE, **more: Any) -> Verdict:
    return Verdict.model_validate({"decision": decision, "args": {}, "at": NOON, "door": "signal", **more})


def gate(
    tool: Recorder,
    *,
    mode: Mode = Mode.INTERACTIVE,
    abort: bool = False,
    calls: Ruling | dict[str, Any] | None = None,
    **rules: Any,
) -> Gate:
    given = ({"worker.call": calls} if calls else {}) | rules
    settings = RunSettings(
        mode=mode,
        rules=ApprovalRules.model_validate({"rules": given}),
        models=ModelSources(),
        on_refusal="abort" if abort else "tell_model",
    )
    return Gate(settings, tool)


async def test_a_call_is_prepared_shown_asked_about_and_then_carried_out() -> None:
    tool = Recorder(answers=[answer(), answer()])
    outcome = await gate(tool).call(tool, {"n": 1})
    assert outcome.value == "done"
    assert tool.steps == [
        "prepare {'n': 1}",
        "preview",
        "ask share /a (+1; sandbox.read needs approval)",
        "preview",
        "ask call tool (+1; worker.call needs approval)",
        "effect",
    ]


async def test_changed_arguments_are_prepared_again_and_only_their_own_question_is_answered() -> None:
    tool = Recorder(answers=[answer(), answer(DecisionKind.MODIFY, args={"n": 2}, by="ada", note="two is better")])
    outcome = await gate(tool).call(tool, {"n": 1})
    assert [step.split(" (")[0] for step in tool.steps if step != "preview"] == [
        "prepare {'n': 1}",
        "ask share /a",
        "ask call tool",
        "prepare {'n': 2}",
        "effect",
    ]
    assert outcome.value == 'done\nada changed this call before it ran. It ran with: {"n":2} (two is better)'


@pytest.mark.parametrize(
    ("first", "then", "asks_again"),
    [
        # the same people, or more of them than needed
        ({"approvers": ["ann"]}, {"approvers": ["ann"]}, False),
        ({"approvers": ["ann"]}, {"approvers": ["ann", "bob"]}, False),
        ({"quorum": 2}, "needs_approval", False),
        ({"forbid_own": True}, {"forbid_own": True}, False),
        # others, or more of them
        ({"approvers": ["ann", "bob"]}, {"approvers": ["ann"]}, True),
        ("needs_approval", {"approvers": ["ann"]}, True),
        ("needs_approval", {"quorum": 2}, True),
        ("needs_approval", {"forbid_own": True}, True),
    ],
)
async def test_who_changes_a_call_has_approved_it_only_where_they_may(first: Any, then: Any, asks_again: bool) -> None:
    answers = [answer(), answer(DecisionKind.MODIFY, args={"n": 2}), answer()]
    tool = Recorder(answers=answers, uses={"2": "proc.exec"})
    await gate(tool, calls=first, **{"proc.exec": then}).call(tool, {"n": 1})
    assert len(answers) == (0 if asks_again else 1)
    assert "effect" in tool.steps


async def test_the_terms_of_a_call_reach_the_desk() -> None:
    tool = Recorder(answers=[answer(), answer()])
    await gate(tool, calls={"approvers": ["ann"], "timeout": "1h"}).call(tool, {"n": 1})
    assert tool.terms == [Terms(), Terms(approvers=("ann",), timeout=3600)]


async def test_a_result_that_is_an_object_is_told_beside_what_a_person_changed() -> None:
    tool = Recorder(answers=[answer(), answer(DecisionKind.MODIFY, args={"n": 2})], value={"files": []})
    outcome = await gate(tool).call(tool, {"n": 1})
    assert outcome.value == {
        "result": {"files": []},
        "note": 'A person changed this call before it ran. It ran with: {"n":2}',
    }


async def test_a_change_that_does_not_fit_the_schema_is_refused() -> None:
    tool = Recorder(answers=[answer(), answer(DecisionKind.MODIFY, args={"n": "two"})])
    with pytest.raises(ToolFailed, match=r"the changed arguments are not valid: n: 'two' is not of type 'integer'"):
        await gate(tool).call(tool, {"n": 1})
    assert "effect" not in tool.steps


@pytest.mark.parametrize(
    ("mode", "calls", "expected"),
    [
        # one blocked part blocks the whole, and nobody is asked about the rest
        (Mode.INTERACTIVE, Ruling.BLOCKED, "'tool' is blocked: the workshop does not allow"),
        (Mode.APPROVE_ALL, Ruling.BLOCKED, "'tool' is blocked: the workshop does not allow"),
        (Mode.STRICT, Ruling.PRE_APPROVED, "Strict mode: tool requires approval"),
    ],
)
async def test_a_block_comes_before_every_question(mode: Mode, calls: Ruling, expected: str) -> None:
    tool = Recorder()
    with pytest.raises(ToolFailed) as failed:
        await gate(tool, mode=mode, calls=calls).call(tool, {"n": 1})
    assert expected in str(failed.value)
    assert tool.steps == ["prepare {'n': 1}"]


async def test_approve_all_asks_nobody() -> None:
    tool = Recorder()
    assert (await gate(tool, mode=Mode.APPROVE_ALL).call(tool, {"n": 1})).value == "done"
    assert tool.steps == ["prepare {'n': 1}", "effect"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"n": "one"}, "The arguments of tool are not valid: n: 'one' is not of type 'integer'"),
        ({"m": 1}, "Additional properties are not allowed"),
        ({OVERSIZED: 3_000_000}, f"have 3000000 bytes; at most {MAX_CALL_BYTES} are accepted"),
    ],
)
async def test_arguments_that_do_not_fit_are_for_the_model_to_correct(args: dict[str, Any], message: str) -> None:
    tool = Recorder()
    with pytest.raises(ModelRetry) as retry:
        await gate(tool).call(tool, args)
    assert message in str(retry.value)
    assert tool.steps == []


@pytest.mark.parametrize("step", ["prepare", "preview", "ask", "effect"])
@pytest.mark.parametrize(
    ("error", "told"),
    [
        # errors of ours, with the next step
        (EffectFailed("the disk is full", next_step="Free some space."), "the disk is full. Free some space."),
        (EffectFailed("the disk is full.", next_step="Free some."), "the disk is full. Free some."),
        (SandboxRefusal("'/x' is outside"), "'/x' is outside"),
        # what an activity failed with
        (activity_failed(ApplicationError("no such file", type="EffectFailed")), "no such file"),
        (
            activity_failed(ApplicationError("it has 9 bytes", type="PayloadsTooLarge")),
            "too large to be kept: it has 9",
        ),
        # what nobody thought of
        (KeyError("worker"), "tool failed unexpectedly: KeyError: 'worker'"),
        (RecursionError("maximum recursion depth exceeded"), "tool failed unexpectedly: RecursionError: maximum"),
        (ValueError("x" * 1000), "tool failed unexpectedly: ValueError: xxx"),
    ],
)
async def test_whatever_goes_wrong_at_any_step_is_a_result_for_the_model(
    step: str, error: Exception, told: str
) -> None:
    tool = Recorder(raises={step: error}, answers=[answer(), answer()])
    with pytest.raises(ToolFailed) as failed:
        await gate(tool).call(tool, {"n": 1})
    assert told in str(failed.value)
    assert len(str(failed.value)) <= 500
    assert ("failed unexpectedly" in told) is (tool.steps[-1] == f"report {type(error).__name__}")


@pytest.mark.parametrize(
    "error", [RunAborted("stop"), ApprovalTimedOut("late"), NondeterminismError("other code"), ModelRetry("again")]
)
async def test_what_others_have_to_see_leaves_the_gate_as_it_is(error: Exception) -> None:
    tool = Recorder(raises={"effect": error}, answers=[answer(), answer()])
    with pytest.raises(type(error)):
        await gate(tool).call(tool, {"n": 1})


@pytest.mark.parametrize(
    ("tool", "aborts"),
    [
        # refusals abort, whoever refused
        (Recorder(raises={"prepare": SandboxRefusal("'/x' is outside")}), True),
        (Recorder(answers=[answer(DecisionKind.REJECT, by="ada", note="no")]), True),
        (Recorder(raises={"effect": ApprovalRefusal("blocked")}, answers=[answer(), answer()]), True),
        # effects that fail do not, nor does what nobody thought of
        (Recorder(raises={"effect": EffectFailed("the disk is full")}, answers=[answer(), answer()]), False),
        (Recorder(raises={"prepare": KeyError("worker")}), False),
    ],
)
async def test_on_refusal_abort_is_about_refusals_alone(tool: Recorder, aborts: bool) -> None:
    with pytest.raises(RunAborted if aborts else ToolFailed):
        await gate(tool, abort=True).call(tool, {"n": 1})


@dataclass
class Push:
    """A command that the rules let pass, or that puts no question to them."""

    asks: bool = True
    name: str = "shell"
    description: str = ""
    schema: dict[str, Any] = field(default_factory=lambda: {"type": "object"})
    done: int = 0

    async def prepare(self, args: dict[str, Any]) -> PreparedCall:
        question = ToolQuestion((CapabilityUse(name="shell"),), args, "shell git push")
        return PreparedCall((question,) if self.asks else (), self._effect)

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
        "ada decided so" if mode is Mode.INTERACTIVE else "nobody can be asked about it here"
    ) in caught.value.message
    assert (tool.done, len(person.asked)) == (0, int(mode is Mode.INTERACTIVE))


async def test_a_call_without_a_question_that_may_have_happened_is_not_done_again() -> None:
    tool, person = Push(asks=False), Person()
    with pytest.raises(ToolFailed, match="the outcome of 'shell' is unknown"):
        await carry_out(tool, person)
    assert (tool.done, person.asked) == (0, [])
