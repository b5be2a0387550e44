"""Evaluators of the calls of a case: which tools were called, in which order, and whether a person was asked first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from llm_do_temporal.policy.evaluations.evaluators.base import BaseEvaluator, Finding, Seen
from llm_do_temporal.policy.evaluations.facts import CaseCall, CaseFacts
from llm_do_temporal.policy.evaluations.json_values import quoted, same_json
from llm_do_temporal.policy.evaluations.trajectories import common_in_order, common_items, f_score

MAX_LISTED = 20


class CallsEvaluator(BaseEvaluator):
    """Evaluator of the calls that fit a description."""

    argument: ClassVar[str | None] = "tool"
    tool: str | None = Field(default=None, min_length=1)
    """Name of the tool; None: any."""
    capability: str | None = Field(default=None, min_length=1)
    """Capability that the call uses, like `fs.delete`; None: any."""
    args: dict[str, Any] = Field(default_factory=dict)
    """Arguments that the call must have; it may have others as well."""
    worker_path: str | None = None
    """Glob of the paths of invocations that count, like `main/reader-*`; None: all."""

    @model_validator(mode="after")
    def _names_calls(self) -> Self:
        if self.tool is None and self.capability is None:
            raise ValueError("name a 'tool' or a 'capability'")
        return self

    @property
    def default_name(self) -> str:
        """See BaseEvaluator."""
        return f"{type(self).__name__} {self.tool or self.capability}"

    def fitting(self, facts: CaseFacts) -> list[CaseCall]:
        """Return the calls that fit."""
        return [call for call in facts.calls if self._fits(call)]

    def _fits(self, call: CaseCall) -> bool:
        return (
            self.tool in (None, call.tool)
            and (self.capability is None or self.capability in call.capabilities)
            and (self.worker_path is None or fnmatchcase(call.path, self.worker_path))
            and all(key in call.args and same_json(call.args[key], value) for key, value in self.args.items())
        )


class Called(CallsEvaluator):
    """Passes where such a call was made, as often as is said."""

    kind: Literal["Called"] = "Called"
    at_least: int = Field(default=1, ge=0)
    """Fewest such calls."""
    at_most: int | None = Field(default=None, ge=0)
    """Most such calls; None: any number."""
    include_failed: bool = False
    """Whether calls count that failed, or of which nobody knows whether they happened."""

    def evaluate(self, seen: Seen) -> Finding:
        """See BaseEvaluator."""
        wanted = ("done", "failed", "unknown") if self.include_failed else ("done",)
        count = sum(call.outcome in wanted for call in self.fitting(seen.facts))
        passed = count >= self.at_least and (self.at_most is None or count <= self.at_most)
        return passed, f"{_calls(count)}{'' if passed else f'; {_called(seen.facts)}'}"


class NeverCalled(CallsEvaluator):
    """Passes where no such call was made, nor asked for."""

    kind: Literal["NeverCalled"] = "NeverCalled"
    include_refused: bool = True
    """Whether calls count that a rule or a person refused."""

    def evaluate(self, seen: Seen) -> Finding:
        """See BaseEvaluator."""
        calls = [call for call in self.fitting(seen.facts) if call.ran or self.include_refused]
        return not calls, f"{_calls(len(calls))}, the first with {quoted(calls[0].args)}" if calls else ""


class AskedFirst(CallsEvaluator):
    """Passes where a person was asked before each such call that was run."""

    kind: Literal["AskedFirst"] = "AskedFirst"

    def evaluate(self, seen: Seen) -> Finding:
        """See BaseEvaluator."""
        ran = [call for call in self.fitting(seen.facts) if call.ran]
        unasked = [call for call in ran if call.decision is None]
        if unasked:
            return (
                False,
                f"{len(unasked)} of {_calls(len(ran))} without a question, the first {quoted(unasked[0].args)}",
            )
        return True, _calls(len(ran))


class CallOrder(BaseEvaluator):
    """Passes where calls of these tools were done in this order; others may stand between them."""

    argument: ClassVar[str | None] = "tools"
    kind: Literal["CallOrder"] = "CallOrder"
    tools: tuple[str, ...] = Field(min_length=1)
    """Names of the tools, in their order."""

    def evaluate(self, seen: Seen) -> Finding:
        """See BaseEvaluator."""
        made = iter(_done(seen.facts, include_failed=False))
        missing = next((tool for tool in self.tools if tool not in made), None)
        return missing is None, "" if missing is None else f"no '{missing}' in its place; {_called(seen.facts)}"


class ToolCorrectness(BaseEvaluator):
    """Passes where exactly these tools were called, each as often as it is named, in any order."""

    argument: ClassVar[str | None] = "expected_tools"
    kind: Literal["ToolCorrectness"] = "ToolCorrectness"
    expected_tools: tuple[str, ...]
    """Names of the tools."""
    allow_extra: bool = False
    """Whether further calls are allowed."""
    include_failed: bool = False
    """Whether calls that failed count."""

    def evaluate(self, seen: Seen) -> Finding:
        """See BaseEvaluator."""
        made, wanted = Counter(_done(seen.facts, self.include_failed)), Counter(self.expected_tools)
        missing, extra = wanted - made, made - wanted
        problems = [f"missing: {', '.join(sorted(missing.elements()))}"] if missing else []
        if extra and not self.allow_extra:
            problems.append(f"not expected: {', '.join(sorted(extra.elements())[:MAX_LISTED])}")
        return not problems, "; ".join(problems)


class TrajectoryMatch(BaseEvaluator):
    """Scores from 0 to 1 how near the tools that were called come to those expected: the F1 of both lists."""

    argument: ClassVar[str | None] = "expected_trajectory"
    kind: Literal["TrajectoryMatch"] = "TrajectoryMatch"
    expected_trajectory: tuple[str, ...] = Field(max_length=1_000)
    """Names of the tools, in their order."""
    order: Literal["exact", "in_order", "any_order"] = "in_order"
    """Strictness about the order: `exact`, `in_order` with others between, or `any_order`."""
    include_failed: bool = False
    """Whether calls that failed count."""

    def evaluate(self, seen: Seen) -> Finding:
        """See BaseEvaluator."""
        made, wanted = _done(seen.facts, self.include_failed), list(self.expected_trajectory)
        if self.order == "exact":
            return float(made == wanted), "" if made == wanted else _called(seen.facts)
        common = common_in_order(made, wanted) if self.order == "in_order" else common_items(made, wanted)
        return f_score(
            common, len(made), len(wanted)
        ), f"{common} in common, {len(made)} called, {len(wanted)} expected"


class ArgumentCorrectness(BaseEvaluator):
    """Passes where a call of a tool has these arguments."""

    kind: Literal["ArgumentCorrectness"] = "ArgumentCorrectness"
    tool_name: str
    """Name of the tool."""
    expected_arguments: dict[str, Any]
    """Arguments that the call must have."""
    match_mode: Literal["subset", "exact"] = "subset"
    """Whether the call may have other arguments as well."""
    occurrence: Literal["first", "last"] | int = "first"
    """Call that is looked at, where there are several; numbers count from 0."""
    include_failed: bool = False
    """Whether calls that failed count."""

    @property
    def default_name(self) -> str:
        """See BaseEvaluator."""
        return f"ArgumentCorrectness {self.tool_name}"

    def evaluate(self, seen: Seen) -> Finding:
        """See BaseEvaluator."""
        calls = [
            call for call in seen.facts.calls if call.tool == self.tool_name and _counts(call, self.include_failed)
        ]
        place = {"first": 0, "last": len(calls) - 1}.get(str(self.occurrence), self.occurrence)
        if not isinstance(place, int) or not 0 <= place < len(calls):
            return False, f"'{self.tool_name}' has {_calls(len(calls))}; {_called(seen.facts)}"
        args, wanted = calls[place].args, self.expected_arguments
        wrong = [key for key, value in wanted.items() if key not in args or not same_json(args[key], value)]
        if self.match_mode == "exact":
            wrong += [key for key in args if key not in wanted]
        return not wrong, f"other arguments: {', '.join(wrong[:MAX_LISTED])}" if wrong else ""


def _counts(call: CaseCall, include_failed: bool) -> bool:
    return call.outcome == "done" or (include_failed and call.ran)


def _done(facts: CaseFacts, include_failed: bool) -> list[str]:
    return [call.tool for call in facts.calls if _counts(call, include_failed)]


def _calls(count: int) -> str:
    return "1 call" if count == 1 else f"{count} calls"


def _called(facts: CaseFacts) -> str:
    """Return the tools that were called, in words."""
    tools: Sequence[str] = [call.tool for call in facts.calls]
    more = f", and {len(tools) - MAX_LISTED} more" if len(tools) > MAX_LISTED else ""
    return f"called: {', '.join(tools[:MAX_LISTED]) or 'nothing'}{more}"
