"""Review on the terminal: its counts and tree instead of arguments, the lines of its changes, and a walk through them.

Names and lines are a model's: hidden characters are written out, and each line of a file stands behind an indent and
its sign, so that none can pass for a heading or a prompt. The letters of the walk are those of `git add -p` where it
has them. Nothing is decided before its end, where the choice is told in numbers and confirmed.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from enum import Enum, auto
from functools import partial

from rich.console import Console
from rich.text import Text

from llm_do_temporal.cli.terminal.ask import AGREEING, AskedSubject, Asker
from llm_do_temporal.cli.terminal.prompts import Prompter
from llm_do_temporal.cli.terminal.question import (
    NAME_CHARS,
    FittedQuestion,
    indented,
    joined,
    marked,
    plain_text,
    wrapped,
)
from llm_do_temporal.cli.text import name_line, visible_block, visible_line, visible_source
from llm_do_temporal.client.client import LlmDoClient
from llm_do_temporal.client.history.questions import Question
from llm_do_temporal.client.question_document import QuestionDocument
from llm_do_temporal.errors import DecisionRefused, LlmDoError
from llm_do_temporal.extensions.review.client import (
    ChangeOrigin,
    Preview,
    Review,
    ReviewChange,
    ReviewChoice,
    ReviewFolder,
    ShownDiff,
    read_origin,
)
from llm_do_temporal.extensions.review.messages import ChangeCounts, CheckResult, shown_review
from llm_do_temporal.extensions.review.policy.review import LineComment, ReviewAnswer, Section
from llm_do_temporal.messages.approvals import DecisionKind
from llm_do_temporal.policy.layers.layer import LayerChangeKind, LayerNode, NodeKind, name_of
from llm_do_temporal.policy.layers.patch import Hunk, line_span
from llm_do_temporal.redaction.configured_keys import remove_keys
from llm_do_temporal.redaction.hidden_characters import shown_name

HUNK_DIGITS = 8
"""Beginning of a hunk's id that is shown: enough to name it by."""
SECTIONS = {
    Section.ORDINARY: "ordinary files",
    Section.WORKERS: "new workers",
    Section.DEFINITIONS: "definitions: whoever writes them can give a worker power",
    Section.AUTOMATION: "files that version control, servers or editors run by themselves",
    Section.LINKS_OUT: "links that lead out of the workshop",
}
"""Sections in words."""
_SIGNS = {
    LayerChangeKind.ADDED: ("+", "green"),
    LayerChangeKind.MODIFIED: ("~", "yellow"),
    LayerChangeKind.MODE: ("%", "yellow"),
    LayerChangeKind.DELETED: ("-", "red"),
    LayerChangeKind.RENAMED: (">", "cyan"),
}
_LINE_STYLES = {"+": "green", "-": "red", "@": "cyan"}
_INDENT = 4
SHOWN_OUTPUT_LINES = 10
"""Lines at the end of a check's output that are shown."""
_Shown = Callable[[str], str]
"""Returns a path as people are shown it."""
_NO_END = "\\ No newline at end of file"
EXPLAINED = """\
  a  accept every change that is no conflict, as the review proposes it
  w  walk through the changes: accept, refuse, edit or remark on each part
  r  reject all of it, with a reason that the model is told
  v  show all changed lines
  x  stop the whole run, after one more question"""
"""Letters that answer a review, and what they do."""
_ENDING = re.compile(r".*(\.[A-Za-z0-9]{1,10})", re.DOTALL)
"""Ending of a name that an editor knows a language by. Nothing else of a model's name gets onto a command line."""
_WALK_EXPLAINED = """\
  y  accept this part
  n  do not accept it
  a  accept it, and all that is left of the file
  d  accept neither it nor anything that is left of the file
  A  accept it, and all that is left of the review; no conflict of another file is among that
  e  edit the file; it is accepted as you leave it
  c  remark on a line, which the model is told
  s  skip it: it comes again at the end
  k  back to the part before
  w  show the words of the model in the turn that made the change
  q  leave the walk; what was chosen so far is told, and can still be sent"""
_END_LETTERS = "[s]end  [k]eep the rest in the layer and send  [b]ack to the beginning  [q]uit without an answer"


def overview_lines(review: Review, width: int, most: int | None = None) -> list[Text]:
    """Return the head of a review and its tree, at most `most` lines; None: all of it."""
    lines = head_lines(review, width)
    room = None if most is None else max(most - len(lines), 3)
    return [*lines, *tree_lines(review, width, room)]


def head_lines(review: Review, width: int) -> list[Text]:
    """Return the lines about the review as a whole."""
    question, shown = review.question, review.shown
    title = f"review {shown.number} of run {visible_line(question.run, 80)}, {question.id}: {SECTIONS[review.section]}"
    lines = wrapped(Text(title, style="bold"), width)
    lines += wrapped(Text(f"  {counts_words(shown.section.counts)}"), width)
    if shown.branch:
        lines += wrapped(Text(f"  goes to the git branch {visible_line(shown.branch, NAME_CHARS)}"), width)
    if question.request.reason:
        lines += indented(Text(visible_line(question.request.reason), style="yellow"), width, 2)
    lines += [line for text in _answer_words(review) for line in wrapped(Text(f"  {text}", style="yellow"), width)]
    if review.conflicts:
        count = len(review.conflicts)
        words = f"{count:,} {'path was' if count == 1 else 'paths were'} changed by somebody else meanwhile"
        lines += wrapped(Text(f"  {words}; they are accepted only by name", style="red"), width)
    if moved := sum(bool(change.moved) for change in review.changes):
        words = f"{moved:,} {'path has' if moved == 1 else 'paths have'} changed since this was asked"
        lines += wrapped(Text(f"  {words}: whoever accepts anything is asked again", style="red"), width)
    return [*lines, *check_lines(shown.check, width)]


def _answer_words(review: Review) -> list[str]:
    """Return the line about the answer that was given, or about a choice that people have made before."""
    verdict, answer = review.question.verdict, review.answer
    if verdict is None and answer == ReviewAnswer(changes=answer.changes):
        return []
    by = visible_line(verdict.by or "somebody", 80) if verdict is not None else ""
    if verdict is not None and verdict.decision is DecisionKind.REJECT:
        return [f"rejected by {by}: {visible_line(verdict.note, 300)}" if verdict.note else f"rejected by {by}"]
    what = choice_words(ReviewChoice.of(review, answer).with_taken_along())
    return [f"as it is asked now, approving {what}" if verdict is None else f"answered by {by}: it {what}"]


def choice_words(choice: ReviewChoice) -> str:
    """Return in words and numbers what an answer accepts; it follows on "this answer"."""
    states = Counter(choice.state(change) for change in choice.review.changes)
    parts = [f"accepts {states['accepted']:,} of {len(choice.review.changes):,} changes"]
    parts += [f"{states['in part']:,} in part"] if states["in part"] else []
    parts += [f"{states['edited']:,} as edited"] if states["edited"] else []
    left = states["not accepted"]
    stays = "stay in the layer" if choice.rest == "keep" else "go back to what they were"
    words = ", ".join(parts)
    words += f"; {left:,} not accepted, which {stays}" if left else ""
    remarks = len(choice.comments)
    return words + (f"; {remarks:,} {'remark' if remarks == 1 else 'remarks'}" if remarks else "")


def origin_lines(origin: ChangeOrigin) -> list[str]:
    """Return the words of the model in the turn that made a change; hidden characters are not written out yet."""
    if not origin.turn:
        return [f"{origin.invocation}: changed by a person"]
    place = f"{origin.invocation}, turn {origin.turn}"
    if not origin.words:
        return [f"{place}: the model wrote no words"]
    is_older = origin.words_turn != origin.turn
    before = f" (it wrote none in that turn; these are of turn {origin.words_turn})" if is_older else ""
    return [f"{place}{before}:", *(f"  | {line}" for line in remove_keys(origin.words).split("\n"))]


def tree_lines(review: Review, width: int, most: int | None = None) -> list[Text]:
    """Return the tree of changes, at most `most` lines; None: all of it."""
    rows = list(review.tree().rows())
    cut = rows if most is None or len(rows) <= most else rows[: most - 1]
    names = "\n".join([*review.layer.changes, *(one.now.target for one in review.layer.changes.values() if one.now)])
    # Looking for keys takes longer than all else; it is done name by name only where there is one.
    shown = name_line if remove_keys(names) != names else shown_name
    lines: list[Text] = []
    parents = [""]
    for depth, row in cut:
        del parents[depth + 1 :]
        lines.append(_row(row, parents[-1], min(depth, width // 4), width, shown))
        if isinstance(row, ReviewFolder):
            parents.append(row.path)
    left = sum(isinstance(row, ReviewChange) for _, row in rows[len(cut) :])
    return [*lines, Text(f"  … {left:,} more", style="italic cyan")] if left else lines


def change_lines(change: ReviewChange, diff: ShownDiff, width: int) -> list[Text]:
    """Return a change with all its lines."""
    return [*change_head(change, diff, width), *(line for hunk in diff.hunks for line in hunk_lines(hunk, diff, width))]


def change_head(change: ReviewChange, diff: ShownDiff, width: int) -> list[Text]:
    """Return the lines above those of a file: the paths whole, the kind, who made the change, conflicts."""
    sign, style = _SIGNS[change.change.kind]
    old = change.change.old_path
    paths = f"{name_line(old)} → {name_line(change.path)}" if old is not None else name_line(change.path)
    lines = wrapped(Text(f"{sign} {paths}", style=f"bold {style}"), width)
    facts = [change.change.kind.value, *_facts(change)]
    facts += [f"+{diff.added:,} -{diff.removed:,} lines"] if diff.hunks else []
    facts += [diff.media_type] if diff.preview in (Preview.IMAGE, Preview.PDF) else []
    facts.append(f"by {visible_line(change.author, NAME_CHARS)}")
    lines += indented(Text(", ".join(facts), style="dim"), width, 2)
    if change.conflict:
        lines += indented(Text(f"conflict: {visible_line(change.conflict, 300)}", style="red"), width, 2)
    if change.moved:
        lines += indented(Text(f"changed since it was asked: {change.moved}", style="red"), width, 2)
    if diff.problem:
        told = f"{'not all is' if diff.hunks else 'not'} shown: {visible_line(diff.problem, 300)}"
        lines += indented(Text(told, style="yellow"), width, 2)
    return lines


def hunk_lines(hunk: Hunk, diff: ShownDiff, width: int) -> list[Text]:
    """Return the lines of a hunk, its first with the id where it can be accepted by itself."""
    old, new = line_span(hunk.old_start, hunk.old_lines), line_span(hunk.new_start, hunk.new_lines)
    place = f"@@ -{old} +{new} @@"
    named = f"{place} {hunk.id[:HUNK_DIGITS]}" if diff.is_divisible else place
    lines = [Text(f"  {named}", style="cyan")]
    text = "".join(hunk.lines)
    has_keys = remove_keys(text) != text
    for line in hunk.lines:
        lines += _line(remove_keys(line) if has_keys else line, width)
    return lines


def _line(line: str, width: int) -> Iterator[Text]:
    text = visible_source(line.removesuffix("\n"))
    yield from indented(Text(text, style=_LINE_STYLES.get(line[0], "")), width, _INDENT)
    if not line.endswith("\n"):
        yield from indented(Text(_NO_END, style="dim"), width, _INDENT)


def _row(row: ReviewFolder | ReviewChange, parent: str, depth: int, width: int, shown: _Shown) -> Text:
    margin = "  " * (depth + 1)
    if isinstance(row, ReviewFolder):
        line = Text(f"{margin}{shown(row.path[len(parent) + 1 :] if parent else row.path)}/", style="bold")
    else:
        sign, style = _SIGNS[row.change.kind]
        old = "" if row.change.old_path is None else f" (was {shown(row.change.old_path)})"
        line = Text(f"{margin}{sign} {shown(name_of(row.path))}", style=style)
        line.append(old).append(f"  {', '.join(_facts(row, shown))}", style="dim")
        if row.conflict:
            line.append("  conflict", style="red")
        if row.moved:
            line.append("  changed since", style="red")
    line.truncate(max(width, 1), overflow="ellipsis")
    return line


def _facts(change: ReviewChange, shown: _Shown = name_line) -> list[str]:
    """Return sizes, permissions and targets, as far as the change is about them."""
    base, now = change.change.base, change.change.now
    if base is not None and now is not None and base.kind is not now.kind:
        return [f"{_kind(base, shown)} → {_kind(now, shown)}"]
    one = now or base
    if one is None:
        return []
    facts = [f"{base.mode:o} → {now.mode:o}"] if base is not None and now is not None and base.mode != now.mode else []
    if one.kind is NodeKind.LINK:
        return [*facts, f"link to {shown(one.target)}"]
    if one.kind is NodeKind.FOLDER:
        return [*facts, "folder"]
    if base is not None and now is not None and base.bytes != now.bytes:
        return [*facts, f"{base.bytes:,} → {now.bytes:,} bytes"]
    new_program = ["program"] if base is None and one.mode & 0o111 else []
    return [*facts, *new_program, f"{one.bytes:,} bytes"]


def _kind(node: LayerNode, shown: _Shown) -> str:
    return f"link to {shown(node.target)}" if node.kind is NodeKind.LINK else node.kind.value


async def asked_review(client: LlmDoClient, question: Question, prompter: Prompter, console: Console) -> AskedReview:
    """Return the review that a question asks for; where its changes cannot be read, the reason is told."""
    found: Review | None = None
    try:
        found = next((one for one in await client.reviews(question.run) if one.question.id == question.id), None)
    except LlmDoError as error:
        prompter.tell(f"the changes cannot be shown: {error.message}\n{error.next_step or ''}")
    return AskedReview(client, found, console)


class AskedReview(AskedSubject):
    """Review on the terminal: overview, changed lines, and a walk through the changes."""

    explained = EXPLAINED

    def __init__(self, client: LlmDoClient, review: Review | None, console: Console) -> None:
        """`review` is None where its changes cannot be read here."""
        self._client = client
        self._review = review
        self._console = console
        self.letters = ("[a]ccept all", "[w]alk through" if review is not None else "")

    def fit(self, document: QuestionDocument, width: int, height: int, *, others: int) -> FittedQuestion:
        """See AskedSubject. Changed lines are unread after that."""
        if self._review is None:
            fitted = super().fit(document, width, height, others=others)
            return replace(fitted, unread=fitted.unread or 1)
        lines = overview_lines(self._review, width, height - 1)
        more = [Text(f"  {others:,} more {'question waits' if others == 1 else 'questions wait'}")] if others else []
        return FittedQuestion([*lines, *more], len(self._review.changes))

    def text(self, document: QuestionDocument, width: int) -> str:
        """See AskedSubject: with all changed lines."""
        if self._review is None:
            return super().text(document, width)
        lines = overview_lines(self._review, width)
        for change in self._review.changes:
            lines += [Text(), *change_lines(change, self._review.diff(change), width)]
        return plain_text(lines)

    def actions(
        self, asker: Asker, document: QuestionDocument, prompter: Prompter
    ) -> dict[str, Callable[[], Awaitable[None]]]:
        """See AskedSubject."""
        agree = partial(self._accept_all, asker, document, prompter)
        actions: dict[str, Callable[[], Awaitable[None]]] = {letter: partial(agree, letter) for letter in AGREEING}
        if self._review is not None:
            actions["w"] = partial(self._walk, self._review, asker, prompter)
        return actions

    async def _walk(self, review: Review, asker: Asker, prompter: Prompter) -> None:
        choice = await ReviewWalk(self._client, review, prompter, self._console).choose()
        if choice is not None:
            args = choice.answer().model_dump(mode="json")
            await asker.decide(review.question, prompter, DecisionKind.MODIFY, args=args)

    async def _accept_all(self, asker: Asker, document: QuestionDocument, prompter: Prompter, letter: str) -> None:
        """Accept all that a review proposes, as it is asked now; remembered answers are of no use to it."""
        if letter in ("s", "k"):
            prompter.tell(f"{document.problems['remember' if letter == 's' else 'grant']}; type a, w or r")
        elif not asker.unread or await prompter.yes(
            "the changed lines were not all shown; accept anyway?", default=False
        ):
            await asker.decide(document.question, prompter, DecisionKind.APPROVE)


def asked_lines(question: Question, width: int) -> list[Text]:
    """Return the lines about the review that a question asks for: counts, check, and the command that shows it."""
    review = shown_review(question.request)
    assert review is not None
    told = [Text(f"  {counts_words(review.section.counts)}"), *check_lines(review.check, width)]
    return [*told, Text(f"  `review {visible_line(question.run, 80)}` shows them", style="italic cyan")]


def counts_words(counts: ChangeCounts) -> str:
    """Return the number of changes of each kind in words."""
    named = {
        "added": counts.added,
        "modified": counts.modified,
        "deleted": counts.deleted,
        "renamed": counts.renamed,
        "with other permissions": counts.mode,
    }
    kinds = ", ".join(f"{count:,} {name}" for name, count in named.items() if count)
    return f"{counts.total:,} {'change' if counts.total == 1 else 'changes'}: {kinds or 'none'}"


def check_lines(check: CheckResult | None, width: int) -> list[Text]:
    """Return the lines about the outcome of the check; of one that failed, with the end of its output."""
    if check is None:
        return []
    command = visible_line(check.command, NAME_CHARS)
    if check.passed:
        return wrapped(Text(f"  check passed: {command}", style="green"), width)
    code = "" if check.exit_code is None else f" with exit code {check.exit_code}"
    why = f" ({visible_line(check.problem, 300)})" if check.problem else ""
    lines = wrapped(Text(f"  check failed{code}: {command}{why}", style="red"), width)
    output = visible_block(remove_keys(check.output)).splitlines()[-SHOWN_OUTPUT_LINES:]
    return [*lines, *marked(Text("\n".join(output)), width, _INDENT)] if output else lines


async def edited_text(review: Review, change: ReviewChange, prompter: Prompter) -> str | None:
    """Return the text of a changed file as the person leaves it; None, told why, where nothing was edited."""
    now = change.change.now
    if now is None:
        prompter.tell(f"'{change.path}' was deleted; there is nothing to edit")
        return None
    try:
        text = await asyncio.to_thread(review.contents.text, now, change.path)
    except DecisionRefused as refused:
        prompter.tell(refused.message)
        return None
    ending = _ENDING.fullmatch(change.path)
    edited = await prompter.edited_file(text, "changed" + (ending[1] if ending else ".txt"))
    if edited == text:
        prompter.tell("nothing was edited")
        return None
    return edited


class _Move(Enum):
    NEXT = auto()
    BACK = auto()
    LEAVE = auto()


class ReviewWalk:
    """Walk of one person through one review."""

    def __init__(self, client: LlmDoClient, review: Review, prompter: Prompter, console: Console) -> None:
        self._client = client
        self._review = review
        self._prompter = prompter
        self._console = console
        self._diffs: dict[str, ShownDiff] = {}
        """Changes that were looked at, by path."""
        self._taken: dict[tuple[str, str], bool] = {}
        """Answers by path and id of a hunk; the id is empty for a change as a whole."""
        self._extra = ReviewChoice(review)
        """Edits, remarks, and what is accepted without a look at it."""
        self._skipped: set[str] = set()

    async def choose(self) -> ReviewChoice | None:
        """Return the choice that the person wants to send; None: none."""
        while True:
            await self._walk()
            choice = self._chosen()
            self._prompter.tell(f"this answer {choice_words(choice)}\n{_END_LETTERS}")
            letter = await self._letter("answer> ", "skbq")
            if letter in ("s", "k"):
                return replace(choice, rest="keep" if letter == "k" else "drop")
            if letter == "q":
                return None
            self._taken.clear()
            self._extra = ReviewChoice(self._review)

    async def _walk(self) -> None:
        """Ask about every change, and again about those that were skipped."""
        waiting = list(self._review.changes)
        while waiting:
            at = 0
            while at < len(waiting):
                move = await self._ask(waiting, at)
                if move is _Move.LEAVE:
                    return
                at = at + 1 if move is _Move.NEXT else max(at - 1, 0)
                if move is _Move.BACK:
                    self._forget(waiting[at])
            waiting = [one for one in waiting if one.path in self._skipped]
            self._skipped.clear()
            count = f"{len(waiting):,} skipped {'change' if len(waiting) == 1 else 'changes'}"
            if waiting and not await self._prompter.yes(f"go through the {count} now?", default=True):
                return

    async def _ask(self, changes: Sequence[ReviewChange], number: int) -> _Move:
        """Ask about one of the changes, part by part."""
        change = changes[number]
        diff = await self._diff(change)
        self._console.print(joined(change_head(change, diff, self._console.width)))
        if not diff.is_divisible:
            self._print(diff.hunks, diff)
        parts, at = _parts(diff), 0
        while at < len(parts):
            name = (change.path, parts[at])
            if name in self._taken:
                at += 1
                continue
            letter = await self._ask_part(diff, at, f"{number + 1:,} of {len(changes):,}")
            if letter == "k" and at:
                at -= 1
                self._taken.pop((change.path, parts[at]), None)
            elif letter == "s":
                self._skipped.add(change.path)
                at += 1
            elif letter in ("y", "n"):
                self._taken[name] = letter == "y"
                at += 1
            elif letter in ("a", "d", "A"):
                left = [(change.path, part) for part in parts[at:]]
                self._taken |= {one: letter != "d" for one in left if one not in self._taken}
                return self._accept_rest(changes[number + 1 :]) if letter == "A" else _Move.NEXT
            elif letter in ("k", "q"):
                return _Move.BACK if letter == "k" else _Move.LEAVE
            elif await self._tend(letter, change):
                return _Move.NEXT
        return _Move.NEXT

    async def _ask_part(self, diff: ShownDiff, at: int, place: str) -> str:
        """Ask about one part of the change that has this place among all; return the letter."""
        if diff.is_divisible:
            self._print(diff.hunks[at : at + 1], diff)
        count = len(_parts(diff))
        part = f", part {at + 1} of {count}" if count > 1 else ""
        return await self._letter(f"({place}{part}) accept? [y,n,a,d,e,c,s,k,q,?] ", "ynadAecskwq")

    async def _tend(self, letter: str, change: ReviewChange) -> bool:
        """Edit a change, remark on it, or show its origin; return whether it is decided by that."""
        if letter == "c":
            await self._comment(change)
        elif letter == "w":
            try:
                origin = await read_origin(self._client, self._review, change)
                self._prompter.tell("\n".join(origin_lines(origin)))
            except LlmDoError as error:
                self._prompter.tell(error.message)
        elif (text := await edited_text(self._review, change, self._prompter)) is not None:
            blob = await asyncio.to_thread(self._review.contents.keep, text)
            self._extra = self._extra.with_edit(change, blob)
            return True
        return False

    def _accept_rest(self, changes: Sequence[ReviewChange]) -> _Move:
        left = [
            change
            for change in changes
            if not change.conflict
            and change.path not in self._extra.edits
            and all((change.path, part) not in self._taken for part in self._known_parts(change))
        ]
        self._extra = self._extra.with_changes(left, accepted=True)
        self._skipped.clear()
        return _Move.LEAVE

    def _chosen(self) -> ReviewChoice:
        choice, whole, refused = self._extra, list[ReviewChange](), list[ReviewChange]()
        for path in self._diffs:
            change = self._review.change(path)
            parts = self._known_parts(change)
            accepted = [part for part in parts if self._taken.get((path, part))]
            if path in choice.edits:
                continue
            if not accepted:
                refused += [change] if all((path, part) in self._taken for part in parts) else []
            elif len(accepted) == len(parts):
                whole.append(change)
            else:
                choice = choice.with_hunks(change, accepted, parts)
        return choice.with_changes(whole, accepted=True).with_changes(refused, accepted=False)

    def _known_parts(self, change: ReviewChange) -> list[str]:
        diff = self._diffs.get(change.path)
        return [] if diff is None else _parts(diff)

    def _forget(self, change: ReviewChange) -> None:
        for part in self._known_parts(change):
            self._taken.pop((change.path, part), None)
        edits = {path: blob for path, blob in self._extra.edits.items() if path != change.path}
        self._extra = replace(self._extra, edits=edits)
        self._skipped.discard(change.path)

    async def _comment(self, change: ReviewChange) -> None:
        asked = "number of the line in the new file (empty: the whole file): "
        typed = (await self._prompter.line(asked) or "").strip()
        if typed and not (typed.isascii() and typed.isdigit() and int(typed)):
            self._prompter.tell(f"'{typed}' is no number of a line")
            return
        text = (await self._prompter.line("remark, which the model is told (empty: none): ") or "").strip()
        if text:
            line = int(typed) if typed else None
            self._extra = self._extra.with_comment(LineComment(path=change.path, line=line, text=text))

    async def _diff(self, change: ReviewChange) -> ShownDiff:
        if change.path not in self._diffs:
            self._diffs[change.path] = await asyncio.to_thread(self._review.diff, change)
        return self._diffs[change.path]

    def _print(self, hunks: Sequence[Hunk], diff: ShownDiff) -> None:
        for hunk in hunks:
            self._console.print(joined(hunk_lines(hunk, diff, self._console.width)))

    async def _letter(self, prompt: str, letters: str) -> str:
        """Return one of the letters; the end of input is `q`."""
        while True:
            typed = await self._prompter.line(prompt)
            if typed is None:
                return "q"
            letter = typed.strip()
            if letter and letter in letters and len(letter) == 1:
                return letter
            self._prompter.tell(_WALK_EXPLAINED if letter == "?" else f"type one of {', '.join(letters)}, or ?")


def _parts(diff: ShownDiff) -> list[str]:
    """Return the ids of the parts that are decided one by one; an empty one for a change as a whole."""
    return [hunk.id for hunk in diff.hunks] if diff.is_divisible else [""]
