"""`review`: the changes that a run proposes, looked at and answered on the terminal or by a script."""

from __future__ import annotations

import asyncio
import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from cyclopts import Group, Parameter

from llm_do_temporal.cli.options import Json, Location, check_digest
from llm_do_temporal.cli.tables import width_of
from llm_do_temporal.cli.terminal.last_shown import ShownQuestion, is_seen, last_shown, note_shown
from llm_do_temporal.cli.text import composed_block, name_line, say, visible_line
from llm_do_temporal.errors import DecisionRefused, UsageError
from llm_do_temporal.login import login_name
from llm_do_temporal.redaction.hidden_characters import shown_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from rich.text import Text

    from llm_do_temporal.client.client import LlmDoClient
    from llm_do_temporal.extensions.review.client import Review, ReviewChange, ReviewChoice
    from llm_do_temporal.messages.approvals import Approval


_ANSWER = Group("Answer", sort_key=1)
_FEWEST_DIGITS = 4
"""Shortest beginning of a hunk's id that may stand for the whole of it."""
_LINE = re.compile(r"([1-9][0-9]{0,8}):(.*)", re.DOTALL)
_Several = Annotated[tuple[str, ...], Parameter(negative=(), consume_multiple=True)]


@Parameter(name="*", group=_ANSWER)
@dataclass(frozen=True, kw_only=True)
class ReviewOptions:
    """Answer to a review as it was typed. All of it is one answer: what it does not accept is not accepted."""

    all: Annotated[
        bool, Parameter(name="--all", help="Accept every change that is no conflict, but those named with --reject.")
    ] = False
    accept: Annotated[
        _Several, Parameter(help="Accept these: PATH, FOLDER/ with all below it, or PATH:HUNK for a part of a file.")
    ] = ()
    reject: Annotated[
        _Several, Parameter(help="With --all or --accept: but not these: PATH, a folder with all in it, or PATH:HUNK.")
    ] = ()
    edit: Annotated[_Several, Parameter(help="Edit these files in $EDITOR; each is accepted as you leave it.")] = ()
    comment: Annotated[
        tuple[str, ...],
        Parameter(
            negative=(), help="Remark that the model is told: PATH:TEXT, or PATH:LINE:TEXT with a line's number."
        ),
    ] = ()
    keep_rest: Annotated[
        bool,
        Parameter(name="--keep-rest", help="What is not accepted stays in the layer, instead of going back."),
    ] = False
    reject_all: Annotated[
        str | None, Parameter(name="--reject-all", help="Accept nothing, with this reason for the model.")
    ] = None

    @property
    def accepts(self) -> bool:
        """Whether it may accept something, or sends remarks."""
        return bool(self.all or self.accept or self.reject or self.edit or self.comment or self.keep_rest)

    @property
    def answers(self) -> bool:
        """Whether the review is to be answered at all."""
        return self.accepts or self.reject_all is not None

    def check(self, digest: str | None) -> None:
        """Raise UsageError for options that do not go together, or a digest of what is asked that is too short."""
        check_digest(digest)
        if self.reject_all is not None and self.accepts:
            raise UsageError("--reject-all accepts nothing and sends no remarks; give it alone")
        if self.reject_all is not None and not self.reject_all.strip():
            raise UsageError("--reject-all needs a reason, which the model is told")
        if self.reject and not (self.all or self.accept):
            raise UsageError(
                "--reject says what is left out of what is accepted",
                next_step="Add --all for everything else, or --accept PATH.",
            )
        if self.keep_rest and not (self.all or self.accept or self.edit or self.comment):
            raise UsageError("--keep-rest says nothing about what is accepted", next_step="Add --accept or --comment.")


def chosen_parts(review: Review, options: ReviewOptions) -> ReviewChoice:
    """Return the choice that the options name, but for edits. Blocks; raises DecisionRefused."""
    from llm_do_temporal.extensions.review.client import ReviewChoice, check_parts

    (accept, accepted), (reject, rejected) = _names(review, options.accept), _names(review, options.reject)
    edited = [review.meant(name) for name in options.edit]
    choice = ReviewChoice(review, rest="keep" if options.keep_rest else "drop")
    choice = (choice.with_all() if options.all else choice).with_names(accept, accepted=True)
    for change, digits in accepted:
        choice = _with_hunk(choice, change, digits, accepted=True)
    choice = choice.with_changes(edited, accepted=True).with_names(reject, accepted=False)
    for change, digits in rejected:
        choice = _with_hunk(choice, change, digits, accepted=False)
    for text in options.comment:
        choice = _with_comment(choice, text)
    in_part = [change.path for change, _ in accepted]
    check_parts(
        choice,
        everything=options.all,
        accept=[*accept, *(in_part if options.all else ())],
        in_part=() if options.all else in_part,
        edited=[change.path for change in edited],
    )
    return choice


def _names(review: Review, names: Sequence[str]) -> tuple[list[str], list[tuple[ReviewChange, str]]]:
    """Return what names stand for, as they were typed: paths, and folders with `/`; then parts of files.

    Of a part it is the beginning of a hunk's id. Raises DecisionRefused.
    """
    whole: list[str] = []
    hunks: list[tuple[ReviewChange, str]] = []
    for name in names:
        head, colon, hunk = name.rpartition(":")
        is_part = bool(colon and not name.endswith("/") and review.names.meant(head))
        if is_part and not review.names.meant(name):
            hunks.append((review.meant(head), hunk))
        elif is_part and not name.startswith("./"):
            raise DecisionRefused(
                f"'{name}' is a changed file, and may mean a part of '{head}'",
                next_step=f"Write './{name}' for the file; for the part answer in the terminal or on the page.",
            )
        else:
            whole.append(review.exact_name(name))
    return whole, hunks


def _with_hunk(choice: ReviewChoice, change: ReviewChange, digits: str, *, accepted: bool) -> ReviewChoice:
    diff = choice.review.diff(change)
    known = [hunk.id for hunk in diff.hunks] if diff.is_divisible else []
    if not known:
        raise DecisionRefused(f"'{change.path}' cannot be accepted in parts; it is accepted as a whole, or not at all")
    found = [one for one in known if one.startswith(digits)] if len(digits) >= _FEWEST_DIGITS else []
    if len(found) != 1:
        raise DecisionRefused(
            f"'{digits[:80]}' names no single hunk of '{change.path}'",
            next_step=f"It has: {', '.join(known[:20])}.",
        )
    before = known if choice.state(change) == "accepted" else choice.parts.get(change.path, ())
    ids = {*before, found[0]} if accepted else {*before} - {found[0]}
    return choice.with_hunks(change, ids, known)


def _with_comment(choice: ReviewChoice, text: str) -> ReviewChoice:
    from pydantic import ValidationError

    from llm_do_temporal.extensions.review.policy.review import LineComment

    heads = [text[: colon.start()] for colon in re.finditer(":", text)]
    found = {path: head for head in heads for path in choice.review.names.meant(head)}
    if not found:
        raise DecisionRefused(
            f"--comment '{text[:80]}' begins with no path among the changes",
            next_step="Write it like --comment 'src/a.py:12: why twice?'.",
        )
    if len(found) > 1:
        raise DecisionRefused(
            f"--comment '{text[:80]}' may be about {' or '.join(map(shown_name, sorted(found)[:3]))}",
            next_step="Comment on it in the terminal or on the page.",
        )
    ((path, head),) = found.items()
    words = text[len(head) + 1 :]
    numbered = _LINE.fullmatch(words)
    line, said = (int(numbered[1]), numbered[2]) if numbered else (None, words)
    try:
        return choice.with_comment(LineComment(path=path, line=line, text=said.strip()))
    except ValidationError:
        raise UsageError(f"the remark on '{shown_name(path)}' is empty, or has more than 4,000 characters") from None


_UNCUT = 1_000_000
"""Width of a line in a pipe or a file."""


async def review(
    run: str,
    paths: Annotated[tuple[str, ...], Parameter(name="PATH", negative=())] = (),
    /,
    *,
    diff: Annotated[bool, Parameter(name="--diff")] = False,
    why: Annotated[bool, Parameter(name="--why")] = False,
    as_json: Json = False,
    section: str | None = None,
    approval: Annotated[str | None, Parameter(name="--id")] = None,
    digest: str | None = None,
    options: ReviewOptions = ReviewOptions(),
    location: Location = Location(),  # noqa: B008 - frozen
) -> int:
    """Show the changes that a run proposes, and accept all of them, some files, or some parts of files.

    On a terminal it goes through them with you, a letter for each part, as `git add -p` does. With an option or
    without a terminal it never asks. What was decided already is shown where nothing waits.

    Parameters
    ----------
    run
        Id of the run.
    paths
        Only these files; FOLDER/ for all below one.
    diff
        Show the changed lines, each part with the id that --accept and --reject take.
    why
        Show the words of the model in the turns that made these changes.
    as_json
        Print a JSON list of the reviews, with all lines.
    section
        Which of several that wait: ordinary, workers, definitions, automation or links_out.
    approval
        Which of several, by its id, like a3; also one that was decided.
    digest
        Only if this is the digest of what is asked, or its first 32 digits or more; --json has it.
    """
    from llm_do_temporal.cli.output import print_json
    from llm_do_temporal.cli.session import opened

    options.check(digest)
    async with opened(location, "decision") as session:
        client = session.client
        found = await _as_now(_chosen(await client.reviews(run), run, approval, section, digest), session.workshop)
        if options.answers:
            if diff or why or as_json or paths:
                raise UsageError("an answer goes without PATH, --diff, --why and --json; look first, then answer")
            return await _answer(client, location, _meant(found, run, approval, digest), options)
        waiting = [one for one in found if one.question.is_open]
        if as_json:
            print_json([await asyncio.to_thread(_json, one, paths) for one in found], pretty=True)
        elif why:
            await _show_origins(client, found, paths)
        elif diff or paths:
            await _show_changes(found, paths)
        elif waiting and sys.stdin.isatty() and sys.stdout.isatty() and is_seen(sys.stderr):
            await _go_through(client, waiting)
        else:
            _show_overviews(found, location)
    return 0


async def _as_now(reviews: Sequence[Review], workshop: Path | None) -> list[Review]:
    """Return the reviews with what has changed since they were asked, where the workshop's folder is here."""
    from llm_do_temporal.extensions.review.client import compared

    return [await asyncio.to_thread(compared, one, workshop) for one in reviews]


def _chosen(
    reviews: Sequence[Review], run: str, approval: str | None, section: str | None, digest: str | None
) -> list[Review]:
    """Return the reviews that wait, of those meant; the last ones that were decided where none waits.

    `digest` is how the digest of what is asked begins; None: any.
    """
    if not reviews:
        raise UsageError(
            f"run '{run}' has asked for no review",
            next_step="A run asks for one where its worker or workshop has `review: changes`, or `start --review`.",
        )
    named = [one for one in reviews if approval in (None, one.question.id) and section in (None, one.section.value)]
    meant = [one for one in named if one.question.request.digest.startswith(digest or "")]
    if not meant:
        known = ", ".join(f"{one.question.id} ({one.section.value})" for one in reviews)
        raise UsageError(f"run '{run}' has no such review; it has {known}")
    waiting = [one for one in meant if one.question.is_open]
    last = meant[-1]
    return waiting or [
        one
        for one in meant
        if (one.shown.number, one.question.request.invocation) == (last.shown.number, last.question.request.invocation)
    ]


def _meant(found: Sequence[Review], run: str, approval: str | None, digest: str | None) -> Review:
    """Return the review that an answer is about. Raises UsageError where no single one is, or it was not looked at."""
    waiting = [one for one in found if one.question.is_open]
    if len(waiting) != 1:
        named = ", ".join(f"{one.question.id} ({one.section.value})" for one in waiting)
        which = (
            f"{len(waiting)} reviews of run '{run}' wait: {named}"
            if waiting
            else f"no such review of run '{run}' waits"
        )
        raise UsageError(which, next_step="Name one with --id or --section; `review RUN` shows what there is.")
    (review,) = waiting
    shown = [one for one in last_shown(run) if one.id == review.question.id]
    if digest is None and any(one.digest != review.question.request.digest for one in shown):
        raise UsageError(f"the review '{review.question.id}' is not the one that this terminal has shown; look again")
    if digest is None and approval is None and not shown:
        raise UsageError(
            f"this terminal has not shown the review '{review.question.id}' of run '{run}'",
            next_step=f"Look at it first, or name it: --id {review.question.id}, or --digest DIGEST.",
        )
    return review


async def _answer(client: LlmDoClient, location: Location, review: Review, options: ReviewOptions) -> int:
    if options.reject_all is not None:
        taken = await client.decide_review(review, None, note=options.reject_all, by=login_name())
        say(_outcome(review, taken, "accepts nothing"))
        return 0
    choice = await asyncio.to_thread(chosen_parts, review, options)
    if options.edit:
        edited = await _edited(choice, options.edit)
        if edited is None:
            say(f"nothing is decided: {review.question.id} still waits")
            return 0
        choice = edited
    from llm_do_temporal.extensions.review.terminal import choice_words

    taken = await client.decide_review(review, choice.answer(), by=login_name())
    say(_outcome(review, taken, choice_words(choice)))
    say(f"what becomes of it: {location.command(f'watch {review.question.run}')}")
    return 0


async def _edited(choice: ReviewChoice, names: Sequence[str]) -> ReviewChoice | None:
    """Return the choice with these files as the person leaves them in the editor; None: one was left as it was."""
    from rich.console import Console

    from llm_do_temporal.cli.terminal.ask import check_editor
    from llm_do_temporal.cli.terminal.prompts import Interrupt, Prompter
    from llm_do_temporal.extensions.review.terminal import edited_text

    check_editor("files", "Accept the file, or not: --accept PATH; somebody at a terminal or on the page can edit it.")
    prompter = Prompter(Console(stderr=True, highlight=False), Interrupt(), lambda: None)
    for name in names:
        change = choice.review.meant(name)
        text = await edited_text(choice.review, change, prompter)
        if text is None:
            return None
        choice = choice.with_edit(change, await asyncio.to_thread(choice.review.contents.keep, text))
    return choice


def _outcome(review: Review, taken: Approval | None, words: str) -> str:
    """Return the line about an answer that was sent."""
    named = f"{review.question.id} of run {visible_line(review.question.run, 80)}"
    if taken is None:
        return f"sent: the answer to {named} {words}; no worker service has answered yet"
    if taken.verdict is None:
        agreed = f"{len(taken.votes)} of {taken.request.quorum} people have agreed"
        return f"noted: the answer to {named} {words}; {agreed}"
    return f"answered: {named}: it {words}"


def _json(review: Review, paths: Sequence[str]) -> dict[str, object]:
    wanted = {one.path for one in _wanted([review], paths)} if paths else None
    return review.as_json(only=wanted)


def _wanted(reviews: Iterable[Review], paths: Sequence[str]) -> list[ReviewChange]:
    """Return the changes at these paths, all without any. Raises DecisionRefused for a path that has none."""
    found = list(reviews)
    if not paths:
        return [change for review in found for change in review.changes]
    wanted: dict[int, ReviewChange] = {}
    for name in paths:
        inside = [change for review in found for change in _at(review, name)]
        if not inside:
            raise UsageError(
                f"'{name}' is not among the changes", next_step="`review RUN` lists them; a folder ends in /."
            )
        wanted |= {id(one): one for one in inside}
    return list(wanted.values())


def _at(review: Review, name: str) -> list[ReviewChange]:
    """Return the changes at a path, or below a folder."""
    from llm_do_temporal.policy.layers.layer import above

    if not name.endswith("/"):
        return [review.by_path[path] for path in review.names.meant(name)]
    folders = set(review.folder_names.meant(name.rstrip("/")))
    return [one for one in review.changes if any(not folders.isdisjoint(above(path)) for path in one.change.paths)]


async def _show_changes(found: Sequence[Review], paths: Sequence[str]) -> None:
    from llm_do_temporal.extensions.review.terminal import change_lines, head_lines

    wanted, width = {id(one) for one in _wanted(found, paths)}, _width()
    for review in found:
        _print(head_lines(review, width))
        for change in review.changes:
            if id(change) in wanted:
                _print(change_lines(change, await asyncio.to_thread(review.diff, change), width))
    _note(found)


async def _show_origins(client: LlmDoClient, found: Sequence[Review], paths: Sequence[str]) -> None:
    from llm_do_temporal.extensions.review.client import read_origin
    from llm_do_temporal.extensions.review.terminal import origin_lines

    if not paths:
        raise UsageError("--why tells of the changes that are named; name their paths")
    wanted = {id(one) for one in _wanted(found, paths)}
    for review in found:
        for change in review.changes:
            if id(change) in wanted:
                told = origin_lines(await read_origin(client, review, change))
                print(composed_block("\n".join([name_line(change.path), *(f"  {line}" for line in told)])), flush=True)


def _show_overviews(found: Sequence[Review], location: Location) -> None:
    from llm_do_temporal.extensions.review.terminal import overview_lines

    for one in found:
        _print(overview_lines(one, _width()))
    _note(found)
    run = visible_line(found[0].question.run, 80)
    waiting = [one for one in found if one.question.is_open]
    if not waiting:
        say("\nno answer is needed any more")
        return
    which = f" --section {waiting[0].section.value}" if len(waiting) > 1 else ""
    say(f"\nlook at it:   {location.command(f'review {run} --diff')}")
    say(f"accept all:   {location.command(f'review {run}{which} --all')}")
    say(f"or a part:    {location.command(f'review {run}{which} --accept PATH FOLDER/ PATH:HUNK')}")


async def _go_through(client: LlmDoClient, waiting: Sequence[Review]) -> None:
    """Ask about one review after the other, on the terminal."""
    from rich.console import Console

    from llm_do_temporal.cli.terminal.ask import Asker, LeaveKey, Parting
    from llm_do_temporal.cli.terminal.prompts import Interrupt

    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    asker = Asker(client, console, Interrupt(), LeaveKey("q", "[q]uit"), lambda question: len(question.votes))
    known = await client.questions(waiting[0].question.run)
    for number, one in enumerate(waiting):
        if await asker.ask(one.question, known, others=len(waiting) - number - 1) is not Parting.SETTLED:
            return


def _note(found: Sequence[Review]) -> None:
    """Note that this terminal has shown these reviews: an answer is about them as they are now."""
    waiting = [one.question for one in found if one.question.is_open]
    note_shown(found[0].question.run, [ShownQuestion(one.id, one.request.digest) for one in waiting])


def _print(lines: Sequence[Text]) -> None:
    if not sys.stdout.isatty():
        print("\n".join(line.plain.rstrip() for line in lines), flush=True)
        return
    from rich.console import Console

    from llm_do_temporal.cli.terminal.question import joined

    Console(highlight=False, markup=False, emoji=False).print(joined(lines))
    sys.stdout.flush()


def _width() -> int:
    return width_of(sys.stdout) or _UNCUT
