"""Walk through a review on the terminal: file by file and hunk by hunk, a letter for each.

The letters are those of `git add -p` where it has them. Nothing is decided before the end, where the choice is told in
numbers and confirmed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from enum import Enum, auto

from rich.console import Console

from llm_do_temporal.cli.terminal.pictures.review import change_head, choice_words, hunk_lines, origin_lines
from llm_do_temporal.cli.terminal.pictures.text_lines import joined
from llm_do_temporal.cli.terminal.prompts import Prompter
from llm_do_temporal.cli.terminal.reviews.edit import edited_text
from llm_do_temporal.client.client import LlmDoClient
from llm_do_temporal.client.reviews.choice import ReviewChoice
from llm_do_temporal.client.reviews.desk import read_origin
from llm_do_temporal.client.reviews.review import Review, ReviewChange, ShownDiff
from llm_do_temporal.errors import LlmDoError
from llm_do_temporal.policy.layers.answer import LineComment
from llm_do_temporal.policy.layers.patch import Hunk

_EXPLAINED = """\
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
            if diff.is_divisible:
                self._print(diff.hunks[at : at + 1], diff)
            part = f", part {at + 1} of {len(parts)}" if len(parts) > 1 else ""
            place = f"({number + 1:,} of {len(changes):,}{part})"
            letter = await self._letter(f"{place} accept? [y,n,a,d,e,c,s,k,q,?] ", "ynadAecskwq")
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

    async def _tend(self, letter: str, change: ReviewChange) -> bool:
        """Edit a change, remark on it, or show its origin; return whether it is decided by that."""
        if letter == "c":
            await self._comment(change)
        elif letter == "w":
            await self._tell_origin(change)
        else:
            text = await edited_text(self._review, change, self._prompter)
            if text is not None:
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
        typed = (
            await self._prompter.line("number of the line in the new file (empty: the whole file): ") or ""
        ).strip()
        if typed and not (typed.isascii() and typed.isdigit() and int(typed)):
            self._prompter.tell(f"'{typed}' is no number of a line")
            return
        text = (await self._prompter.line("remark, which the model is told (empty: none): ") or "").strip()
        if text:
            line = int(typed) if typed else None
            self._extra = self._extra.with_comment(LineComment(path=change.path, line=line, text=text))

    async def _tell_origin(self, change: ReviewChange) -> None:
        try:
            origin = await read_origin(self._client, self._review, change)
        except LlmDoError as error:
            self._prompter.tell(error.message)
            return
        self._prompter.tell("\n".join(origin_lines(origin)))

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
            self._prompter.tell(_EXPLAINED if letter == "?" else f"type one of {', '.join(letters)}, or ?")


def _parts(diff: ShownDiff) -> list[str]:
    """Return the ids of the parts that are decided one by one; an empty one for a change as a whole."""
    return [hunk.id for hunk in diff.hunks] if diff.is_divisible else [""]
