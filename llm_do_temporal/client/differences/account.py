"""Account of a run that can be compared with that of another one: invocations, turns, calls, decisions, files.

Owns the values, and how the entries of a conversation become turns. Pure; `client.differences.reader` fills them in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from llm_do_temporal.client.history.origins import origin_line
from llm_do_temporal.client.history.payloads import as_object
from llm_do_temporal.client.views.transcripts import Entry
from llm_do_temporal.messages.budget import Usage
from llm_do_temporal.policy.identity import digest_of
from llm_do_temporal.policy.layers.layer import LayerNode, alike


@dataclass(frozen=True)
class DecidedCall:
    """Decision on a call that a person, or a script, was asked about."""

    tool: str
    args: Any
    """Arguments that were asked about."""
    decision: str = ""
    """`approve`, `reject` or `modify`; empty: nobody has decided."""
    note: str = ""
    changed: Any = None
    """Arguments in their place; None where they stayed."""

    @property
    def words(self) -> dict[str, Any]:
        """The decision as it is compared and shown."""
        shown = {"decision": self.decision or "waits", "note": self.note, "args": self.changed}
        return {name: value for name, value in shown.items() if value not in ("", None)}


@dataclass(frozen=True)
class AnsweredCall:
    """Tool call of an answer, with its result as the model got it."""

    tool: str
    args: Any
    result: Any = None
    """Result; None: there is none."""
    failed: bool = False
    origin: str = ""
    """Place that the result was taken from, like `RUN main turn 3`; empty: the call was carried out."""
    child: str = ""
    """Path in the other run of the invocation that was not begun anew; empty: there was none, or it is not known."""


@dataclass(frozen=True)
class ToldTurn:
    """Model turn: an answer, and what came of it before the next one."""

    number: int
    text: str = ""
    calls: tuple[AnsweredCall, ...] = ()
    decided: tuple[DecidedCall, ...] = ()
    told: tuple[str, ...] = ()
    """Words that the loop or a review told the model after the answer."""
    origin: str = ""
    """Place that the answer was taken from, like `RUN main turn 3`; empty: a model was asked."""


@dataclass(frozen=True)
class InvocationAccount:
    """Invocation, with those that it called."""

    path: str
    definition: str
    """Name of its worker, or the path of its template."""
    model: str = ""
    given: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Beginning of its conversation: `prompt`, `input`, `files` with their digests, `template` with what was filled in;
    without what is empty."""
    instructions: str = ""
    turns: tuple[ToldTurn, ...] = ()
    status: str = "completed"
    output: Any = None
    error: str = ""
    usage: Usage = field(default_factory=Usage)
    """Usage of the invocation alone."""
    item: str = ""
    """Name of the batch's item that it works on; empty in any other run."""
    begun_in: int = 0
    """Turn of its caller that called it; 0 for what the run itself began."""
    children: tuple[InvocationAccount, ...] = ()

    @property
    def inputs(self) -> str:
        """Digest of its definition's name and of what it was given: the same work has the same."""
        return digest_of([self.definition, self.item, dict(self.given)])

    @property
    def reused(self) -> int:
        """Number of its turns that were taken from another run."""
        return sum(bool(turn.origin) for turn in self.turns)

    def took_over(self, child: InvocationAccount) -> bool:
        """Whether it has taken the result of this invocation, of another run, and has not begun it anew."""
        calls = (call for turn in self.turns for call in turn.calls if call.origin)
        return any(call.child == child.path if call.child else call.tool == child.definition for call in calls)

    def all(self) -> Iterator[InvocationAccount]:
        """Yield the invocation and all below it."""
        yield self
        for child in self.children:
            yield from child.all()


@dataclass(frozen=True)
class FileAccount:
    """File as a run has left it."""

    path: str
    """Path below the workshop."""
    by: str
    """Place in the tree of the invocation that changed it last."""
    now: LayerNode | None
    """Node that is there; None: it is gone. Without permissions where a file tool wrote the file itself."""
    base: LayerNode | None = None
    """Node that was there before; None: nothing, or it is not known."""
    text: str | None = None
    """Text of the file where the history itself has it; else the bytes are in the blob store, or not kept."""

    @property
    def is_change(self) -> bool:
        """Whether the file is another than before."""
        return not alike(self.now, self.base)

    def is_like(self, other: FileAccount) -> bool:
        """Whether both are the same file; permissions count where both are known."""
        mine, theirs = self.now, other.now
        if mine is None or theirs is None:
            return mine is theirs
        if not (mine.mode and theirs.mode):
            mine, theirs = mine.with_mode(0), theirs.with_mode(0)
        is_known = bool(mine.sha256) or mine.kind != "file"
        return is_known and mine.seen == theirs.seen


@dataclass(frozen=True)
class RunAccount:
    """Run, as far as its histories tell it now."""

    run: str
    worker: str
    task: str = ""
    status: str = "completed"
    output: Any = None
    error: str = ""
    usage: Usage = field(default_factory=Usage)
    questions: int = 0
    """Questions that were asked, whoever answered."""
    seconds: float | None = None
    """Time from its beginning to its end, or to now; None: it has not begun."""
    roots: tuple[InvocationAccount, ...] = ()
    """Entry invocation; of a batch one for each item."""
    files: tuple[FileAccount, ...] = ()
    """Files as it has left them, by path."""
    problem: str = ""
    """Reason why its files are not all told; empty: they are."""


def turns_of(entries: Sequence[Entry]) -> tuple[ToldTurn, ...]:
    """Return the turns that the entries of a whole conversation tell, in their order."""
    turns: dict[int, _TurnDraft] = {}
    open_calls: dict[str, tuple[_TurnDraft, int]] = {}
    asked: dict[str, tuple[_TurnDraft, int]] = {}
    for entry in entries:
        if entry.turn < 1 or entry.kind in ("thinking", "error", "end"):
            continue
        draft = turns.setdefault(entry.turn, _TurnDraft())
        if entry.kind == "text":
            draft.text.append(entry.text)
        elif entry.kind == "turn":
            draft.origin = origin_line(entry.details)
        elif entry.kind == "prompt":
            draft.told.append(entry.text)
        elif entry.kind == "call":
            open_calls[entry.call] = draft, len(draft.calls)
            draft.calls.append(AnsweredCall(entry.name, entry.value))
        elif entry.kind == "question":
            asked[entry.call] = draft, len(draft.decided)
            draft.decided.append(DecidedCall(entry.name, entry.value))
        elif entry.kind == "decision" and entry.call in asked:
            asking, place = asked.pop(entry.call)
            shown = {"decision": str(entry.value or ""), "note": entry.text, "changed": entry.details.get("args")}
            asking.decided[place] = replace(asking.decided[place], **shown)
        elif entry.kind == "result" and entry.call in open_calls:
            calling, place = open_calls.pop(entry.call)
            given = entry.text if entry.value is None else entry.value
            child = str(as_object(entry.details.get("reused")).get("child") or "")
            shown = {"result": given, "failed": entry.failed, "origin": origin_line(entry.details), "child": child}
            calling.calls[place] = replace(calling.calls[place], **shown)
    return tuple(draft.turn(number) for number, draft in sorted(turns.items()))


def given_of(entries: Sequence[Entry]) -> tuple[dict[str, Any], str]:
    """Return what an invocation was given, as InvocationAccount has it, and its instructions."""
    given: dict[str, Any] = {}
    instructions = ""
    for entry in entries:
        if entry.turn:
            break
        if entry.kind == "template":
            given["template"] = [entry.text, entry.value]
        elif entry.kind == "instructions":
            instructions = entry.text
        elif entry.kind == "prompt":
            files = [[file.name, file.sha256] for file in entry.files]
            given |= {"prompt": entry.text, "input": entry.value, "files": files}
    return {name: value for name, value in given.items() if value not in ("", None, [])}, instructions


@dataclass
class _TurnDraft:
    text: list[str] = field(default_factory=list[str])
    calls: list[AnsweredCall] = field(default_factory=list[AnsweredCall])
    decided: list[DecidedCall] = field(default_factory=list[DecidedCall])
    told: list[str] = field(default_factory=list[str])
    origin: str = ""

    def turn(self, number: int) -> ToldTurn:
        calls, decided, told = tuple(self.calls), tuple(self.decided), tuple(self.told)
        return ToldTurn(number, "".join(self.text), calls, decided, told, self.origin)
