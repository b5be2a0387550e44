"""Comparison of two runs, from their histories alone: what each has done, and where each invocation first differs.

Of several divergences the first is the one that others may follow from: what a call of a worker brings back differs
because its invocation does, so that one is told before its caller.

Needs no worker service. Files are those in the layer of a run whose changes stay aside, in commits of reviews, and of
file tools; what commands write without a layer is in no history. Files of layers are read from the blob store, where
that is at hand."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import ValidationError
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client

from llm_do_temporal.client.connections import translated
from llm_do_temporal.client.history.events import ENDS, as_object, ending, read_message
from llm_do_temporal.client.history.invocations import origin_line
from llm_do_temporal.client.record.facts import FileCommit, FileWrite, Story
from llm_do_temporal.client.views.follower import Follower
from llm_do_temporal.client.views.run_list import read_run
from llm_do_temporal.client.views.run_view import Node, RunView
from llm_do_temporal.client.views.transcripts import Entry, Transcriber
from llm_do_temporal.errors import EffectFailed, SandboxRefusal
from llm_do_temporal.messages.activities import WriteFileInput
from llm_do_temporal.messages.base import ENTRY_PATH
from llm_do_temporal.messages.budget import Usage
from llm_do_temporal.policy.files.sandbox import Place
from llm_do_temporal.policy.identity import digest_of
from llm_do_temporal.policy.layers.layer import CarriedLayer, Layer, LayerNode, NodeKind, alike, file_node, path_of
from llm_do_temporal.policy.layers.patch import Hunk, file_hunks
from llm_do_temporal.sandbox.layers.contents import LayerContents
from llm_do_temporal.storage.blobs import BlobStore
from llm_do_temporal.storage.external_storage import blobs_of

DivergenceKind = Literal["given", "answer", "decision", "result", "told", "end", "only"]


@dataclass
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


@dataclass
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


@dataclass
class ToldTurn:
    """Model turn: an answer, and what came of it before the next one."""

    number: int
    text: str = ""
    calls: Sequence[AnsweredCall] = ()
    decided: Sequence[DecidedCall] = ()
    told: Sequence[str] = ()
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
    turns: dict[int, ToldTurn] = {}
    open_calls: dict[str, AnsweredCall] = {}
    asked: dict[str, DecidedCall] = {}
    for entry in entries:
        if entry.turn < 1 or entry.kind in ("thinking", "error", "end"):
            continue
        turn = turns.setdefault(entry.turn, ToldTurn(entry.turn))
        if entry.kind == "text":
            turn.text += entry.text
        elif entry.kind == "turn":
            turn.origin = origin_line(entry.details)
        elif entry.kind == "prompt":
            turn.told = [*turn.told, entry.text]
        elif entry.kind == "call":
            open_calls[entry.call] = AnsweredCall(entry.name, entry.value)
            turn.calls = [*turn.calls, open_calls[entry.call]]
        elif entry.kind == "question":
            asked[entry.call] = DecidedCall(entry.name, entry.value)
            turn.decided = [*turn.decided, asked[entry.call]]
        elif entry.kind == "decision" and entry.call in asked:
            decided = asked.pop(entry.call)
            decided.decision, decided.note = str(entry.value or ""), entry.text
            decided.changed = entry.details.get("args")
        elif entry.kind == "result" and entry.call in open_calls:
            call = open_calls.pop(entry.call)
            call.result = entry.text if entry.value is None else entry.value
            call.failed, call.origin = entry.failed, origin_line(entry.details)
            call.child = str(as_object(entry.details.get("reused")).get("child") or "")
    return tuple(turn for _, turn in sorted(turns.items()))


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


@dataclass(frozen=True)
class Divergence:
    """First difference of two invocations that belong together, or an invocation that one of the runs alone has."""

    kind: DivergenceKind
    path: str
    """Place in the tree of the first run; empty: the second alone has the invocation."""
    other_path: str
    turn: int
    """Turn of the first run, from 1; 0: before any."""
    what: str
    """Words for what differs, like `the answer` or `the result of write_file`."""
    first: Any = None
    second: Any = None

    @property
    def place(self) -> str:
        """Path and turn, both paths where they differ."""
        paths = dict.fromkeys(one for one in (self.path, self.other_path) if one)
        return f"{' / '.join(paths)}{f' turn {self.turn}' if self.turn else ''}"


@dataclass(frozen=True)
class InvocationPair:
    """Two invocations that do the same work; None where a run has none."""

    first: InvocationAccount | None
    second: InvocationAccount | None
    divergence: Divergence | None
    """First difference between the two; None: there is none. Where one run alone has the invocation, the other has then
    taken its result."""


@dataclass(frozen=True)
class FilePair:
    """File that one or both of the runs have touched."""

    path: str
    first: FileAccount | None
    """File as the first run has left it; None: it did not touch it."""
    second: FileAccount | None
    lines: tuple[Hunk, ...] = ()
    """Lines in which the two differ; see `read_difference`."""
    problem: str = ""
    """Reason why there are no lines to show; empty: they are all there."""

    @property
    def is_same(self) -> bool:
        """Whether both runs have left the file the same; one that did not touch it has left it as it was."""
        if self.first is not None and self.second is not None:
            return self.first.is_like(self.second)
        alone = self.first or self.second
        return alone is None or not alone.is_change


@dataclass(frozen=True)
class RunDifference:
    """Difference of two runs."""

    first: RunAccount
    second: RunAccount
    pairs: tuple[InvocationPair, ...]
    """All invocations of both, in the order of the first run's tree, then those that the second alone has."""
    divergences: tuple[Divergence, ...]
    """First difference of each pair, in the order in which one may follow from another."""
    files: tuple[FilePair, ...]
    same_files: int
    """Number of files that both have left the same."""

    @property
    def same_output(self) -> bool:
        """Whether both have ended with the same answer, or both without one."""
        return _like(_end(self.first), _end(self.second))

    @property
    def is_same(self) -> bool:
        """Whether nothing differs but times, tokens and cost."""
        return not self.divergences and not self.files and self.same_output


def compare(first: RunAccount, second: RunAccount) -> RunDifference:
    """Return what differs between the runs."""
    found = list(_pairs(first.roots, second.roots))
    by_place = [one for pair in found for one in _walk(*pair)]
    divergences = tuple(divergence for _, divergence in by_place if divergence is not None)
    parted = {id(account): divergence for pair, divergence in by_place for account in pair if account is not None}
    pairs = tuple(InvocationPair(*pair, parted.get(id(pair[0] or pair[1]))) for root in found for pair in _flat(*root))
    mine, theirs = ({file.path: file for file in run.files} for run in (first, second))
    paths = sorted({*mine, *theirs})
    touched = [FilePair(path, mine.get(path), theirs.get(path)) for path in paths]
    files = tuple(pair for pair in touched if not pair.is_same)
    same = sum(pair.is_same and None not in (pair.first, pair.second) for pair in touched)
    return RunDifference(first, second, pairs, divergences, files, same)


_Pair = tuple[InvocationAccount | None, InvocationAccount | None]


def _pairs(some: Sequence[InvocationAccount], others: Sequence[InvocationAccount]) -> Iterator[_Pair]:
    """Yield the invocations that belong together, in the order of `some`; then those of `others` alone.

    The same work first, at the same path before others; then the same path and definition; then the definition alone.
    """
    left = list(others)
    partner: dict[int, InvocationAccount] = {}
    keys: tuple[Callable[[InvocationAccount], Any], ...] = (
        lambda one: (one.path, one.inputs),
        lambda one: one.inputs,
        lambda one: (one.path, one.definition),
        lambda one: (one.item, one.definition),
    )
    for key in keys:
        for one in some:
            if id(one) in partner:
                continue
            found = next((other for other in left if key(other) == key(one)), None)
            if found is not None:
                partner[id(one)] = found
                left = [other for other in left if other is not found]
    yield from ((one, partner.get(id(one))) for one in some)
    yield from ((None, other) for other in left)


def _flat(one: InvocationAccount | None, other: InvocationAccount | None) -> Iterator[_Pair]:
    yield one, other
    for pair in _pairs(() if one is None else one.children, () if other is None else other.children):
        yield from _flat(*pair)


def _walk(one: InvocationAccount | None, other: InvocationAccount | None) -> Iterator[tuple[_Pair, Divergence | None]]:
    """Yield the pair and all pairs below it, each with its divergence, causes before what may follow from them."""
    if one is None or other is None:
        yield (one, other), _only(one, other)
        return
    below = list(_pairs(one.children, other.children))
    divergence, is_told = next(_own_divergences(one, other), None), False
    # What a turn called comes before what came back from it, and after all else of the turn.
    until = float("inf") if divergence is None else divergence.turn - (divergence.kind not in ("result", "told", "end"))
    for pair in below:
        begun = pair[0] or pair[1]
        if begun is not None and begun.begun_in > until and not is_told:
            is_told = True
            yield (one, other), divergence
        if _is_taken_over(one, other, pair):
            # With the result all that led there was taken over, so it is the same.
            yield from ((inner, None) for inner in _flat(*pair))
        else:
            yield from _walk(*pair)
    if not is_told:
        yield (one, other), divergence


def _is_taken_over(one: InvocationAccount, other: InvocationAccount, pair: _Pair) -> bool:
    """Whether only one of the callers has begun the invocation because the other has taken its result."""
    mine, theirs = pair
    if mine is None or theirs is None:
        return other.took_over(mine) if mine is not None else theirs is not None and one.took_over(theirs)
    return False


def _only(one: InvocationAccount | None, other: InvocationAccount | None) -> Divergence:
    there = one or other
    assert there is not None
    paths = ("" if one is None else one.path, "" if other is None else other.path)
    what = f"the invocation of {there.definition}"
    return Divergence("only", *paths, 0, what, *(None if side is None else dict(side.given) for side in (one, other)))


def _own_divergences(one: InvocationAccount, other: InvocationAccount) -> Iterator[Divergence]:
    """Yield what differs between two invocations, in its order."""
    paths = one.path, other.path
    for what, first, second in _given(one, other):
        yield Divergence("given", *paths, 0, what, first, second)
    for place in range(max(len(one.turns), len(other.turns))):
        mine, theirs = (side.turns[place] if place < len(side.turns) else None for side in (one, other))
        if mine is None or theirs is None:
            there = mine or theirs
            assert there is not None
            shown = tuple(None if turn is None else _answer(turn) for turn in (mine, theirs))
            yield Divergence("answer", *paths, there.number, "the answer", *shown)
            return
        for kind, what, first, second in _turn_divergences(mine, theirs):
            yield Divergence(kind, *paths, mine.number, what, first, second)
    if not _like(_end(one), _end(other)):
        yield Divergence("end", *paths, len(one.turns), "the end", _end(one), _end(other))


def _given(one: InvocationAccount, other: InvocationAccount) -> Iterator[tuple[str, Any, Any]]:
    for name, first, second in (
        ("the worker", one.definition, other.definition),
        ("the model", one.model, other.model),
        ("the instructions", one.instructions, other.instructions),
        *((f"the {name}", one.given.get(name), other.given.get(name)) for name in ("template", "prompt", "input")),
        ("the attached files", one.given.get("files"), other.given.get("files")),
    ):
        if not _like(first, second):
            yield name, first, second


def _turn_divergences(mine: ToldTurn, theirs: ToldTurn) -> Iterator[tuple[DivergenceKind, str, Any, Any]]:
    if not _like(_answer(mine), _answer(theirs)):
        yield "answer", "the answer", _answer(mine), _answer(theirs)
        return
    asked = _by_call(theirs.decided)
    for key, first in _by_call(mine.decided).items():
        second = asked.get(key)
        # A call that only one of the runs asked about is told by what came of it.
        if second is not None and not _like(first.words, second.words):
            yield "decision", f"the decision on {first.tool}", first.words, second.words
    for one, other in zip(mine.calls, theirs.calls, strict=True):
        if not _like([one.failed, one.result], [other.failed, other.result]):
            yield "result", f"the result of {one.tool}", one.result, other.result
    if not _like(mine.told, theirs.told):
        yield "told", "what the model was told next", "\n".join(mine.told), "\n".join(theirs.told)


def _by_call(decided: Sequence[DecidedCall]) -> dict[tuple[str, int], DecidedCall]:
    """Return the decisions by the call that they are about, equal ones counted."""
    found: dict[tuple[str, int], DecidedCall] = {}
    for one in decided:
        key, number = digest_of([one.tool, one.args]), 0
        while (key, number) in found:
            number += 1
        found[key, number] = one
    return found


def _answer(turn: ToldTurn) -> Any:
    """Return the answer of a turn as it is compared and shown: its text alone, or text and calls."""
    calls = [{"tool": call.tool, "args": call.args} for call in turn.calls]
    return {"text": turn.text, "calls": calls} if calls and turn.text else {"calls": calls} if calls else turn.text


def _end(side: InvocationAccount | RunAccount) -> Any:
    if side.error:
        return {"status": side.status, "error": side.error}
    return side.output if side.status == "completed" else {"status": side.status}


def _like(one: Any, other: Any) -> bool:
    return digest_of([one]) == digest_of([other])


MAX_COMPARED_BYTES = 1024 * 1024
"""Largest file whose lines are compared."""
NOT_AT_HAND = "the changes are in the blob store of the workshop, which is not at hand here"
MOST_FILES = 50
"""Files whose lines are compared; of others it is told that they differ."""


def files_of(
    steps: Sequence[FileWrite | FileCommit], layer: CarriedLayer | None, blobs: BlobStore | None
) -> tuple[tuple[FileAccount, ...], str]:
    """Return the files of a run by path, and the reason why they are not all told; empty: they are. Blocks.

    `layer` has all changes of a run whose changes stay aside; None: it is no such run, or changed nothing.
    """
    found: dict[str, FileAccount] = {}
    problem = ""
    for step in sorted(steps, key=lambda one: one.at):
        if isinstance(step, FileWrite):
            path = _path_of(step.place)
            if path:
                found[path] = _after(found.get(path), path, step)
        elif step.manifest and step.made.committed:
            changes, reason = _layer_files(blobs, CarriedLayer(manifest=step.manifest), step.by)
            found |= {one.path: one for one in changes}
            problem = problem or reason
    if layer is not None:
        changes, reason = _layer_files(blobs, layer, "")
        found |= {one.path: one for one in changes}
        problem = problem or reason
    return tuple(found[path] for path in sorted(found)), problem


def _path_of(place: Place) -> str:
    """Return the path below the workshop; empty where no layer can name it."""
    try:
        return path_of(place)
    except SandboxRefusal:
        return ""


def lines_between(pair: FilePair, blobs: BlobStore | None) -> tuple[tuple[Hunk, ...], str]:
    """Return the lines in which the two files differ, and the reason why there are none to show; empty: they are all.

    Where one run has not touched the file, the other one's is held against what was there before. Blocks.
    """
    sides = (pair.first or pair.second, pair.second or pair.first)
    use_base = (pair.first is None, pair.second is None)
    texts: list[bytes] = []
    for account, is_base in zip(sides, use_base, strict=True):
        assert account is not None
        node = account.base if is_base else account.now
        if node is not None and node.kind is not NodeKind.FILE:
            return (), f"a {node.kind} has no lines"
        if node is not None and node.bytes > MAX_COMPARED_BYTES:
            return (), f"larger than the {MAX_COMPARED_BYTES} bytes that are compared"
        data = b"" if node is None else _bytes(account, node, blobs, is_base=is_base)
        if data is None:
            return (), "its bytes before the change are not kept" if is_base else "its bytes are not at hand"
        texts.append(data)
    hunks = file_hunks(*texts)
    if hunks is None:
        return (), "" if texts[0] == texts[1] else "not text"
    return hunks.hunks, ""


def _bytes(account: FileAccount, node: LayerNode, blobs: BlobStore | None, *, is_base: bool) -> bytes | None:
    if account.text is not None and not is_base:
        return account.text.encode()
    if blobs is None or node.blob is None:
        return None
    try:
        return LayerContents(blobs).read(node, account.path)
    except EffectFailed:
        return None


def _after(before: FileAccount | None, path: str, write: FileWrite) -> FileAccount:
    """Return the file after a file tool has written it."""
    request, change, seen, by = write.request, write.change, write.change.seen, write.by
    base = None if before is None else before.base
    if before is None and seen.sha256 is not None:
        base = file_node(seen.sha256, 0, blob=None, mode=0)
    text = before.text if before is not None else None
    if isinstance(request, WriteFileInput):
        text = request.content
    elif text is not None:
        text = text.replace(request.old_text, request.new_text, 1)
    if text is None:
        # Of an edit of a file that the run has not written, the history has the lines alone.
        node = LayerNode(kind=NodeKind.FILE, sha256=seen.after or "", bytes=change.bytes)
        return FileAccount(path, by, node, base)
    data = text.encode(errors="surrogatepass")
    return FileAccount(path, by, file_node(hashlib.sha256(data).hexdigest(), len(data), blob=None, mode=0), base, text)


def _layer_files(blobs: BlobStore | None, carried: CarriedLayer, by: str) -> tuple[list[FileAccount], str]:
    try:
        layer = _whole(blobs, carried)
    except (EffectFailed, ValidationError) as error:
        return [], error.message if isinstance(error, EffectFailed) else "the record of the changes is damaged"
    if layer is None:
        return [], NOT_AT_HAND
    return list(_accounts(layer, by)), ""


def _whole(blobs: BlobStore | None, carried: CarriedLayer) -> Layer | None:
    if carried.manifest is None:
        return carried.recent
    return None if blobs is None else LayerContents(blobs).whole(carried)


def _accounts(layer: Layer, by: str) -> Iterator[FileAccount]:
    for path, entry in sorted(layer.entries.items()):
        sides = [side for side in (entry.now, entry.base) if side is not None]
        if all(side.kind is NodeKind.FOLDER for side in sides):
            continue  # folders follow from what is in them
        yield FileAccount(path, by or entry.author.invocation, entry.now, entry.base)


async def read_difference(client: Client, run: str, other: str) -> RunDifference:
    """Return what differs between two runs, with the lines of their files.

    Raises UsageError for a run that does not exist, ConnectionFailed.
    """
    first, second = await asyncio.gather(read_account(client, run), read_account(client, other))
    # Conversations of thousands of turns are compared, too, and other visitors wait meanwhile.
    found = await asyncio.to_thread(compare, first, second)
    blobs = blobs_of(client.data_converter)

    def compared(number: int, pair: FilePair) -> FilePair:
        if number >= MOST_FILES:
            return replace(pair, problem=f"only the lines of the first {MOST_FILES} files are compared")
        lines, problem = lines_between(pair, blobs)
        return replace(pair, lines=lines, problem=problem)

    files = await asyncio.to_thread(lambda: tuple(compared(*one) for one in enumerate(found.files)))
    return replace(found, files=files)


async def read_account(client: Client, run: str) -> RunAccount:
    """Return what a run has done so far. Raises UsageError for a run that does not exist, ConnectionFailed."""
    gathering = _Gathering(run)
    async with translated(run):
        listed = await read_run(client, run)
        view = await Follower(client, run, wait=False, tap=gathering.take).read()
    facts = gathering.story.facts
    files, problem = await asyncio.to_thread(
        files_of, gathering.story.steps, gathering.layer, blobs_of(client.data_converter)
    )
    return RunAccount(
        run=run,
        worker=listed.worker,
        task=facts.task,
        status=view.status,
        output=facts.output,
        error=view.error,
        usage=view.usage,
        questions=gathering.questions,
        seconds=_seconds(view),
        roots=tuple(gathering.account(view, node) for node in view.ordered if node.is_root),
        files=files,
        problem=problem,
    )


class _Gathering:
    """Takes every event of a run once, for all that is told of it."""

    def __init__(self, run: str) -> None:
        self.story = Story(run)
        self.layer: CarriedLayer | None = None
        """All changes of a run whose changes stay aside; None: it has none."""
        self.questions = 0
        self._run = run
        self._transcribers: dict[str, Transcriber] = {}
        self._entries: dict[str, list[Entry]] = {}
        self._begun_in: dict[str, int] = {}
        """Turn of its caller that an invocation was begun in, by its workflow's id."""

    def take(self, workflow_id: str, event: HistoryEvent) -> None:
        path = ENTRY_PATH if workflow_id == self._run else workflow_id.removeprefix(f"{self._run}/")
        transcriber = self._transcribers.setdefault(workflow_id, Transcriber())
        said = transcriber.apply(event)
        self.questions += sum(entry.kind == "question" for entry in said)
        self._entries.setdefault(workflow_id, []).extend(said)
        child = event.start_child_workflow_execution_initiated_event_attributes.workflow_id
        if child:
            self._begun_in.setdefault(child, transcriber.turn)
        self.story.take(workflow_id, event)
        if event.event_type in ENDS and "/" not in path and (end := ending(event)) is not None:
            self.layer = read_message(CarriedLayer, end.told.get("layer")) or self.layer

    def account(self, view: RunView, node: Node) -> InvocationAccount:
        """Return the account of an invocation and of all below it."""
        entries = self._entries.get(node.workflow_id, [])
        given, instructions = given_of(entries)
        outputs = [entry.value for entry in entries if entry.kind == "end"]
        below = (view.nodes[child] for child in node.children if child in view.nodes)
        return InvocationAccount(
            path=node.path,
            definition=node.definition,
            model=node.model,
            given=given,
            instructions=instructions,
            turns=turns_of(entries),
            status=node.status,
            output=outputs[-1] if outputs else None,
            error=node.error,
            usage=node.usage,
            item=node.item,
            begun_in=self._begun_in.get(node.workflow_id, 0),
            children=tuple(self.account(view, child) for child in below if child.path),
        )


def _seconds(view: RunView) -> float | None:
    if view.started_at is None:
        return None
    until = view.ended_at or datetime.now(UTC).replace(tzinfo=None)
    return max(0.0, (until - view.started_at).total_seconds())
