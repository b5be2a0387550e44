"""Trial of a policy: what it would make of past calls, and of the calls at the edge of its new entries.

Nothing is asked, changed or run. What people said stands beside each call, and decides nothing about the verdict.

Past calls are those that asked in the runs of the last time, each with its answer, as the histories tell them: what a
history does not tell is None, or among `unknown`. Entries of `approvals: allow:` are learned from them; a person reads
the change of `workshop.yaml` that adds them, and commits it. Nothing is written here.
"""

from __future__ import annotations

import asyncio
import difflib
import json
import re
import shlex
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

from pydantic import ValidationError
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client, WorkflowExecution, WorkflowExecutionStatus
from temporalio.service import RPCError

from llm_do_temporal.client.batches import read_given
from llm_do_temporal.client.connections import is_missing, translated
from llm_do_temporal.client.history.events import as_object, first_object, read_chain
from llm_do_temporal.client.history.invocations import Beginnings
from llm_do_temporal.client.history.questions import Question, read_desk
from llm_do_temporal.client.views.server_list import ANSWERED_RUNS, NEWEST_EXECUTION, read_begun, stamp
from llm_do_temporal.client.views.tree import quoted
from llm_do_temporal.definitions.keys.files import WorkshopConfig
from llm_do_temporal.definitions.workshop import load_workshop, with_allow_entries
from llm_do_temporal.definitions.yaml.documents import Document, parse_yaml, raise_first, validate
from llm_do_temporal.errors import KeyMismatch, UsageError
from llm_do_temporal.extensions.rules.policy.lessons import (
    MIN_DAYS,
    MIN_RUNS,
    LearnedKind,
    Lesson,
    Opinion,
    learned_kinds,
)
from llm_do_temporal.extensions.rules.policy.verdicts import (
    ChangeKind,
    GateOutcome,
    Neighbour,
    PastVerdict,
    Policy,
    change_between,
    judge_again,
    lacks_places,
    neighbours_of,
)
from llm_do_temporal.messages.approvals import PROGRAM, DecisionKind
from llm_do_temporal.messages.base import RUN_WORKFLOW, WORKER_WORKFLOW, Strict
from llm_do_temporal.policy.approvals import ApprovalRules, Mode, decide
from llm_do_temporal.policy.delegation import is_template
from llm_do_temporal.policy.files.protection import PATH_TOOLS
from llm_do_temporal.policy.kinds.kind import AllowEntry, AskedCall, argv_of, callee_of, covering, place_of
from llm_do_temporal.policy.shell import ShellPolicy
from llm_do_temporal.redaction.configured_keys import remove_keys
from llm_do_temporal.workshop_search import WORKSHOP_FILE

MOST_RUNS_READ = 5_000
"""Runs that are read unless somebody wants more: each is a history, some milliseconds and some kilobytes."""
_NEXUS = "nexus"
"""Door whose callers say who has decided: nobody whom we know looked at the call."""
_AT_ONCE = 8
"""Histories read side by side."""
UnknownFact = Literal["definition", "files"]
"""Fact that the history of a call may lack: the definition of its worker, or where the files that it names were."""


class CallAnswer(StrEnum):
    """Answer that a call got."""

    APPROVED = "approved"
    """A person agreed to the call as it was."""
    REJECTED = "rejected"
    """A person refused it."""
    MODIFIED = "modified"
    """A person agreed to other arguments."""
    REMEMBERED = "remembered"
    """A decision that was remembered, or a rule, answered it: no person looked at this call."""
    PROGRAM = "program"
    """A program with a token decided, a workflow handed it on, or a signal named nobody: who looked is not known."""
    EXPIRED = "expired"
    """Time that ran out before anybody decided."""
    NONE = "none"
    """Withdrawal, no answer yet, or an approval of a call that was then asked about again."""

    @property
    def is_of_person(self) -> bool:
        """Whether a person looked at this call and decided."""
        return self in (CallAnswer.APPROVED, CallAnswer.REJECTED, CallAnswer.MODIFIED)

    @property
    def is_against(self) -> bool:
        """Whether a person did not want this call as it was."""
        return self in (CallAnswer.REJECTED, CallAnswer.MODIFIED)


@dataclass(frozen=True)
class AskingWorker:
    """Worker that asked, as its invocation had it."""

    sha256: str
    """Digest of its definition."""
    shell: ShellPolicy | None
    """Commands that it might run; None: it had no `shell`."""
    rules: ApprovalRules
    """Rules of the workshop when the run began."""
    mode: Mode


@dataclass(frozen=True)
class PastCall:
    """Call that asked, with its answer."""

    question: Question
    """The question, with the whole call; `question.verdict` is the decision."""
    asker: AskingWorker | None
    """None where the run's history does not have the definition: that of a worker below a worker of the entry."""
    task: str = ""
    """First line of the run's prompt; empty where nothing tells it."""

    @property
    def run(self) -> str:
        """Id of the run."""
        return self.question.run

    @property
    def asked_at(self) -> datetime:
        """Time of the question."""
        return self.question.asked_at

    @property
    def answer(self) -> CallAnswer:
        """The answer; of several votes, the decision that they made."""
        verdict = self.question.verdict
        is_moot = self.question.again and verdict is not None and verdict.decision is DecisionKind.APPROVE
        if verdict is None or verdict.door == "script" or is_moot:
            return CallAnswer.NONE
        if verdict.door == "timer":
            return CallAnswer.EXPIRED
        if verdict.door not in ("signal", "update"):
            return CallAnswer.REMEMBERED
        if not verdict.by or verdict.by.startswith(PROGRAM) or verdict.via == _NEXUS:
            return CallAnswer.PROGRAM
        answers = {DecisionKind.APPROVE: CallAnswer.APPROVED, DecisionKind.MODIFY: CallAnswer.MODIFIED}
        return answers.get(verdict.decision, CallAnswer.REJECTED)

    @property
    def speaks_against(self) -> bool:
        """Whether a person, or a program that answers for people, did not want this call as it was, or an identical one
        before whose answer was remembered."""
        verdict = self.question.verdict
        return self.answer.is_against or (
            self.answer in (CallAnswer.REMEMBERED, CallAnswer.PROGRAM)
            and verdict is not None
            and verdict.decision is not DecisionKind.APPROVE
        )

    @property
    def by(self) -> str:
        """Name of the person who decided last; empty where none did."""
        verdict = self.question.verdict
        return verdict.by if verdict is not None and self.answer.is_of_person else ""

    @property
    def unknown(self) -> frozenset[UnknownFact]:
        """Facts about the call that its history lacks."""
        facts: set[UnknownFact] = set()
        if self.asker is None:
            facts.add("definition")
        request = self.question.request
        if request.tool in PATH_TOOLS and not any(one.place is not None for one in request.files):
            facts.add("files")
        return frozenset(facts)


@dataclass(frozen=True)
class PastCalls:
    """Calls that asked since some time, in all runs that could be read."""

    calls: tuple[PastCall, ...]
    """The calls, in the order in which they asked."""
    runs: int
    """Number of runs that were read."""
    locked: tuple[str, ...] = ()
    """Ids of runs that cannot be read here: a key or the blob store is missing."""
    is_cut: bool = False
    """Whether there are more runs, which were not read."""


class PastCallReader:
    """Reads past calls. Remembers those of runs that have ended, so that the next reading is quick."""

    def __init__(self, client: Client, *, task_queue: str | None = None) -> None:
        """Read the runs of the worker services with this task queue: those of one workshop; None: of the namespace."""
        self._client = client
        self._task_queue = task_queue
        self._ended: dict[str, tuple[PastCall, ...]] = {}
        """Calls of ended runs that were read, by the id of the execution."""

    async def read(self, since: datetime, *, limit: int = MOST_RUNS_READ) -> PastCalls:
        """Return what was asked since then, in at most `limit` runs, those that are open and those that ended last.

        `since` has a time zone. Raises ConnectionFailed.
        """
        turn, listed, is_cut = asyncio.Semaphore(_AT_ONCE), 0, False
        reading: list[asyncio.Task[tuple[PastCall, ...] | str]] = []
        ended: dict[str, asyncio.Task[tuple[PastCall, ...] | str]] = {}
        async with translated():
            try:
                async with asyncio.TaskGroup() as group:
                    listing = self._client.list_workflows(self._query(since), page_size=min(limit + 1, ANSWERED_RUNS))
                    async for execution in listing:
                        if listed == limit:
                            is_cut = True
                            break
                        listed += 1
                        task = group.create_task(self._read_run(execution, turn))
                        reading.append(task)
                        if execution.status is not WorkflowExecutionStatus.RUNNING:
                            ended[execution.run_id] = task
            except ExceptionGroup as failures:
                raise failures.exceptions[0] from failures
        found = [task.result() for task in reading]
        self._ended = {key: read for key, task in ended.items() if not isinstance(read := task.result(), str)}
        calls = [call for each in found if not isinstance(each, str) for call in each if call.asked_at >= since]
        return PastCalls(
            calls=tuple(sorted(calls, key=lambda call: call.asked_at)),
            runs=sum(not isinstance(each, str) for each in found),
            locked=tuple(each for each in found if isinstance(each, str) and each),
            is_cut=is_cut,
        )

    def _query(self, since: datetime) -> str:
        ended = f"CloseTime >= '{stamp(since)}'"
        served = "" if self._task_queue is None else f" AND TaskQueue = '{quoted(self._task_queue)}'"
        runs = f"WorkflowType = '{RUN_WORKFLOW}' AND {NEWEST_EXECUTION}{served}"
        return f"{runs} AND (ExecutionStatus = 'Running' OR {ended})"

    async def _read_run(self, execution: WorkflowExecution, turn: asyncio.Semaphore) -> tuple[PastCall, ...] | str:
        """Return the calls of a run; the id of one that cannot be read here, "" for one that is gone."""
        known = self._ended.get(execution.run_id)
        if known is not None:
            return known
        async with turn:
            try:
                task = (await read_begun(execution.raw_info, self._client.data_converter)).task
                events = read_chain(self._client, execution.id, None, wait=False)
                return await past_calls_of(execution.id, events, task)
            except (KeyMismatch, UsageError):
                return execution.id
            except RPCError as error:
                if not is_missing(error):
                    raise
                return ""


async def past_calls_of(run: str, events: AsyncIterator[HistoryEvent], task: str = "") -> tuple[PastCall, ...]:
    """Return the calls that asked in a run with this task and these events.

    Raises UsageError where a value is kept elsewhere.
    """
    askers = _Askers()
    questions, _ = await read_desk(run, askers.passed(events))
    return tuple(PastCall(one, askers.found.get(one.request.path), task) for one in questions)


class _Askers:
    """Collects the definitions of the invocations that a run's history tells: the entry, and the ones it called."""

    def __init__(self) -> None:
        self.found: dict[str, AskingWorker] = {}
        """Workers by the path of their invocation."""
        self._beginnings = Beginnings()

    async def passed(self, events: AsyncIterator[HistoryEvent]) -> AsyncIterator[HistoryEvent]:
        """Yield the events as they are, each once it was looked at."""
        async for event in events:
            beginning = self._beginnings.take(event)
            if beginning is not None and not beginning.is_outside:
                self._note(beginning.given)
            called = event.start_child_workflow_execution_initiated_event_attributes
            if called.workflow_type.name == WORKER_WORKFLOW:
                self._note(first_object(called.input.payloads))
            yield event

    def _note(self, given: dict[str, Any]) -> None:
        """Note the worker of an invocation that starts like this, an InvokeWorkerInput as JSON."""
        worker, settings, path = as_object(given.get("worker")), as_object(given.get("settings")), given.get("path")
        try:
            asker = AskingWorker(
                sha256=str(worker["sha256"]),
                shell=None if worker.get("shell") is None else ShellPolicy.model_validate(worker["shell"]),
                rules=ApprovalRules.model_validate(settings["rules"]),
                mode=Mode(settings["mode"]),
            )
        except (KeyError, ValueError, ValidationError):
            return
        if isinstance(path, str):
            self.found[path] = asker


T = TypeVar("T")
MOST_RUNS = 500
"""Most runs that a visit reads: some seconds the first time. `rules test` reads more."""
_MOST_TRIALS = 16
"""Most trials that are kept."""
_GOOD_FOR = timedelta(minutes=1)


class SharedPastCalls:
    """Past calls of the last days, shared among all visitors."""

    def __init__(self, client: Client) -> None:
        self._reader = PastCallReader(client)
        self._turn = asyncio.Lock()
        self._days = 0
        self._read_at = datetime.min.replace(tzinfo=UTC)
        self._past = PastCalls(calls=(), runs=0)
        self._trials: dict[str, Any] = {}
        """Trials of these calls, by their key."""

    async def tried(self, days: int, key: str, trial: Callable[[PastCalls], T]) -> T:
        """Return the trial, in a thread of its own, of what was asked in the last days.

        `key` names all that the trial depends on besides. Calls are as they were at most a minute ago. Raises
        ConnectionFailed.
        """
        async with self._turn:
            now = datetime.now(UTC)
            if days != self._days or now - self._read_at > _GOOD_FOR:
                # The reader remembers the runs of one reading; several lengths of time at once would cost more.
                self._past = await self._reader.read(now - timedelta(days=days), limit=MOST_RUNS)
                self._days, self._read_at, self._trials = days, now, {}
            if key not in self._trials:
                if len(self._trials) == _MOST_TRIALS:
                    self._trials = {}
                self._trials[key] = await asyncio.to_thread(trial, self._past)
            return cast("T", self._trials[key])


MAX_EXAMPLES = 3
"""Examples of each sort that an entry is given."""
_MAX_EXAMPLE_CHARS = 200


@dataclass(frozen=True)
class LearnedEntry:
    """Entry that past calls speak for."""

    entry: AllowEntry
    learned: LearnedKind

    def as_json(self) -> dict[str, Any]:
        """The object of `rules suggest --json`."""
        first, last = self.learned.support[0], self.learned.support[-1]
        return {
            "entry": entry_mapping(self.entry),
            "sentence": self.entry.kind.sentence,
            "approved": len(self.learned.support),
            "runs": self.learned.runs,
            "days": self.learned.days,
            "people": list(self.learned.people),
            "first": {"run": first.run, "day": first.day.isoformat()},
            "last": {"run": last.run, "day": last.day.isoformat()},
        }


@dataclass(frozen=True)
class RuleAdvice:
    """Entries that would have spared people questions, and how many."""

    entries: tuple[LearnedEntry, ...]
    """Entries, the most useful first."""
    asked: int
    """Questions to people that today's rules would put to them, too."""
    left: int
    """Questions among them that the entries would have left to people."""
    wrong: int
    """Calls that a person refused or changed, and that the entries would have let through: none, or it is a mistake
    of the advice."""

    @property
    def saved(self) -> int:
        """Questions that the entries would have answered."""
        return self.asked - self.left


def advice_on(
    calls: Sequence[PastCall], rules: ApprovalRules, *, min_runs: int = MIN_RUNS, min_days: int = MIN_DAYS
) -> RuleAdvice:
    """Return the entries that the calls speak for, beside these rules of the workshop.

    Calls that today's rules would not put to a person are left out. What a person refused speaks against, also where
    the rules have changed since.
    """
    asked: list[PastCall] = []
    others: list[PastCall] = []
    for call in calls:
        is_asked = call.answer not in (CallAnswer.REMEMBERED, CallAnswer.PROGRAM) and would_ask(rules, call)
        (asked if is_asked else others).append(call)
    teaching = [*asked, *(call for call in others if call.speaks_against)]
    lessons = [lesson_of(rules, call) for call in teaching]
    learned = learned_kinds(lessons, rules.allow, min_runs=min_runs, min_days=min_days)
    refused = [call.question.request.call for call in calls if call.speaks_against]
    found = [LearnedEntry(_learned_entry(one, refused), one) for one in learned]
    entries = tuple(one for one in found if not _has_key(one.entry))
    answered = [call for call in asked if not _is_left(rules, [one.entry for one in entries], call)]
    return RuleAdvice(
        entries=entries,
        asked=len(asked),
        left=len(asked) - len(answered),
        wrong=sum(call.answer.is_against for call in answered),
    )


def would_ask(rules: ApprovalRules, past: PastCall) -> bool:
    """Return whether these rules would put the call to a person, with their entries."""
    call = past.question.request.call
    judged = decide(rules, Mode.INTERACTIVE, call.tool, call.uses)
    if judged.kind != "ask":
        return False
    return judged.terms.names_people or covering(rules.allow, call) is None


def lesson_of(rules: ApprovalRules, past: PastCall) -> Lesson:
    """Return what the call teaches. Approvals of calls that no entry may answer, or that a worker made by a model
    asked for, teach nothing."""
    request, call = past.question.request, past.question.request.call
    judged = decide(rules, Mode.INTERACTIVE, call.tool, call.uses)
    opinion: Opinion = "none"
    if past.speaks_against:
        opinion = "against"
    elif past.answer is CallAnswer.APPROVED and not judged.terms.names_people and not request.generated:
        # What a template's call fills in makes another worker each time.
        opinion = "none" if is_template(request.worker) else "for"
    return Lesson(call, past.run, past.asked_at.date(), opinion, past.by)


def entry_mapping(entry: AllowEntry) -> dict[str, Any]:
    """Return the entry as it is written in YAML, without what it leaves open."""
    given = entry.model_dump(mode="json", exclude_defaults=True)
    last = {name: given.pop(name) for name in ("why", "match", "not_match") if name in given}
    return given | last


def _learned_entry(learned: LearnedKind, refused: Iterable[AskedCall]) -> AllowEntry:
    """Return the kind with its reason, and examples that it really keeps."""
    kind, support = learned.kind, learned.support
    middle = support[len(support) // 2]
    match = _texts(lesson.call for lesson in (support[0], middle, support[-1]))
    near = _texts(call for call in refused if _is_near(kind.as_mapping(), call))
    entry = AllowEntry(**kind.as_mapping(), why=_why(learned))
    return entry.model_copy(
        update={"match": _kept(entry, "match", match), "not_match": _kept(entry, "not_match", near)}
    )


def _why(learned: LearnedKind) -> str:
    times, runs, days = len(learned.support), learned.runs, learned.days
    people = f" by {', '.join(learned.people)}" if learned.people else ""
    return f"approved {times} times in {runs} runs on {days} days{people}; never refused"


def _kept(entry: AllowEntry, key: str, texts: Iterable[str]) -> tuple[str, ...]:
    kept = (text for text in texts if not list(entry.model_copy(update={key: (text,)}).failed_examples()))
    return tuple(kept)[:MAX_EXAMPLES]


def _texts(calls: Iterable[AskedCall]) -> Iterator[str]:
    """Yield what stands for each call in an example, each text once."""
    texts = dict.fromkeys(text for call in calls if (text := _text(call)) is not None)
    return (text for text in texts if len(text) <= _MAX_EXAMPLE_CHARS)


def _text(call: AskedCall) -> str | None:
    argv, callee, place = argv_of(call), callee_of(call), place_of(call)
    if place is not None:
        return place.path
    if argv is not None:
        return shlex.join(argv)
    if callee is not None:
        return " ".join([callee, *(one.path for one in call.attachments)])
    return json.dumps(call.args, ensure_ascii=False, sort_keys=True)


def _is_near(kind: dict[str, Any], call: AskedCall) -> bool:
    """Return whether a call is of the tool that the kind is about, so that its example says something."""
    argv = argv_of(call)
    if "command" in kind:
        return argv is not None and argv[0] == shlex.split(kind["command"])[0]
    return callee_of(call) is not None if "worker" in kind else call.tool == kind["tool"]


def _has_key(entry: AllowEntry) -> bool:
    text = json.dumps(entry_mapping(entry), ensure_ascii=False)
    return remove_keys(text) != text


def _is_left(rules: ApprovalRules, entries: Sequence[AllowEntry], past: PastCall) -> bool:
    call = past.question.request.call
    judged = decide(rules, Mode.INTERACTIVE, call.tool, call.uses)
    return judged.terms.names_people or covering(entries, call) is None


def proposed_change(folder: Path, advice: RuleAdvice) -> str:
    """Return the change that adds the advised entries to the file of a workshop, as `patch` and `git apply` take it.

    Empty where there are none. Raises UsageError where the file has no place for them.
    """
    before = read_exactly(folder / WORKSHOP_FILE)
    return unified_diff(before, with_allow_entries(before, [entry_mapping(one.entry) for one in advice.entries]))


def read_exactly(path: Path) -> str:
    """Return a file's text with the line ends and the byte order mark that it has."""
    with path.open(encoding="utf-8", newline="") as file:
        return file.read()


def unified_diff(before: str, after: str) -> str:
    """Return the change as `patch` and `git apply` take it; empty where nothing changes."""
    # Split at line feeds alone, as `patch` does.
    ours, theirs = ([line for line in re.split(r"(?<=\n)", text) if line] for text in (before, after))
    changes = difflib.unified_diff(ours, theirs, f"a/{WORKSHOP_FILE}", f"b/{WORKSHOP_FILE}")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in changes)


MAX_POLICY_BYTES = 1_000_000
"""Largest file that is read as a `workshop.yaml`."""
_EXAMPLE = "'{tool: write_file, below: /notes, suffix: .md}'"


def policy_of_workshop(folder: Path) -> Policy:
    """Return the policy of a workshop as it is now. Raises DefinitionError."""
    return _policy_of(load_workshop(folder).config)


def policy_of_file(path: Path) -> Policy:
    """Return the policy of a file that is written like a `workshop.yaml`, or of the one in a folder.

    Raises UsageError where it cannot be read, DefinitionError where it is wrong.
    """
    file = path / WORKSHOP_FILE if path.is_dir() else path
    text = read_given(file, f"the policy '{file}'", most=MAX_POLICY_BYTES)
    document, problems = parse_yaml(text, file=str(file))
    config, invalid = validate(WorkshopConfig, document, file=str(file))
    raise_first([*problems, *invalid])
    return _policy_of(config)


def with_entries(policy: Policy, texts: Sequence[str]) -> Policy:
    """Return the policy with more entries of `approvals: allow:`, each given as YAML or JSON. Raises UsageError."""
    added = tuple(_entry(text) for text in texts)
    approvals = policy.approvals
    changed = approvals.model_copy(update={"allow": (*approvals.allow, *added)})
    return policy.model_copy(update={"approvals": changed})


def _policy_of(config: WorkshopConfig) -> Policy:
    return Policy(approvals=config.approvals, sandbox=config.sandbox)


class _Added(Strict):
    """An entry on its way into `approvals: allow:`."""

    allow: tuple[AllowEntry, ...] = ()


def _entry(text: str) -> AllowEntry:
    """Return the entry that a text describes, also as the only item of a list. Raises UsageError."""
    document, problems = parse_yaml(text, file="the entry")
    given: object = document.value
    item = given
    if isinstance(given, list) and len(items := cast("list[object]", given)) == 1:
        item = items[0]
    keys = cast("dict[str, object]", item) if isinstance(item, dict) else {}
    # Mistakes are told by the innermost key that has a line.
    added = Document({"allow": [item]}, {("allow", 0): 1, **{("allow", 0, key): 1 for key in keys}})
    found, invalid = validate(_Added, added, file="the entry")
    if wrong := [*problems, *invalid]:
        reason = wrong[0].message.replace("'allow.0.", "'").replace("'allow.0'", "it").removeprefix("it: ")
        raise UsageError(
            f"the entry '{text[:200]}' cannot be used: {reason}",
            next_step=wrong[0].next_step or f"Write it like {_EXAMPLE}.",
        )
    return found.allow[0]


_ASKED = GateOutcome(verdict=PastVerdict.ASKS, reason="it was asked about")


@dataclass(frozen=True)
class TriedCall:
    """Past call with its outcome before and under the policy that is tried."""

    past: PastCall
    before: GateOutcome
    after: GateOutcome
    change: ChangeKind | None
    """Difference between the two; None: there is none."""

    @property
    def goes_against(self) -> bool:
        """Whether it passes now, and did not before, though a person did not want it as it was."""
        return self.change is ChangeKind.NEWLY_PASSED and self.past.answer.is_against

    def as_json(self) -> dict[str, Any]:
        """Return the object that `rules test --json` prints."""
        question = self.past.question
        verdict = question.verdict
        return {
            "run": question.run,
            "id": question.id,
            "path": question.request.path,
            "worker": question.request.worker,
            "tool": question.request.tool,
            "summary": question.request.summary,
            "asked_at": question.asked_at.isoformat(),
            "answer": self.past.answer.value,
            "by": self.past.by,
            "note": "" if verdict is None else verdict.note,
            "before": self.before.verdict.value,
            "after": self.after.verdict.value,
            "reason": self.after.reason,
        }


@dataclass(frozen=True)
class EntryTrial:
    """Trial of one entry of `approvals: allow:`."""

    entry: AllowEntry
    covered: int
    """Number of past calls that it covers."""
    neighbours: tuple[Neighbour, ...] | None
    """Calls at its edge, those that pass first; None: it covers no past call that they could be made of."""

    def as_json(self) -> dict[str, Any]:
        """Return the object that `rules test --json` prints."""
        neighbours = self.neighbours
        return {
            "entry": self.entry.as_mapping(),
            "sentence": self.entry.sentence,
            "covered": self.covered,
            "neighbours": None
            if neighbours is None
            else [
                {"trick": one.trick, "call": one.subject, **one.outcome.model_dump(mode="json")} for one in neighbours
            ],
        }


@dataclass(frozen=True)
class Trial:
    """GateOutcome of a policy on past calls."""

    calls: tuple[TriedCall, ...]
    """All calls, the newest first."""
    entries: tuple[EntryTrial, ...]
    """Entries that the policy has more than the one it is compared with."""
    runs: int
    locked: tuple[str, ...]
    """Ids of runs that cannot be read here."""
    is_cut: bool
    """Whether there are more runs, which were not read."""

    def changed(self, change: ChangeKind) -> list[TriedCall]:
        """Return the calls with this change; of what newly passes, what people did not want comes first."""
        found = [call for call in self.calls if call.change is change]
        return sorted(found, key=lambda call: not call.goes_against)

    @property
    def against(self) -> int:
        """Number of calls that newly pass though a person did not want them as they were."""
        return sum(call.goes_against for call in self.calls)

    @property
    def asked(self) -> int:
        """Number of calls that asked before."""
        return sum(call.before.verdict is PastVerdict.ASKS for call in self.calls)

    @property
    def asks(self) -> int:
        """Number of calls that ask under the policy."""
        return sum(call.after.verdict is PastVerdict.ASKS for call in self.calls)

    def as_json(self) -> dict[str, Any]:
        """Return the object that `rules test --json` prints."""
        changes = {change.name.lower(): [call.as_json() for call in self.changed(change)] for change in ChangeKind}
        return {
            "runs": self.runs,
            "locked_runs": list(self.locked),
            "is_cut": self.is_cut,
            "calls": len(self.calls),
            "before": _counts(call.before for call in self.calls),
            "after": _counts(call.after for call in self.calls),
            "against": self.against,
            **changes,
            "entries": [one.as_json() for one in self.entries],
        }


def _counts(outcomes: Any) -> dict[str, int]:
    found = Counter(outcome.verdict.value for outcome in outcomes)
    return {verdict.value: found[verdict.value] for verdict in PastVerdict if found[verdict.value]}


def try_policy(policy: Policy, past: PastCalls, *, today: Policy | None = None) -> Trial:
    """Return the outcome of a policy on past calls, compared with the policy of `today`; None: with what happened."""
    calls = tuple(_tried(policy, one, today) for one in reversed(past.calls))
    known = () if today is None else today.approvals.allow
    entries = [entry for entry in policy.approvals.allow if entry not in known]
    return Trial(
        calls=calls,
        entries=tuple(_tried_entry(entry, policy, past.calls) for entry in entries),
        runs=past.runs,
        locked=past.locked,
        is_cut=past.is_cut,
    )


def _tried(policy: Policy, past: PastCall, today: Policy | None) -> TriedCall:
    call = past.question.request.call
    # Without a policy of today, what became of the call then counts: an entry let it through, or it was asked about.
    allowed = past.question.request.allowed
    then = GateOutcome(verdict=PastVerdict.PASSES, reason=allowed) if allowed else _ASKED
    before = then if today is None else judge_again(today, call)
    after = judge_again(policy, call)
    return TriedCall(past, before, after, change_between(before, after))


def _tried_entry(entry: AllowEntry, policy: Policy, past: Sequence[PastCall]) -> EntryTrial:
    covered = [one for one in past if entry.covers(one.question.request.call)]
    example = next((one for one in reversed(covered) if not lacks_places(one.question.request.call)), None)
    neighbours = None
    if example is not None:
        shell = None if example.asker is None else example.asker.shell
        neighbours = neighbours_of(entry.kind, example.question.request.call, policy.approvals, shell)
    return EntryTrial(entry, len(covered), neighbours)


def answer_in_words(past: PastCall) -> str:
    """Return what a person said about a past call."""
    verdict = past.question.verdict
    has_name = verdict is not None and verdict.by
    words = {
        CallAnswer.REMEMBERED: "answered by what was remembered",
        CallAnswer.PROGRAM: "answered by a program" if has_name else "answered without a name",
        CallAnswer.EXPIRED: "nobody decided in time",
        CallAnswer.NONE: "no answer",
    }
    if past.answer in words:
        return words[past.answer]
    said = {CallAnswer.APPROVED: "approved", CallAnswer.REJECTED: "rejected", CallAnswer.MODIFIED: "changed"}
    note = f": {verdict.note}" if verdict is not None and verdict.note else ""
    return f"{said[past.answer]} by {past.by}{note}"
