"""Answering runs from anywhere: `approvals`, `approvals watch`, `approve`, `reject`, `modify`, `undo`."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from llm_do_temporal.cli.commands.grants import chosen_grant, show_kinds
from llm_do_temporal.cli.options import HERE, Json, Location, Run, Several, check_digest, check_limit, read_json_object
from llm_do_temporal.cli.terminal.last_shown import ShownQuestion, last_shown, note_shown
from llm_do_temporal.cli.text import say, value_line, visible_line
from llm_do_temporal.errors import UsageError
from llm_do_temporal.login import login_name

if TYPE_CHECKING:
    from llm_do_temporal.cli.options import Location
    from llm_do_temporal.client.client import LlmDoClient
    from llm_do_temporal.client.history.questions import Question
    from llm_do_temporal.client.question_document import QuestionDocument
    from llm_do_temporal.messages.approvals import Approval, Decision, DecisionKind
    from llm_do_temporal.policy.kinds.kind import KindGrant


GroupRun = Annotated[str | None, Parameter(help="Id of the run; left out with --group.")]
_SHOWN = "Id of the approval, like a3; may be left out for the one that this terminal showed last, and with --digest."
ShownId = Annotated[str | None, Parameter(name="ID", help=_SHOWN)]
_DIGEST = "Only if this is the digest of what is asked, or its first 32 digits or more; `approvals --json` has it."
Digest = Annotated[str | None, Parameter(help=_DIGEST)]
ONE = Several()
_MOST_LISTED = 50
"""Questions in the table unless somebody wants more: reading a question reads the history of its run."""


async def approvals(
    run: str | None = None,
    approval: Annotated[str | None, Parameter(name="ID")] = None,
    /,
    *,
    kinds: Annotated[bool, Parameter(name="--kinds")] = False,
    limit: int | None = None,
    group: Annotated[bool, Parameter(negative="")] = False,
    as_json: Json = False,
    location: Location = HERE,
) -> int:
    """List what waits for a person, the oldest first.

    Parameters
    ----------
    run
        Only of this run.
    approval
        Id of an approval, like a3: show all of it, with the task, the model's words and decisions on calls like it.
    kinds
        Show the kinds of calls that its call is one of instead, each with what it would have covered in the run so far.
    limit
        At most so many; default: 50 of all runs, no limit for one run or with --json. With --group: of each group, 10.
    group
        Show similar questions together, with what differs in a table; `approve --group KEY` decides all of a group.
    as_json
        Print a JSON list, with the whole calls.
    """
    from llm_do_temporal.cli.output import print_json
    from llm_do_temporal.cli.session import opened
    from llm_do_temporal.cli.tables import locked_line, print_table, questions_table
    from llm_do_temporal.client.open_questions import OpenQuestions

    if kinds or approval is not None:
        show = show_kinds if kinds else show_question
        return await show(location, run, approval, as_json=as_json)
    check_limit(limit)
    from llm_do_temporal.cli.groups import list_groups, nothing_waits_lines

    if group:
        return await list_groups(location, run, limit=limit, as_json=as_json)
    async with opened(location, "reading") as session:
        if run is None:
            found = await session.client.all_approvals(limit=limit or (None if as_json else _MOST_LISTED))
        else:
            asked = await session.client.approvals(run)
            found = OpenQuestions(asked[:limit], [], len(asked) - len(asked[:limit]), 0)
        pending, locked, further_runs = found.questions, found.locked, found.further_runs
        is_empty = not (as_json or pending or locked or further_runs)
        nothing = await nothing_waits_lines(session.client, run, location) if is_empty else ()
    for asking in {question.run for question in pending}:
        shown = [ShownQuestion(each.id, each.request.digest) for each in pending if each.run == asking]
        note_shown(asking, shown)
    if as_json:
        print_json([question.as_json() for question in pending], pretty=True)
    elif pending:
        print_table(*questions_table(pending, has_tasks=run is None))
        first = pending[0]
        say(f"\nanswer with: {location.command(f'approve {first.run} {first.id}')}")
    for line in nothing:
        say(line)
    left_out = _left_out(found.further_questions, further_runs)
    if left_out:
        words = " ".join(["approvals", *([] if run is None else [run]), "--limit N"])
        say(f"not shown: {left_out}; `{location.command(words)}` shows more")
    for locked_run in locked:
        say(locked_line(locked_run))
    return 0


def _left_out(questions: int, runs: int) -> str:
    """Return in words how much more waits; empty: no more."""
    parts = [f"{questions:,} more {'question' if questions == 1 else 'questions'}"] if questions else []
    if runs:
        parts.append(f"what {runs:,} more {'run asks' if runs == 1 else 'runs ask'}")
    return " and ".join(parts)


async def watch_approvals(run: str | None = None, /, *, location: Location = HERE) -> int:
    """Stay with what waits for a person, in all runs, and answer it on the terminal.

    Parameters
    ----------
    run
        Only of this run.
    """
    from llm_do_temporal.cli.terminal.inbox import check_terminal, watch_inbox

    check_terminal(run)
    return await watch_inbox(location, run)


async def approve(
    run: GroupRun = None,
    approval: ShownId = None,
    /,
    *,
    note: str = "",
    remember: Annotated[bool, Parameter(name="--remember")] = False,
    kind: int | None = None,
    times: int | None = None,
    time: Annotated[str | None, Parameter(name="--for")] = None,
    digest: Digest = None,
    several: Several = ONE,
    location: Location = HERE,
) -> int:
    """Let a call happen, or all calls of a run or of a group.

    Parameters
    ----------
    note
        Kept with the decision.
    remember
        Approve identical calls for the rest of the run, too.
    kind
        Approve further calls of this kind in the run, too; `approvals RUN ID --kinds` has the numbers.
    times
        Number of further calls; default: 20.
    time
        Time from now in which they may come, like 30m or 2h; default: 1h.
    """
    if kind is None and (times is not None or time is not None):
        raise UsageError("--times and --for are about a kind of calls; name it with --kind")
    if kind is not None and remember:
        raise UsageError("--remember is for identical calls, --kind for calls that are alike; take one of them")
    further = None if kind is None else (kind, times, time)
    decision = _decision("approve", note, remember=remember)
    return await _decide(location, run, approval, digest, decision, several=several, further=further)


async def reject(
    run: GroupRun = None,
    approval: ShownId = None,
    /,
    *,
    reason: str,
    remember: Annotated[bool, Parameter(name="--remember")] = False,
    digest: Digest = None,
    several: Several = ONE,
    location: Location = HERE,
) -> int:
    """Refuse a call, or all calls of a run or of a group; the model is told why and goes on.

    Parameters
    ----------
    reason
        What the model is told.
    remember
        Refuse identical calls for the rest of the run, too.
    """
    if not reason.strip():
        raise UsageError("--reason is empty; say why, the model is told it")
    decision = _decision("reject", reason.strip(), remember=remember)
    return await _decide(location, run, approval, digest, decision, several=several)


async def modify(
    run: Run,
    approval: ShownId = None,
    /,
    *,
    args: str | None = None,
    note: str = "",
    remember: Annotated[bool, Parameter(name="--remember")] = False,
    digest: Digest = None,
    location: Location = HERE,
) -> int:
    """Let a call happen with other arguments.

    Without --args they are edited as YAML in $VISUAL, $EDITOR, `editor` or `vi`. Saved unchanged, nothing is decided.

    Parameters
    ----------
    args
        All of the new arguments, as JSON or @FILE; default: they are edited.
    note
        Kept with the decision.
    remember
        Do the same with identical calls for the rest of the run, too.
    """
    if args is None:
        from llm_do_temporal.cli.terminal.ask import check_editor

        check_editor()
    changed = None if args is None else read_json_object(args, "--args")
    decision = _decision("modify", note, remember=remember, args=changed)
    return await _decide(location, run, approval, digest, decision)


async def undo(run: Run, approval: Annotated[str, Parameter(name="ID")], /, *, location: Location = HERE) -> int:
    """Take back your own decision, for as long as it has not taken effect; the call waits for a person again.

    Decisions on the page and in `approvals watch` take effect after 10 seconds, or as LLM_DO_UNDO_SECONDS says; those
    of other commands take effect at once.

    Parameters
    ----------
    approval
        Id of the approval, like a3.
    """
    from llm_do_temporal.cli.session import opened
    from llm_do_temporal.messages.approvals import Decision

    async with opened(location, "decision") as session:
        again = await session.client.decide(run, Decision(id=approval, decision=None, by=login_name()))
    if again is None:
        say(f"sent to run {run}, but no worker service has answered yet; `{location.command(f'show {run}')}` shows it")
    else:
        say(f"taken back: {again.id} waits again: {visible_line(again.request.summary, 200)}")
    return 0


def _decision(kind: str, note: str, *, remember: bool, args: dict[str, Any] | None = None) -> Decision:
    from llm_do_temporal.messages.approvals import Decision, DecisionKind, Remember

    scope = Remember.SESSION if remember else Remember.NONE
    return Decision(decision=DecisionKind(kind), args=args, note=note, remember=scope, by=login_name())


async def _decide(
    location: Location,
    run: str | None,
    approval: str | None,
    digest: str | None,
    decision: Decision,
    *,
    several: Several = ONE,
    further: tuple[int, int | None, str | None] | None = None,
) -> int:
    """Send a decision about the question, or the questions, as named on the command line; return the exit code.

    `further`: number of the kind of further calls that are agreed to, and how many and how long as they were typed.
    """
    from llm_do_temporal.cli.session import opened
    from llm_do_temporal.client.decisions import asked_again, may_be_asked_again

    if several.all or several.group is not None:
        from llm_do_temporal.cli.groups import decide_several

        if approval is not None or digest is not None or further is not None:
            raise UsageError("--all and --group are about several approvals; leave the ID, --digest and --kind out")
        return await decide_several(location, run, several, decision)
    if run is None or several.yes or several.as_json:
        raise UsageError("name the run: RUN [ID] for one approval, RUN --all for all of a run; or a group: --group KEY")
    from llm_do_temporal.messages.approvals import DecisionKind

    kind, args, grant, again = decision.decision or DecisionKind.APPROVE, decision.args, None, None
    async with opened(location, "decision") as session:
        meant = await _meant(session.client, location, run, approval, digest)
        if kind is DecisionKind.MODIFY and args is None:
            from llm_do_temporal.cli.terminal.ask import edit_pending

            meant, args = await edit_pending(session.client, run, meant)
            if args is None:
                say(f"nothing is decided: {meant.id} still waits")
                return 0
        if further is not None:
            grant = await chosen_grant(session.client, run, meant.id, *further)
        named_so = {"id": meant.id, "digest": meant.digest or None, "args": args, "grant": grant}
        decided = await session.client.decide(run, decision.model_copy(update=named_so))
        if decided is not None and may_be_asked_again(decided):
            again = (await asked_again(session.client, run, [decided.id])).get(decided.id)
    return _tell(location, run, kind, args, decided, again, grant)


def _tell(
    location: Location,
    run: str,
    kind: DecisionKind,
    args: dict[str, Any] | None,
    decided: Approval | None,
    again: Question | None,
    grant: KindGrant | None,
) -> int:
    """Say what came of a decision and return the exit code; `again` is the question that asks again about the call."""
    if decided is None:
        say(f"{kind.done}: sent to run {run}, but no worker service has answered yet; one that starts takes it up")
        return 0
    place = visible_line(decided.request.place)
    if decided.verdict is None:
        agreed = f"{len(decided.votes)} of {decided.request.quorum} people have agreed"
        say(f"noted: {decided.id} of {place} still waits; {agreed}")
        return 0
    changed = ""
    if args is not None:
        does = "it goes on" if again is None else f"{again.id} asks again"
        changed = f"; {does} with {visible_line(json.dumps(args, ensure_ascii=False), 200)}"
    say(f"{kind.done}: {decided.id} of {place}: {visible_line(decided.request.summary, 200)}{changed}")
    if grant is not None:
        say(f"granted: {value_line(grant.words)}; `{location.command(f'grants {run}')}` shows what is left")
    if again is None:
        return 0
    from llm_do_temporal.cli.output import WAITING

    say(f"{decided.id} was not carried out: {visible_line(again.request.reason, 300)}")
    say(f"look at it as it is now: {location.command(f'approvals {run} {again.id}')}")
    return WAITING if again.is_open else 0


async def _meant(
    client: LlmDoClient, location: Location, run: str, approval: str | None, digest: str | None
) -> ShownQuestion:
    """Return the question that a decision is about. Raises UsageError where no single one is meant."""
    check_digest(digest)
    shown = last_shown(run)
    if digest is None and approval is not None:
        return next((one for one in shown if one.id == approval), ShownQuestion(approval, ""))
    if digest is None and len(shown) == 1:
        return shown[0]
    pending = await client.approvals(run)
    ids = ", ".join(one.id for one in pending) or "none"
    if digest is None:
        waiting = f"{len(pending)} {'is' if len(pending) == 1 else 'are'} pending ({ids})"
        raise UsageError(
            f"say which approval: {waiting}, and this terminal has shown {'several' if shown else 'none'} of run "
            f"'{run}' last",
            next_step=f"`{location.command(f'approvals {run}')}` shows them; name one of them.",
        )
    named = [one for one in pending if one.id == (approval or one.id) and one.request.digest.startswith(digest)]
    if len(named) != 1:
        raise UsageError(
            f"{len(named) or 'no'} pending approvals of run '{run}' have the digest {digest[:80]!r}; pending: {ids}",
            next_step=f"`{location.command(f'approvals {run} --json')}` shows the digests.",
        )
    return ShownQuestion(named[0].id, named[0].request.digest)


_UNCUT = 1_000_000
"""Width of a line in a pipe or a file."""


async def show_question(location: Location, run: str | None, approval: str | None, *, as_json: bool) -> int:
    """Print a question of a run, open or settled. Raises UsageError where there is none."""
    from rich.console import Console

    from llm_do_temporal.cli.output import print_json
    from llm_do_temporal.cli.session import opened
    from llm_do_temporal.cli.tables import width_of
    from llm_do_temporal.cli.terminal.last_shown import ShownQuestion, note_shown
    from llm_do_temporal.cli.terminal.question import joined, question_lines
    from llm_do_temporal.client.question_document import document_of, read_background

    if run is None or approval is None:
        raise UsageError("name the run of the approval, too: `approvals RUN a3`")
    async with opened(location, "reading") as session:
        known = await session.client.questions(run)
        question = next((one for one in known if one.id == approval), None)
        if question is None:
            ids = ", ".join(one.id for one in known) or "nothing so far"
            raise UsageError(f"run '{run}' has asked nothing that is called '{approval}'; it has asked {ids}")
        document = document_of(question, None if as_json else await read_background(session.client, question, known))
    if as_json:
        print_json(question.as_json(), pretty=True)
        return 0
    if question.is_open:
        note_shown(run, [ShownQuestion(question.id, question.request.digest)])
    width = width_of(sys.stdout) or _UNCUT
    console = Console(width=width, highlight=False, markup=False, emoji=False)
    console.print(joined(question_lines(document, width)))
    sys.stdout.flush()
    say(_state(document, location))
    return 0


def _state(document: QuestionDocument, location: Location) -> str:
    question, verdict = document.question, document.question.verdict
    if verdict is not None:
        note = f": {visible_line(verdict.note, 300)}" if verdict.note else ""
        undone = f"\n{question.undone_words}" if question.again else ""
        return f"\n{visible_line(document.answer_words, 120)}, {verdict.at:%Y-%m-%d %H:%M:%S} UTC{note}{undone}"
    if question.withdrawn:
        return "\nnobody needs an answer any more"
    if document.view is not None:
        return f"\nlook at the changes with: {location.command(document.view.command(question.run, question.id))}"
    return f"\nanswer with: {location.command(f'approve {question.run} {question.id}')}"
