"""Approval request as every interface shows it: title, call in parts, facts, answers, actions that are possible, and
background that its call does not tell: the task, the model's words, decisions on calls like it.

`document_of` makes it from a question as the client reads it. The terminal, the pages, Slack and forms decide only how
it looks. Pure but for `read_background`. All texts are those of models and people, unchanged: each renderer makes them
harmless. A title is made from what a model chose; it is cut with `…`, and never replaces the summary or the whole call.
"""

from __future__ import annotations

import asyncio
import difflib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Literal

from temporalio.client import Client

from llm_do_temporal.client.client import LlmDoClient
from llm_do_temporal.client.connections import translated
from llm_do_temporal.client.history.questions import Question
from llm_do_temporal.client.open_questions import InboxEntry
from llm_do_temporal.client.views.server_list import read_begun
from llm_do_temporal.client.views.transcripts import read_newest
from llm_do_temporal.errors import LlmDoError
from llm_do_temporal.extension import QuestionView, view_of
from llm_do_temporal.messages.approvals import DecisionKind, RequestApprovalInput, Verdict
from llm_do_temporal.messages.runs import RunMemo
from llm_do_temporal.policy.files.protection import PATH_TOOLS
from llm_do_temporal.policy.values import canonical
from llm_do_temporal.redaction.hidden_characters import shown_value

SHORT_CHARS = 600
"""Longest words of a model that are shown without being unfolded."""
MOST_SHOWN = 5


@dataclass(frozen=True)
class Words:
    """Text that a model wrote before its call."""

    text: str
    turns_before: int
    """0 for the turn that made the call."""
    turn: int

    @property
    def is_long(self) -> bool:
        """Whether it is folded."""
        return len(self.text) > SHORT_CHARS


@dataclass(frozen=True)
class Precedents:
    """Calls of the same tool at the same place."""

    place: str
    """Folder, program or worker that they share; empty where it is the tool alone."""
    counts: dict[DecisionKind, int]
    """Decisions by kind, of calls that were not carried out none; kinds that nobody chose are not there."""
    waiting: int
    newest: list[Question]
    """The newest decided ones, newest first, at most MOST_SHOWN."""
    undone: int = 0
    """Calls that were agreed to, not carried out, and asked about again."""


@dataclass(frozen=True)
class Background:
    """Facts about a question, as far as they could be read."""

    begun: RunMemo
    """Task of the run, its worker, and the person who started it; empty where nothing tells."""
    words: Words | None
    """None where the model wrote nothing but calls, or the text cannot be read any more."""
    precedents: Precedents


async def read_background(client: LlmDoClient, question: Question, known: Sequence[Question] = ()) -> Background:
    """Return the background of a question, as far as it can be read; `known` are the questions of its run."""
    begun, words = await asyncio.gather(_begun(client.temporal, question.run), _words(client.temporal, question))
    return Background(begun, words, precedents_of(question, known))


async def _words(client: Client, question: Question) -> Words | None:
    """Return the last text of the model before its call; None where there is none, or it cannot be read."""
    key, invocation = question.request.key, question.request.invocation
    try:
        async with translated(invocation):
            entries = (await read_newest(client, invocation, turns=1)).entries
    except LlmDoError:
        return None
    turn = next((entry.turn for entry in entries if entry.kind == "question" and entry.call == key), None)
    if turn is None:
        return None
    texts = [entry for entry in entries if entry.kind == "text" and entry.turn <= turn]
    # An entry of an answer bears the number of the turn that it is.
    last = max((entry.turn for entry in texts), default=None)
    if last is None:
        return None
    text = "\n\n".join(entry.text for entry in texts if entry.turn == last)
    return Words(text, turn - last, last)


async def _begun(client: Client, run: str) -> RunMemo:
    try:
        async with translated(run):
            return await read_begun((await client.get_workflow_handle(run).describe()).raw_info, client.data_converter)
    except LlmDoError:
        return RunMemo(worker="")


def precedents_of(question: Question, questions: Sequence[Question]) -> Precedents:
    """Return what became of the other calls, among the questions of the run, that are like this one."""
    place = place_of(question.request)
    like = [one for one in questions if one.id != question.id and one.request.tool == question.request.tool]
    like = [one for one in like if place_of(one.request) == place]
    decided = [(one, one.verdict) for one in like if one.verdict is not None]
    counts = Counter(verdict.decision for one, verdict in decided if not one.again)
    newest = sorted(decided, key=lambda pair: pair[1].at, reverse=True)[:MOST_SHOWN]
    return Precedents(
        place=place,
        counts={kind: counts[kind] for kind in DecisionKind if counts[kind]},
        waiting=sum(one.is_open for one in like),
        newest=[one for one, _ in newest],
        undone=sum(bool(one.again) for one, _ in decided),
    )


def place_of(request: RequestApprovalInput) -> str:
    """Return the folder, the program or the worker that a call is about; empty if it is about none of these."""
    for use in request.capabilities:
        payload: dict[str, Any] = dict(use.payload)
        argv = payload.get("argv")
        if isinstance(argv, list | tuple) and argv:
            return str(argv[0])  # pyright: ignore[reportUnknownArgumentType]
        if use.name.startswith("sandbox.") and isinstance(payload.get("path"), str):
            return str(PurePosixPath(payload["path"]).parent)
        if use.name == "worker.call":
            return str(payload.get("worker", ""))
    return ""


Action = Literal["approve", "reject", "change", "remember", "grant"]
State = Literal["open", "held", "decided", "withdrawn"]
TITLE_CHARS = 160
FILE_TEXTS = frozenset({"content", "old_text", "new_text"})
"""Arguments of the file tools whose whole effect a difference shows."""
_NAMES, _SIGNS = ("--- ", "+++ "), ("+", "-", " ", "@", "\\")
"""Beginnings of the two lines that name the file, and of all others of a diff."""
MAX_COMPARED_LINES = 4_000
_SOURCES = {
    "grant": "by a decision that was remembered",
    "rule": "by the rules of the workshop",
    "script": "by a script",
    "timer": "as nobody decided in time",
}
"""Words for the ways of decisions that no person took."""
_VALUE_CHARS = 48
_MOST_VALUES = 3
_REPEATED = "may have happened: "
_VERBS = {
    "write_file ": ("Write the file ", "Write files: "),
    "edit_file ": ("Change the file ", "Change files: "),
    "shell ": ("Run the command ", "Run commands: "),
    "call ": ("Call the worker ", "Call the worker "),
    "share ": ("Share the file ", "Share files: "),
    "create worker ": ("Create the worker ", "Create workers: "),
}
"""First words of a summary, and what one request is called by instead, and many."""
_PREPOSITIONS = frozenset(("at", "by", "for", "from", "in", "into", "of", "on", "to", "with"))


@dataclass(frozen=True)
class CallPart:
    """Piece of a call."""

    kind: Literal["diff", "argument", "file", "capability"]
    name: str
    """Name of the argument or capability, path of the file, `changes` for a diff."""
    value: Any
    """Text of a diff, value of an argument; else facts by their names."""
    is_new: bool = False
    is_told: bool = False
    """Whether a difference above shows all that it changes."""


@dataclass(frozen=True)
class QuestionDocument:
    """Approval request."""

    question: Question
    background: Background | None
    """Facts that its call does not tell; None: they were not read."""
    title: str
    state: State
    answer: Verdict | None
    """Decision that was taken, or that has not taken effect; None: there is none."""
    diff: str
    """Change that approving would make now; empty where it is not known, or others have changed the arguments."""
    parts: tuple[CallPart, ...]
    """The whole call that approving would agree to now; empty where a capability shows what it asks."""
    facts: tuple[str, ...]
    """Clauses about who may decide, how many have agreed, and until when."""
    problems: Mapping[Action, str]
    """Reason why an action is impossible, by the action; empty where it is possible."""

    def can(self, action: Action) -> bool:
        """Whether an action is possible now; whether this person may do it, the run decides."""
        return not self.problems[action]

    @property
    def view(self) -> QuestionView | None:
        """View of it, where a capability asks it; None: it is about a call, or a limit."""
        return view_of(self.question.request)

    @property
    def answers(self) -> tuple[Verdict, ...]:
        """Votes so far, with the decision where it is none of them."""
        votes, verdict = self.question.votes, self.question.verdict
        is_vote = bool(votes) and verdict is not None and verdict.decision is not DecisionKind.REJECT
        return votes if verdict is None or is_vote else (*votes, verdict)

    @property
    def answer_words(self) -> str:
        """The decision and who took it, like `approved by ann via slack`; empty where there is none."""
        return "" if self.answer is None else answer_words(self.answer, self.view)

    @property
    def call_text(self) -> str:
        """The call in one text, as it was decided or would be agreed to: its change, or its arguments as JSON."""
        args = self.question.args
        if self.answer is not None and self.answer.decision is DecisionKind.MODIFY:
            args = self.answer.args
        if self.diff and args == self.question.request.args:
            return self.diff
        return json.dumps(args, ensure_ascii=False, indent=1)


def document_of(question: Question, background: Background | None = None) -> QuestionDocument:
    """Return the document of a question."""
    request = question.request
    diff = (request.diff or "") if question.args == request.args else ""
    answer = question.verdict or (None if question.withdrawn else question.held)
    closed: State = "decided" if question.verdict else "held" if answer else "withdrawn"
    return QuestionDocument(
        question=question,
        background=background,
        title=question_title(question),
        state="open" if question.is_open else closed,
        answer=answer,
        diff=diff,
        parts=() if request.extension is not None else tuple(parts_of_call(request, question.args, diff)),
        facts=tuple(_facts(question)),
        problems=_problems(question),
    )


def parts_of_call(request: RequestApprovalInput, args: Mapping[str, Any], diff: str) -> Iterator[CallPart]:
    """Yield the whole call with these arguments, what it changes first. `diff` is empty where it is not theirs.

    What a capability says is left out where the arguments that were asked for say the same, but for the exact words of
    a command.
    """
    is_file = request.tool in PATH_TOOLS
    texts = {value for use in request.capabilities for value in use.payload.values() if isinstance(value, str)}
    # The text of a new file, or of a definition, is among the arguments or below a capability already. Behind the
    # names, `---` is a line `--` that goes.
    lines = diff.splitlines()
    is_named = tuple(line[:4] for line in lines[:2]) == _NAMES
    only_adds = is_named and all(line.startswith(("+", "@@", "\\")) for line in lines[2:])
    is_compared = bool(diff) and diff not in texts and not only_adds
    # A line of a file stands behind one of these signs; words about the diff itself, as that it is cut, do not.
    told = diff.removesuffix("\n").split("\n")[len(_NAMES) :]
    tells_all = is_compared and bool(told) and all(line[:1] in _SIGNS for line in told)
    if is_compared:
        yield CallPart("diff", "changes", diff)
    for name, value in args.items():
        is_text = is_file and name in FILE_TEXTS
        yield CallPart("argument", name, value, is_text and diff.startswith("--- /dev/null\n"), is_text and tells_all)
    for file in request.attachments:
        yield CallPart("file", file.path, {"bytes": file.bytes, "media_type": file.media_type, "sha256": file.sha256})
    shown = {canonical(value) for value in (request.args, *request.args.values())}
    for use in request.capabilities:
        more = {name: value for name, value in use.payload.items() if name == "argv" or canonical(value) not in shown}
        if more:
            yield CallPart("capability", use.name, more)


def answer_words(verdict: Verdict, view: QuestionView | None = None) -> str:
    """Return a decision and who took it, like `approved by ann via slack`."""
    return f"{done_words(verdict.decision, view)} by {by_words(verdict.by, verdict.via)}"


def done_words(kind: DecisionKind, view: QuestionView | None = None) -> str:
    """Return the words by which people know a request that got this answer."""
    return kind.done if view is None else view.done_words(kind)


def by_words(by: str | None, via: str | None = "") -> str:
    """Return who has answered, and through which interface."""
    return f"{by or 'somebody'}{f' via {via}' if via else ''}"


def source_words(verdict: Verdict) -> str:
    """Return how a decision came about that no person took, after a comma; empty for any other."""
    words = _SOURCES.get(verdict.door, "")
    origin = verdict.granted_by if verdict.door in ("grant", "script") else None
    return f"{f', {words}' if words else ''}{f' ({origin})' if origin else ''}"


def _facts(question: Question) -> Iterator[str]:
    request = question.request
    if request.approvers:
        yield f"may be decided by {', '.join(request.approvers)}"
    if request.forbid_own:
        yield "whoever started the run may not agree"
    if request.quorum > 1:
        names = ", ".join(by_words(vote.by) for vote in question.votes)
        yield f"{len(question.votes)} of {request.quorum} people have agreed{f': {names}' if names else ''}"
    if question.votes and question.args != request.args:
        yield "the arguments are those that they have changed it to, not what the model asked for"
    if request.deadline is not None and question.is_open:
        yield f"without an answer until {request.deadline:%Y-%m-%d %H:%M:%S} UTC: {request.on_timeout}"


def _problems(question: Question) -> dict[Action, str]:
    request = question.request
    closed = "" if question.is_open else f"'{question.id}' needs no answer any more"
    view = view_of(request)
    by_itself = "" if view is None else f"a {view.noun} is answered by itself"
    unchangeable = f"'{question.id}' cannot be changed, only approved or rejected"
    changed = "others have changed the arguments" if question.args != request.args else ""
    return {
        "approve": closed,
        "reject": closed,
        "change": closed or by_itself or (unchangeable if request.args_schema is None else ""),
        "remember": closed or by_itself,
        "grant": closed or by_itself or changed,
    }


def changed_arguments(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """Yield the name of each argument that differs, with the lines of its difference."""
    for name in dict.fromkeys((*before, *after)):
        old, new = _lines(before, name), _lines(after, name)
        if name not in after:
            yield name, [*(f"-{line}" for line in old), " (left out)"]
        elif name not in before:
            yield name, [f"+{line}" for line in new]
        elif canonical(before[name]) != canonical(after[name]):
            # Only the kind of the value can differ where no line of it does.
            was, becomes = (json.dumps(one[name], ensure_ascii=False) for one in (before, after))
            yield name, _changed_lines(old, new) or [f" ({was} becomes {becomes})"]


def _lines(args: Mapping[str, Any], name: str) -> list[str]:
    value = args.get(name)
    text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
    return text.split("\n")


def _changed_lines(old: list[str], new: list[str]) -> list[str]:
    if len(old) + len(new) <= MAX_COMPARED_LINES:
        return list(difflib.unified_diff(old, new, lineterm="", n=3))[2:]
    shortest = min(len(old), len(new))
    start = next((i for i in range(shortest) if old[i] != new[i]), shortest)
    end = next((i for i in range(shortest - start) if old[-1 - i] != new[-1 - i]), shortest - start)
    removed, added = old[start : len(old) - end], new[start : len(new) - end]
    return [f"@@ line {start + 1} @@", *(f"-{line}" for line in removed), *(f"+{line}" for line in added)]


def entry_title(entry: InboxEntry) -> str:
    """Return the title of a question in a list."""
    args = entry.group.cells if entry.group is not None else {}
    is_whole = entry.group is not None and not entry.group.left_out
    return request_title(entry.tool, entry.summary, args, is_whole=is_whole)


def question_title(question: Question) -> str:
    """Return the title of a question."""
    request = question.request
    args = {name: value if isinstance(value, str) else canonical(value) for name, value in request.args.items()}
    return request_title(request.tool, request.summary, args)


def group_title(title: str) -> str:
    """Return the title of a group of similar questions."""
    found = (many + title[len(verb) :] for verb, (_, many) in _VERBS.items() if title.startswith(verb))
    return _cut(next(found, title))


def tells_more(title: str, summary: str) -> bool:
    """Whether a summary has words behind its first one that the title does not have."""
    return summary.partition(" ")[2] not in title


def request_title(tool: str, summary: str, args: Mapping[str, str], *, is_whole: bool = True) -> str:
    """Return what a call wants, like `Send mail to ann@x.org, subject: Hello`. `is_whole` says whether `args` are."""
    if summary.startswith(_REPEATED):
        return _cut(f"Repeat what may have happened: {summary[len(_REPEATED) :]}")
    for verb, (single, _) in _VERBS.items():
        rest = summary[len(verb) :]
        # A tool of the workshop or of a server may be called like a verb; its summary goes on like this.
        if summary.startswith(verb) and not (tool == verb.split()[0] and rest.startswith(("{", "of "))):
            return _cut(single + rest)
    if summary != tool and not summary.startswith(f"{tool} "):
        return _cut(summary[:1].upper() + summary[1:] if summary.startswith("review ") else summary)
    words = tool.replace("_", " ").replace("-", " ").strip() or tool
    shown = list(args.items())[:_MOST_VALUES]
    told: list[str] = []
    for name, value in shown:
        short = shown_value(value if len(value) <= _VALUE_CHARS else f"{value[:_VALUE_CHARS]}…")
        told.append(f"{name} {short}" if name in _PREPOSITIONS else f"{name}: {short}")
    if len(args) > len(shown) or not is_whole:
        told.append("…")
    values = ", ".join(told)
    if values:
        is_phrase = told[0].partition(" ")[0] in _PREPOSITIONS
        values = f" {values}" if is_phrase else f" ({values})"
    return _cut(f"{words[:1].upper()}{words[1:]}{values}")


def _cut(title: str) -> str:
    return title if len(title) <= TITLE_CHARS else f"{title[:TITLE_CHARS]}…"
