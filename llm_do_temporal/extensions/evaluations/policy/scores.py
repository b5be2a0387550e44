"""Evaluations and their scores: cases, the facts of their runs, evaluators with the keys of a file, and judges.

Facts are read from the run's histories and its layer, so that a score never depends on spans, clocks or the memory of
a process.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Annotated, Any, ClassVar, Literal, Protocol, Self, TypeAlias, cast, get_args

from pydantic import Field, StrictBool, StrictFloat, StrictStr, StringConstraints, field_validator, model_validator

from llm_do_temporal.messages.base import Message, is_empty
from llm_do_temporal.policy.budget import Limits
from llm_do_temporal.policy.files.encodings import whole_characters
from llm_do_temporal.policy.models import CutReason
from llm_do_temporal.policy.values import Value

Json: TypeAlias = Any
"""Any JSON value."""


class CaseError(Value):
    """End of a case without an answer: it says nothing about the quality of answers."""

    type: str
    """Name of the error's class."""
    message: str

    @property
    def words(self) -> str:
        """Class and message together."""
        return f"{self.type}: {self.message}"


class CaseUsage(Value):
    """Amounts that a case spent, in its whole tree of invocations."""

    turns: int = Field(default=0, ge=0)
    tool_calls: int = Field(default=0, ge=0)
    input_tokens: int = Field(default=0, ge=0)
    output_tokens: int = Field(default=0, ge=0)
    cost: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Cost in US dollars; None: the price of a model is not known."""

    @property
    def tokens(self) -> int:
        """Input and output tokens together."""
        return self.input_tokens + self.output_tokens


Outcome: TypeAlias = Literal["done", "failed", "refused", "unknown"]
"""End of a call: `refused` was never run (a rule or a person said no), `unknown` may or may not have happened."""


class CaseCall(Value):
    """Tool call of a case."""

    tool: str
    args: dict[str, Json] = Field(default_factory=dict)
    """Arguments with which it ran: those of the person who changed them, else those of the model."""
    path: str = "main"
    """Path of the invocation that called, like `main/reader-1`."""
    capabilities: tuple[str, ...] = ()
    decision: Literal["approved", "rejected", "changed"] | None = None
    """Answer of the person, or of the script of the case, that was asked; None: nobody was asked."""
    outcome: Outcome = "done"

    @property
    def ran(self) -> bool:
        """Whether the call was run, or may have been."""
        return self.outcome != "refused"


class CaseFile(Value):
    """File that a case wrote or deleted."""

    sha256: str | None
    """Digest of the file's bytes; None: the file was deleted."""
    bytes: int = Field(default=0, ge=0)
    text: str | None = None
    """Text of a small text file; None for others."""


class CaseFacts(Value):
    """Facts about one run of a case."""

    output: Json = None
    """The worker's text, or its structured value."""
    truncated: CutReason | None = None
    """Reason why the answer was cut; None: it was not."""
    error: CaseError | None = None
    usage: CaseUsage = CaseUsage()
    seconds: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Seconds from start to end without the time for which people were waited for; None: not known."""
    calls: tuple[CaseCall, ...] = ()
    """Calls of all invocations, in the order in which they began."""
    files: dict[str, CaseFile] = Field(default_factory=dict)
    """Files that differ from those before the case, by their paths as workers name them."""


MAX_REASON_CHARS = 500
"""Longest reason of a score; the rest is cut off: reasons quote answers of models."""


class CaseScore(Value):
    """Score that an evaluator gave a case."""

    name: str
    """Name of the metric."""
    value: StrictBool | StrictFloat | StrictStr
    """Pass or fail, a number of which more is better, or a label."""
    reason: str = ""


class EvaluatorFailure(Value):
    """Evaluator that could not judge a case; the case has no score of it."""

    name: str
    message: str


class CaseScores(Value):
    """Scores and failures of a case, in the order of its evaluators."""

    scores: tuple[CaseScore, ...] = ()
    failures: tuple[EvaluatorFailure, ...] = ()

    def plus(self, other: CaseScores) -> CaseScores:
        """Return the scores and failures of both."""
        return CaseScores(scores=(*self.scores, *other.scores), failures=(*self.failures, *other.failures))


class JudgeRun(Message):
    """Run of the judge for one answer."""

    run: str
    """Workflow id of the run."""
    seconds: float | None = None
    """Seconds that it took; None: not known."""
    turns: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    """Cost in US dollars; None: the price of a model is not known."""


class CaseResult(Message):
    """Result of one repeat of a case: facts of its run, and what evaluators and judge say of them."""

    case: str
    """Id of the case."""
    repeat: int = 1
    """Number of the repeat, from 1."""
    run: str
    """Workflow id of its run."""
    key: str = Field(default="", exclude_if=is_empty)
    """Key of this run by everything that it depends on; see `policy.experiment`. Empty: not known."""
    judgement: str = Field(default="", exclude_if=is_empty)
    """Key of the judgement; empty: it is not judged."""
    judged: CaseScores = CaseScores()
    """Scores of the judge, which are among `scores`."""
    origin: str = Field(default="", exclude_if=is_empty)
    """Experiment that it was taken over from, by its workflow id; empty: it was run for this one."""
    facts: CaseFacts
    scores: CaseScores = CaseScores()
    """Scores of evaluators and judge; those of a case that ended in an error are empty."""
    judges: tuple[JudgeRun, ...] = Field(default=(), exclude_if=is_empty)
    earlier: tuple[CaseResult, ...] = Field(default=(), exclude_if=is_empty)
    """Attempts before this one, the first one first: a case is tried again only after an error, and keeps them."""

    @property
    def name(self) -> str:
        """Text that names the repeat of the case within the experiment."""
        return f"{self.case}#{self.repeat}"

    @property
    def is_error(self) -> bool:
        """Whether the run ended in an error; it has no scores then."""
        return self.facts.error is not None

    @property
    def cost(self) -> float | None:
        """Cost of the worker's run in US dollars, without the judge's; None: not known."""
        return self.facts.usage.cost

    @property
    def seconds(self) -> float | None:
        """Seconds without waits for people; None: not known."""
        return self.facts.seconds

    @property
    def tokens(self) -> int:
        """Input and output tokens of the worker's run together."""
        return self.facts.usage.tokens

    @property
    def turns(self) -> int:
        """Turns of the worker's run, in its whole tree of invocations."""
        return self.facts.usage.turns

    def told(self) -> dict[str, Any]:
        """Return what programs are told of it, as JSON, without earlier attempts and the reason of a cut answer."""
        facts, scores = self.facts, self.scores
        return {
            "case": self.case,
            "repeat": self.repeat,
            "run": self.run,
            "origin": self.origin,
            "output": facts.output,
            "error": None if facts.error is None else facts.error.model_dump(mode="json"),
            "scores": {one.name: one.value for one in scores.scores},
            "reasons": {one.name: one.reason for one in scores.scores if one.reason},
            "failures": {one.name: one.message for one in scores.failures},
            "usage": facts.usage.model_dump(mode="json"),
            "seconds": facts.seconds,
        }

    def score(self, metric: str) -> bool | float | str | None:
        """Return the value of a metric; None: the case has no score of it."""
        return next((one.value for one in self.scores.scores if one.name == metric), None)


class EvaluatorProblem(Exception):
    """Reason for which an evaluator cannot judge a case; `str()` of it is for people."""


def shortened(text: str, limit: int = MAX_REASON_CHARS) -> str:
    """Return the text in whole characters, with dots in the place of its end where it has more than the limit."""
    text = whole_characters(text)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def scored(name: str, value: bool | float | str, reason: str = "") -> CaseScores:
    """Return one score, its reason shortened."""
    return CaseScores(scores=(CaseScore(name=name, value=value, reason=shortened(reason)),))


def failed(name: str, message: str) -> CaseScores:
    """Return the failure of an evaluator, and no score."""
    return CaseScores(failures=(EvaluatorFailure(name=name, message=shortened(message)),))


Finding = tuple[bool | float | str, str]
"""Value of a score, and its reason."""


class Matchers(Protocol):
    """Judges of texts and values whose work is bounded. Each raises EvaluatorProblem where it cannot judge."""

    def found(self, pattern: str, text: str) -> bool:
        """Return whether the regular expression matches any part of the text."""
        ...

    def schema_problems(self, schema: Mapping[str, Any], value: Any) -> list[str]:
        """Return the problems of a value with a JSON Schema, a line each."""
        ...


@dataclass(frozen=True)
class Seen:
    """Case as an evaluator sees it."""

    expected: Any
    """Expected answer; None: the case has none."""
    facts: CaseFacts
    matchers: Matchers


class BaseEvaluator(Value):
    """Evaluator: keys as they stand in a file, and the score that follows from the facts of a case."""

    argument: ClassVar[str | None] = None
    """Key that is meant by `Name: value`; None: there is no such spelling."""

    evaluation_name: str | None = Field(default=None, min_length=1, max_length=100)
    """Name of the metric; None: it follows from the evaluator."""

    @property
    def metric(self) -> str:
        """Name of the metric that thresholds and comparisons know."""
        return self.evaluation_name or self._default_name

    @property
    def _default_name(self) -> str:
        return type(self).__name__

    def evaluate(self, seen: Seen) -> Finding | None:
        """Return the score and its reason; None: it does not apply to this case. Raises EvaluatorProblem."""
        return self._evaluate(seen)

    def _evaluate(self, seen: Seen) -> Finding | None:
        raise NotImplementedError


def _checked_path(path: str) -> str:
    if json_path_steps(path) is None:
        raise ValueError(f"'{path[:80]}' is no path like `$.scores[0].name`; names, positions and `*` are allowed")
    return path


class Equals(BaseEvaluator):
    """Passes where the answer is this value."""

    argument: ClassVar[str | None] = "value"
    kind: Literal["Equals"] = "Equals"
    value: Any
    """Value that the answer must be."""

    def _evaluate(self, seen: Seen) -> Finding:
        return _equality(seen.facts.output, self.value)


class EqualsExpected(BaseEvaluator):
    """Passes where the answer is the expected one; a case that expects nothing has no score."""

    kind: Literal["EqualsExpected"] = "EqualsExpected"

    def _evaluate(self, seen: Seen) -> Finding | None:
        return None if seen.expected is None else _equality(seen.facts.output, seen.expected)


def _equality(output: Any, wanted: Any) -> Finding:
    equal = same_json(output, wanted)
    return equal, "" if equal else f"{quoted(output)} is not {quoted(wanted)}"


class Contains(BaseEvaluator):
    """Passes where a text contains the value, a list has it as an item, or keys and values have all of its own."""

    argument: ClassVar[str | None] = "value"
    kind: Literal["Contains"] = "Contains"
    value: Any
    """Text, item, or keys and values, that the answer must have."""
    case_sensitive: bool = True
    """Whether capitals count, where texts are compared."""
    as_strings: bool = False
    """Whether both are compared as texts: anything but a text as its JSON."""

    def _evaluate(self, seen: Seen) -> Finding:
        output, found = seen.facts.output, False
        if self.as_strings or (isinstance(self.value, str) and isinstance(output, str)):
            text, part = json_text(output), json_text(self.value)
            found = part in text if self.case_sensitive else part.casefold() in text.casefold()
        elif isinstance(output, Mapping):
            found = isinstance(self.value, str) and self.value in output
            if isinstance(self.value, Mapping):
                wanted = cast("Mapping[str, Any]", self.value)
                found = all(key in output and same_json(output[key], value) for key, value in wanted.items())
        elif isinstance(output, list | tuple):
            found = any(same_json(item, self.value) for item in cast("list[Any]", output))
        return found, "" if found else f"{quoted(output)} does not contain {quoted(self.value)}"


class IsInstance(BaseEvaluator):
    """Passes where the answer is of a type, by its name in Python: `str`, `int`, `float`, `bool`, `list`, `dict`."""

    argument: ClassVar[str | None] = "type_name"
    kind: Literal["IsInstance"] = "IsInstance"
    type_name: Literal["str", "int", "float", "bool", "list", "dict", "NoneType"]
    """Name of the type in Python."""

    def _evaluate(self, seen: Seen) -> Finding:
        names = [one.__name__ for one in type(seen.facts.output).__mro__]
        return self.type_name in names, f"the answer is of type {names[0]}"


class Matches(BaseEvaluator):
    """Passes where a regular expression matches any part of the answer, or of the value at a path."""

    argument: ClassVar[str | None] = "pattern"
    kind: Literal["Matches"] = "Matches"
    pattern: str
    """Regular expression as JSON Schema has them: without back-references and look-behind, so that its work is linear.
    """
    path: str = "$"
    """Path of the value; all values that it leads to are looked at."""

    _check_path = field_validator("path")(_checked_path)

    def _evaluate(self, seen: Seen) -> Finding:
        texts = [json_text(value) for value in values_at(seen.facts.output, json_path_steps(self.path) or ())]
        matched = any(seen.matchers.found(self.pattern, text) for text in texts)
        what = quoted(seen.facts.output) if texts else f"nothing is at {self.path}: {quoted(seen.facts.output)}"
        return matched, "" if matched else f"{what} does not match '{self.pattern[:100]}'"


class JsonPath(BaseEvaluator):
    """Judges the values at a path of a structured answer; without a comparison, the value itself is the score.

    With several values all of them must meet the comparisons.
    """

    argument: ClassVar[str | None] = "path"
    kind: Literal["JsonPath"] = "JsonPath"
    path: str
    """Path of the values, like `$.scores[*].value`."""
    equals: Any = None
    """Value that it must be; None: any."""
    one_of: tuple[Any, ...] | None = None
    """Values of which it must be one; None: any."""
    at_least: float | None = None
    """Smallest number that it may be."""
    at_most: float | None = None
    """Largest number that it may be."""
    exists: bool | None = None
    """Whether anything must be at the path, or nothing."""

    _check_path = field_validator("path")(_checked_path)

    @property
    def _default_name(self) -> str:
        return f"JsonPath {self.path}"

    def _evaluate(self, seen: Seen) -> Finding:
        found = values_at(seen.facts.output, json_path_steps(self.path) or ())
        if self.exists is not None and bool(found) is not self.exists:
            return False, f"there is {'nothing' if self.exists else quoted(found[0])} at {self.path}"
        if all(given is None for given in (self.equals, self.one_of, self.at_least, self.at_most)):
            return (True, "") if self.exists is not None else self._score(found)
        if not found:
            return False, f"there is nothing at {self.path}"
        wrong = [value for value in found if not self._fits(value)]
        return not wrong, f"{quoted(wrong[0])} at {self.path}" if wrong else ""

    def _fits(self, value: Any) -> bool:
        if self.equals is not None and not same_json(value, self.equals):
            return False
        if self.one_of is not None and not any(same_json(value, one) for one in self.one_of):
            return False
        if self.at_least is None and self.at_most is None:
            return True
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        return (self.at_least is None or value >= self.at_least) and (self.at_most is None or value <= self.at_most)

    def _score(self, found: list[Any]) -> Finding:
        if len(found) != 1:
            raise EvaluatorProblem(f"the score is one value, and there are {len(found)} at {self.path}")
        value = found[0]
        if isinstance(value, bool | str):
            return value, ""
        if not isinstance(value, int | float):
            raise EvaluatorProblem(f"a score is true, false, a number or a text, not {quoted(value)} at {self.path}")
        return float(value), ""


class FitsSchema(BaseEvaluator):
    """Passes where the answer fits a JSON Schema."""

    kind: Literal["FitsSchema"] = "FitsSchema"
    json_schema: dict[str, Any]
    """JSON Schema that the answer must fit."""

    def _evaluate(self, seen: Seen) -> Finding:
        problems = seen.matchers.schema_problems(self.json_schema, seen.facts.output)
        return not problems, "; ".join(problems[:3])


class _OfFile(BaseEvaluator):
    """Evaluator of one file."""

    path: str = Field(min_length=1)
    """Path as the worker names the file, like `/notes.md`."""

    @property
    def _default_name(self) -> str:
        return f"{type(self).__name__} {self.path}"

    def touched(self, seen: Seen) -> CaseFile | None:
        """Return the file that the case left at the path; None where it touched none."""
        wanted = self.path.lstrip("/")
        return next((file for name, file in seen.facts.files.items() if name.lstrip("/") == wanted), None)

    def written(self, seen: Seen) -> CaseFile | None:
        """Return the file that the case wrote; None where it wrote none, or deleted it."""
        file = self.touched(seen)
        return None if file is None or file.sha256 is None else file

    def absence(self, seen: Seen) -> str:
        """Return in words that the case did not write the file, and which ones it wrote."""
        names = sorted(name for name, file in seen.facts.files.items() if file.sha256 is not None)
        rest = f", and {len(names) - 5} more" if len(names) > 5 else ""
        return f"'{self.path}' was not written; written: {', '.join(names[:5]) or 'nothing'}{rest}"


class FileEquals(_OfFile):
    """Passes where the case wrote a file of exactly this text, or of bytes with this digest."""

    kind: Literal["FileEquals"] = "FileEquals"
    text: str | None = None
    """Whole text of the file, newlines included."""
    sha256: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")
    """Digest of the file's bytes."""

    @model_validator(mode="after")
    def _one_content(self) -> Self:
        if (self.text is None) is (self.sha256 is None):
            raise ValueError("give either 'text' or 'sha256'")
        return self

    def _evaluate(self, seen: Seen) -> Finding:
        file = self.written(seen)
        if file is None:
            return False, self.absence(seen)
        wanted = self.sha256 or hashlib.sha256((self.text or "").encode(errors="surrogatepass")).hexdigest()
        if file.sha256 == wanted:
            return True, ""
        return False, f"'{self.path}' has other content{'' if file.text is None else f': {quoted(file.text)}'}"


class FileContains(_OfFile):
    """Passes where the case wrote a file in which this text stands."""

    kind: Literal["FileContains"] = "FileContains"
    value: str
    """Text that the file must contain."""

    def _evaluate(self, seen: Seen) -> Finding:
        file = self.written(seen)
        if file is None:
            return False, self.absence(seen)
        if file.text is None:
            raise EvaluatorProblem(f"'{self.path}' is no small text file ({file.bytes} bytes); use `FileEquals`")
        found = self.value in file.text
        return found, "" if found else f"{quoted(file.text)} does not contain {quoted(self.value)}"


class FileWritten(_OfFile):
    """Passes where the case wrote the file, whatever its content."""

    argument: ClassVar[str | None] = "path"
    kind: Literal["FileWritten"] = "FileWritten"

    def _evaluate(self, seen: Seen) -> Finding:
        written = self.written(seen) is not None
        return written, "" if written else self.absence(seen)


class FileUntouched(_OfFile):
    """Passes where the case neither wrote nor deleted the file."""

    argument: ClassVar[str | None] = "path"
    kind: Literal["FileUntouched"] = "FileUntouched"

    def _evaluate(self, seen: Seen) -> Finding:
        file = self.touched(seen)
        if file is None:
            return True, ""
        return False, f"'{self.path}' was {'deleted' if file.sha256 is None else 'written'}"


MAX_COMPARED = 5_000
"""Names of each list that are compared; a longer one is cut off, since the work grows with the product of both."""


def common_in_order(one: Sequence[str], other: Sequence[str]) -> int:
    """Return the length of the longest common subsequence."""
    lengths = [0] * (len(other) + 1)
    for name in one[:MAX_COMPARED]:
        diagonal = 0
        for place, wanted in enumerate(other[:MAX_COMPARED], start=1):
            above = lengths[place]
            lengths[place] = diagonal + 1 if name == wanted else max(above, lengths[place - 1])
            diagonal = above
    return max(lengths)


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
    def _default_name(self) -> str:
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

    def _evaluate(self, seen: Seen) -> Finding:
        wanted = ("done", "failed", "unknown") if self.include_failed else ("done",)
        count = sum(call.outcome in wanted for call in self.fitting(seen.facts))
        passed = count >= self.at_least and (self.at_most is None or count <= self.at_most)
        return passed, f"{_calls(count)}{'' if passed else f'; {_called(seen.facts)}'}"


class NeverCalled(CallsEvaluator):
    """Passes where no such call was made, nor asked for."""

    kind: Literal["NeverCalled"] = "NeverCalled"
    include_refused: bool = True
    """Whether calls count that a rule or a person refused."""

    def _evaluate(self, seen: Seen) -> Finding:
        calls = [call for call in self.fitting(seen.facts) if call.ran or self.include_refused]
        return not calls, f"{_calls(len(calls))}, the first with {quoted(calls[0].args)}" if calls else ""


class AskedFirst(CallsEvaluator):
    """Passes where a person was asked before each such call that was run."""

    kind: Literal["AskedFirst"] = "AskedFirst"

    def _evaluate(self, seen: Seen) -> Finding:
        ran = [call for call in self.fitting(seen.facts) if call.ran]
        unasked = [call for call in ran if call.decision is None]
        if unasked:
            first = quoted(unasked[0].args)
            return False, f"{len(unasked)} of {_calls(len(ran))} without a question, the first {first}"
        return True, _calls(len(ran))


class CallOrder(BaseEvaluator):
    """Passes where calls of these tools were done in this order; others may stand between them."""

    argument: ClassVar[str | None] = "tools"
    kind: Literal["CallOrder"] = "CallOrder"
    tools: tuple[str, ...] = Field(min_length=1)
    """Names of the tools, in their order."""

    def _evaluate(self, seen: Seen) -> Finding:
        made = iter(_tools(seen.facts, include_failed=False))
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

    def _evaluate(self, seen: Seen) -> Finding:
        made, wanted = Counter(_tools(seen.facts, self.include_failed)), Counter(self.expected_tools)
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

    def _evaluate(self, seen: Seen) -> Finding:
        made, wanted = _tools(seen.facts, self.include_failed), list(self.expected_trajectory)
        if self.order == "exact":
            return float(made == wanted), "" if made == wanted else _called(seen.facts)
        shared = (Counter(made) & Counter(wanted)).total()
        common = common_in_order(made, wanted) if self.order == "in_order" else shared
        score = 2 * common / (len(made) + len(wanted)) if made or wanted else 1.0
        return score, f"{common} in common, {len(made)} called, {len(wanted)} expected"


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
    def _default_name(self) -> str:
        return f"ArgumentCorrectness {self.tool_name}"

    def _evaluate(self, seen: Seen) -> Finding:
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


def _tools(facts: CaseFacts, include_failed: bool) -> list[str]:
    return [call.tool for call in facts.calls if _counts(call, include_failed)]


def _calls(count: int) -> str:
    return "1 call" if count == 1 else f"{count} calls"


def _called(facts: CaseFacts) -> str:
    """Return the tools that were called, in words."""
    tools = [call.tool for call in facts.calls]
    more = f", and {len(tools) - MAX_LISTED} more" if len(tools) > MAX_LISTED else ""
    return f"called: {', '.join(tools[:MAX_LISTED]) or 'nothing'}{more}"


class MaxTurns(BaseEvaluator):
    """Passes where all workers of the case together took at most so many turns of their models."""

    argument: ClassVar[str | None] = "turns"
    kind: Literal["MaxTurns"] = "MaxTurns"
    turns: int = Field(ge=0)
    """Most turns."""

    def _evaluate(self, seen: Seen) -> Finding:
        turns = seen.facts.usage.turns
        return turns <= self.turns, f"{turns} turns"


class MaxToolCalls(BaseEvaluator):
    """Passes where at most so many calls of tools were run."""

    argument: ClassVar[str | None] = "max_calls"
    kind: Literal["MaxToolCalls"] = "MaxToolCalls"
    max_calls: int = Field(ge=0)
    """Most calls."""
    include_failed: bool = True
    """Whether calls that failed count."""

    def _evaluate(self, seen: Seen) -> Finding:
        count = len(_tools(seen.facts, self.include_failed))
        return count <= self.max_calls, f"{count} calls"


class MaxDollars(BaseEvaluator):
    """Passes where the case cost at most so many US dollars; where a price is not known, there is no score."""

    argument: ClassVar[str | None] = "dollars"
    kind: Literal["MaxDollars"] = "MaxDollars"
    dollars: float = Field(ge=0, allow_inf_nan=False)
    """Most US dollars."""

    def _evaluate(self, seen: Seen) -> Finding:
        cost = seen.facts.usage.cost
        if cost is None:
            raise EvaluatorProblem("the cost is not known: a model has no price")
        return cost <= self.dollars, f"{cost:.4f} dollars"


class MaxSeconds(BaseEvaluator):
    """Passes where the case took at most so many seconds, without the time for which people were waited for."""

    argument: ClassVar[str | None] = "seconds"
    kind: Literal["MaxSeconds"] = "MaxSeconds"
    seconds: float = Field(ge=0, allow_inf_nan=False)
    """Most seconds."""

    def _evaluate(self, seen: Seen) -> Finding:
        seconds = seen.facts.seconds
        if seconds is None:
            raise EvaluatorProblem("the time is not known")
        return seconds <= self.seconds, f"{seconds:.1f} seconds"


class Python(BaseEvaluator):
    """Calls a Python function with the facts of the case; what it returns is the score, or keys and scores."""

    argument: ClassVar[str | None] = "function"
    kind: Literal["Python"] = "Python"
    function: str = Field(min_length=1, max_length=200)
    """Reference like `evaluators.py:is_polite` or `evaluators.is_polite`: a file of the workshop, and a name in it."""
    arguments: dict[str, Any] = Field(default_factory=dict)
    """Further arguments of the function, by their names."""

    @property
    def _default_name(self) -> str:
        return self.function.rpartition(":")[2].rpartition(".")[2]

    def _evaluate(self, seen: Seen) -> Finding:
        raise EvaluatorProblem("a Python function is run by an activity, and was not")


_Any = (
    Equals
    | EqualsExpected
    | Contains
    | IsInstance
    | Matches
    | JsonPath
    | FitsSchema
    | FileEquals
    | FileContains
    | FileWritten
    | FileUntouched
    | Called
    | NeverCalled
    | AskedFirst
    | CallOrder
    | ToolCorrectness
    | TrajectoryMatch
    | ArgumentCorrectness
    | MaxTurns
    | MaxToolCalls
    | MaxDollars
    | MaxSeconds
    | Python
)
Evaluator: TypeAlias = Annotated[_Any, Field(discriminator="kind")]
"""Evaluator of any kind, told by `kind`."""
EVALUATORS: Mapping[str, type[BaseEvaluator]] = {kind.__name__: kind for kind in get_args(_Any)}
"""Evaluators by the names that files have for them, in the order of the docs."""


Step: TypeAlias = str | int | None
"""Name of a member, position of an item (negative: from the end), or None for all of them."""

_STEP = re.compile(
    r"\.(?P<name>[^\W\d]\w*)|(?P<all>\.\*|\[\*\])|\[(?P<place>-?\d{1,9})\]"
    r"|\['(?P<single>[^'\\]*)'\]|\[\"(?P<double>[^\"\\]*)\"\]"
)
MAX_STEPS = 50
MAX_FOUND = 10_000
"""Most values that a path finds in a value; further ones are not looked at."""


def json_path_steps(path: str) -> tuple[Step, ...] | None:
    """Return the steps of a path like `$.scores[0].name`; None for a text that is no such path."""
    if not path.startswith("$"):
        return None
    place, steps = 1, list[Step]()
    while place < len(path):
        found = _STEP.match(path, place)
        if found is None or len(steps) == MAX_STEPS:
            return None
        steps.append(_step(found))
        place = found.end()
    return tuple(steps)


def _step(found: re.Match[str]) -> Step:
    if found["all"]:
        return None
    if found["place"]:
        return int(found["place"])
    return next(found[kind] for kind in ("name", "single", "double") if found[kind] is not None)


def values_at(value: Any, steps: Sequence[Step]) -> list[Any]:
    """Return the values to which the steps lead, in order; empty where nothing is."""
    found = [value]
    for step in steps:
        found = [inner for one in found for inner in _inside(one, step)][:MAX_FOUND]
    return found


def _inside(value: Any, step: Step) -> Iterator[Any]:
    if isinstance(value, Mapping):
        members = cast("Mapping[str, Any]", value)
        if step is None:
            yield from members.values()
        elif isinstance(step, str) and step in members:
            yield members[step]
    elif isinstance(value, list | tuple):
        items = cast("Sequence[Any]", value)
        if step is None:
            yield from items
        elif isinstance(step, int) and -len(items) <= step < len(items):
            yield items[step]


def same_json(one: Any, other: Any) -> bool:
    """Return whether two JSON values are equal: `1` and `1.0` are, `true` and `1` are not."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        ours, theirs = cast("Mapping[str, Any]", one), cast("Mapping[str, Any]", other)
        return ours.keys() == theirs.keys() and all(same_json(item, theirs[key]) for key, item in ours.items())
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        items, others = cast("Sequence[Any]", one), cast("Sequence[Any]", other)
        return len(items) == len(others) and all(map(same_json, items, others))
    return bool(one == other)


def json_text(value: Any) -> str:
    """Return a text as it is, and any other value as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def quoted(value: Any, limit: int = 100) -> str:
    """Return a value in quotes for a reason, its middle left out where it is long."""
    text = json_text(value)
    if len(text) > limit:
        text = f"{text[: limit // 2]} … {text[-limit // 2 :]}"
    return f"'{text}'"


DEFAULT_CONCURRENCY = 4
MAX_CASES = 5_000
MAX_REPEATS = 100
MAX_CONCURRENCY = 200
EXPECTED = "expected"
"""`against:` of a judge that compares each answer with the expected one."""
COUNTED = ("errors", "failures", "missing")
"""Names of thresholds that are numbers of runs of cases, none of them a metric."""
BESIDE = ("cost", "seconds", "tokens", "turns")
"""Names of thresholds that are amounts, none of them a metric."""
FIGURES = frozenset({*COUNTED, *BESIDE})
"""Names that no metric has. A number is the most that is allowed of these, as less of them is better."""

CaseId = Annotated[str, StringConstraints(min_length=1, max_length=100)]
Shown: TypeAlias = Literal["prompt", "input", "output", "expected", "metadata", "files", "calls"]
"""Part of a case that a judge is shown."""


class DecideEntry(Value):
    """Answer to the questions of a case, in the place of a person's; the first entry that fits is taken."""

    tool: str = ""
    """Tool of the question; empty: any."""
    decision: Literal["approve", "reject", "modify"]
    note: str = ""
    """Reason that the model is told, for `reject`."""
    args: dict[str, Json] | None = None
    """Arguments in the place of the model's, for `modify`."""
    times: int | None = Field(default=None, ge=1)
    """Number of questions that it answers; None: all that it fits."""


class JudgeSpec(Value):
    """Worker that judges answers: its rubric is in its file, its scores are in its structured output."""

    worker: str = Field(min_length=1)
    model: str | None = None
    """Model of the judge; None: as its file and the workshop say."""
    shows: tuple[Shown, ...] = ("prompt", "input", "output", "expected")
    """Parts of the case that it is shown."""
    scores: tuple[str, ...] | None = None
    """Fields of its output that are scores; None: all that are true, false or a number."""
    against: str | None = None
    """Other answer of a pair, which it is shown in both orders: `expected`, or the id of an evaluation's run; None: it
    is shown the answer alone."""

    def metric(self, field: str) -> str:
        """Return the name of the metric that a field of its output is."""
        return f"{self.worker}.{field}"


class Bound(Value):
    """Bound for a metric."""

    at_least: float | None = Field(default=None, allow_inf_nan=False)
    at_most: float | None = Field(default=None, allow_inf_nan=False)
    label: str | None = Field(default=None, min_length=1)
    """Label whose share of the cases is bounded; None: the mean is, and the share that passed."""


class Threshold(Bound):
    """Bound for a metric of all cases, or for their errors or cost: what is beyond it fails the evaluation."""

    metric: str


class EvaluationSettings(Value):
    """Settings under which all cases run."""

    model: str | None = None
    """Model of the worker under test, instead of that of its file; None: as its file and the workshop say."""
    turns: Literal["now", "batch"] | None = None
    """Whether turns of models are asked at once, or in the batches of providers that sell them for less; None: as the
    workers and the workshop say."""
    limits: Limits = Limits()
    """Limits of each case."""


class EvaluationCase(Value):
    """Task for the worker, and what is known of a good answer."""

    id: CaseId
    prompt: str = ""
    input: Json = None
    attachments: tuple[str, ...] = ()
    """Files handed to the worker, by their paths below the workshop."""
    expected: Json = None
    """Expected answer; None: nothing is expected."""
    metadata: dict[str, Json] = Field(default_factory=dict)
    decide: tuple[DecideEntry, ...] = ()
    """Answers to the questions that the case asks. A question that none fits is rejected."""
    evaluators: tuple[Evaluator, ...] = ()
    """Evaluators of this case, beside those of all cases."""


class EvaluationSpec(Value):
    """Evaluation as its file describes it."""

    name: str
    worker: str
    cases: tuple[EvaluationCase, ...] = Field(max_length=MAX_CASES)
    repeats: int = Field(default=1, ge=1, le=MAX_REPEATS)
    """Times that each case is run."""
    evaluators: tuple[Evaluator, ...] = ()
    """Evaluators of all cases."""
    judge: JudgeSpec | None = None
    thresholds: tuple[Threshold, ...] = ()
    concurrency: int = Field(default=DEFAULT_CONCURRENCY, ge=1, le=MAX_CONCURRENCY)
    """Cases that run at a time."""
    settings: EvaluationSettings = EvaluationSettings()

    def case(self, case_id: str) -> EvaluationCase | None:
        """Return the case with this id; None where there is none."""
        return next((case for case in self.cases if case.id == case_id), None)

    def evaluators_of(self, case: EvaluationCase) -> tuple[Evaluator, ...]:
        """Return the evaluators of a case: those of all cases, then its own."""
        return (*self.evaluators, *case.evaluators)


def repeated_metric(evaluators: Sequence[Evaluator], judge: JudgeSpec | None = None) -> str | None:
    """Return the first metric that two of these can give; None where all have names of their own.

    A Python function gives metrics below its name, too, and a judge below that of its worker.
    """
    judges = [] if judge is None else [judge.worker]
    above = tuple(f"{one}." for one in [*judges, *(one.metric for one in evaluators if isinstance(one, Python))])
    names = set(judges)
    for evaluator in evaluators:
        if evaluator.metric in names or evaluator.metric.startswith(above):
            return evaluator.metric
        names.add(evaluator.metric)
    return None


REASON = "reason"
"""Field of an answer of a judge, or of a Python function, that explains its scores."""
PREFERENCE = "better"
"""Field in which a judge of a pair says which answer is better."""
ANSWERS = ("answer_1", "answer_2")
"""Names of the answers of a pair, as the judge is shown them and as it answers; anything else is a tie."""


def score_case(spec: EvaluationSpec, case: EvaluationCase, facts: CaseFacts, matchers: Matchers) -> CaseScores:
    """Return what all evaluators of a case say, but for Python functions and the judge.

    A case that ended in an error has no scores: it is no wrong answer.
    """
    if facts.error is not None:
        return CaseScores()
    seen = Seen(expected=case.expected, facts=facts, matchers=matchers)
    found = CaseScores()
    for evaluator in spec.evaluators_of(case):
        if not isinstance(evaluator, Python):
            found = found.plus(_scored(evaluator, seen))
    return found


def _scored(evaluator: BaseEvaluator, seen: Seen) -> CaseScores:
    try:
        finding = evaluator.evaluate(seen)
    except EvaluatorProblem as problem:
        return failed(evaluator.metric, str(problem))
    except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError) as error:
        # The same answer would fail in the same way: it is no reason to try the case again.
        return failed(evaluator.metric, f"the answer cannot be evaluated: {type(error).__name__}: {error}")
    return CaseScores() if finding is None else scored(evaluator.metric, *finding)


def python_scores(evaluator: Python, returned: Any) -> CaseScores:
    """Return the scores that a Python function returned: one value, or values by name; None and {} are no score."""
    if returned is None:
        return CaseScores()
    if not isinstance(returned, Mapping):
        return _score(evaluator.metric, returned, "")
    values = dict(cast("Mapping[str, Any]", returned))
    reason = values.pop(REASON, "")
    found = CaseScores()
    for name, value in values.items():
        metric = evaluator.metric if name == "value" else f"{evaluator.metric}.{shortened(str(name), 100)}"
        found = found.plus(_score(metric, value, str(reason)))
    return found


def _score(name: str, value: Any, reason: str) -> CaseScores:
    if isinstance(value, bool):
        return scored(name, value, reason)
    if isinstance(value, str):
        return scored(name, shortened(value, 100), reason)
    if isinstance(value, int | float):
        try:
            number = float(value)
        except OverflowError:
            return failed(name, "a score is a number of at most about 1.8e308, and this one is larger")
        if abs(number) < float("inf"):
            return scored(name, number, reason)
    return failed(name, f"a score is true, false, a number or a label, not {quoted(value)}")


def judge_request(judge: JudgeSpec, case: EvaluationCase, facts: CaseFacts) -> dict[str, Any]:
    """Return the input of the judge for an answer by itself; parts of the case without content are left out."""
    shown = _task(case, judge.shows)
    if "output" in judge.shows:
        shown["output"] = facts.output
    if "files" in judge.shows:
        shown["files"] = {
            path: file.text if file.text is not None else {"sha256": file.sha256, "bytes": file.bytes}
            for path, file in facts.files.items()
        }
    if "calls" in judge.shows:
        shown["calls"] = [
            {"tool": call.tool, "args": call.args, "outcome": call.outcome, "decision": call.decision}
            for call in facts.calls
        ]
    return shown


def pair_requests(
    judge: JudgeSpec, case: EvaluationCase, facts: CaseFacts, other: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the inputs of the judge for the answer beside another one, in both orders."""
    shown = _task(case, [part for part in judge.shows if part != "expected"])
    first, second = ANSWERS
    return (
        {**shown, first: facts.output, second: other},
        {**shown, first: other, second: facts.output},
    )


def _task(case: EvaluationCase, shown: Iterable[str]) -> dict[str, Any]:
    parts = {"prompt": case.prompt, "input": case.input, "expected": case.expected, "metadata": case.metadata}
    return {name: part for name, part in parts.items() if name in shown and part not in (None, "", {})}


def judge_scores(judge: JudgeSpec, output: Any) -> CaseScores:
    """Return the scores in the output of a judge."""
    if not isinstance(output, Mapping):
        return failed(judge.worker, f"the judge's output has no fields: {quoted(output)}; give it an `output_schema`")
    fields = cast("Mapping[str, Any]", output)
    wanted = judge.scores
    if wanted is None:
        wanted = tuple(name for name, value in fields.items() if isinstance(value, bool | int | float))
    if not wanted:
        return failed(judge.worker, f"the judge's output has no score: {quoted(output)}")
    reason = fields.get(REASON, "")
    found = CaseScores()
    for name in wanted:
        metric = judge.metric(name)
        found = found.plus(
            _score(metric, fields[name], str(reason))
            if name in fields
            else failed(metric, f"the judge's output has no '{name}': {quoted(output)}")
        )
    return found


def pair_scores(judge: JudgeSpec, first: Any, second: Any) -> CaseScores:
    """Return the score of an answer beside another one, of what the judge said in both orders.

    1 where it is the better one both times, 0 where the other one is, else 0.5: whom the judge prefers in one order
    alone, it prefers for its place.
    """
    said = [_preference(output) for output in (first, second)]
    metric = judge.metric(PREFERENCE)
    if None in said:
        return failed(metric, f"the judge's output has no '{PREFERENCE}': {quoted(first)}, {quoted(second)}")
    value = 1.0 if said == [*ANSWERS] else 0.0 if said == [*reversed(ANSWERS)] else 0.5
    return scored(metric, value, f"shown first: {said[0]}; shown second: {said[1]}")


def _preference(output: Any) -> str | None:
    if not isinstance(output, Mapping):
        return None
    value = cast("Mapping[str, Any]", output).get(PREFERENCE)
    return None if value is None else str(value)
