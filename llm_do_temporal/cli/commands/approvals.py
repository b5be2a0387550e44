"""Answering runs from anywhere: `approvals`, `approvals watch`, `approve`, `reject`, `modify`, `undo`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from cyclopts import Parameter

from llm_do_temporal.cli.commands.policy.grants import check_kind_options, chosen_grant, show_kinds
from llm_do_temporal.cli.groups import list_groups, nothing_waits_lines
from llm_do_temporal.cli.options import Json, Location, Several, check_digest, check_limit, read_json_object
from llm_do_temporal.cli.reports.question import show_question
from llm_do_temporal.cli.terminal.last_shown import ShownQuestion, last_shown, note_shown
from llm_do_temporal.cli.text import say, value_line, visible_line
from llm_do_temporal.errors import UsageError
from llm_do_temporal.login import login_name

if TYPE_CHECKING:
    from llm_do_temporal.client.client import LlmDoClient
    from llm_do_temporal.client.history.questions import Question
    from llm_do_temporal.client.open_questions import OpenQuestions
    from llm_do_temporal.messages.approvals import Approval, DecisionKind


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
    location: Location = Location(),  # noqa: B008 - frozen
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

    if kinds or approval is not None:
        show = show_kinds if kinds else show_question
        return await show(location, run, approval, as_json=as_json)
    check_limit(limit)
    if group:
        return await list_groups(location, run, limit=limit, as_json=as_json)
    async with opened(location, "reading") as session:
        found = await _asked(session.client, run, limit, limit or (None if as_json else _MOST_LISTED))
        is_empty = not (as_json or found.questions or found.locked or found.further_runs)
        nothing = await nothing_waits_lines(session.client, run, location) if is_empty else ()
    pending, locked = found.questions, found.locked
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
    if left_out := _left_out(found):
        words = " ".join(["approvals", *([] if run is None else [run]), "--limit N"])
        say(f"not shown: {left_out}; `{location.command(words)}` shows more")
    for locked_run in locked:
        say(locked_line(locked_run))
    return 0


async def _asked(client: LlmDoClient, run: str | None, limit: int | None, most: int | None) -> OpenQuestions:
    """Return at most `limit` questions of a run, or at most so many of all runs; None for no limit."""
    from llm_do_temporal.client.open_questions import OpenQuestions

    if run is None:
        return await client.all_approvals(limit=most)
    asked = await client.approvals(run)
    return OpenQuestions(asked[:limit], [], len(asked) - len(asked[:limit]), 0)


def _left_out(found: OpenQuestions) -> str:
    """Return in words how much more waits; empty: no more."""
    questions, runs = found.further_questions, found.further_runs
    parts = [f"{questions:,} more {'question' if questions == 1 else 'questions'}"] if questions else []
    if runs:
        parts.append(f"what {runs:,} more {'run asks' if runs == 1 else 'runs ask'}")
    return " and ".join(parts)


async def watch_approvals(
    run: str | None = None,
    /,
    *,
    location: Location = Location(),  # noqa: B008 - frozen
) -> int:
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
    run: str | None = None,
    approval: Annotated[str | None, Parameter(name="ID")] = None,
    /,
    *,
    note: str = "",
    remember: Annotated[bool, Parameter(name="--remember")] = False,
    kind: int | None = None,
    times: int | None = None,
    time: Annotated[str | None, Parameter(name="--for")] = None,
    digest: str | None = None,
    several: Several = Several(),  # noqa: B008 - frozen
    location: Location = Location(),  # noqa: B008 - frozen
) -> int:
    """Let a call happen, or all calls of a run or of a group.

    Parameters
    ----------
    run
        Id of the run; left out with --group.
    approval
        Id of the approval, like a3; may be left out for the one that this terminal showed last, and with --digest.
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
    digest
        Only if this is the digest of what is asked, or its first 32 digits or more; `approvals --json` has it.
    """
    from llm_do_temporal.messages.approvals import DecisionKind

    check_kind_options(kind, times, time, remember=remember)
    more = None if kind is None else _Further(kind, times, time)
    answer = _Answer(DecisionKind.APPROVE, note, remember, further=more)
    return await _decide(location, _Named(run, approval, digest, several), answer)


async def reject(
    run: str | None = None,
    approval: Annotated[str | None, Parameter(name="ID")] = None,
    /,
    *,
    reason: str,
    remember: Annotated[bool, Parameter(name="--remember")] = False,
    digest: str | None = None,
    several: Several = Several(),  # noqa: B008 - frozen
    location: Location = Location(),  # noqa: B008 - frozen
) -> int:
    """Refuse a call, or all calls of a run or of a group; the model is told why and goes on.

    Parameters
    ----------
    run
        Id of the run; left out with --group.
    approval
        Id of the approval, like a3; may be left out for the one that this terminal showed last, and with --digest.
    reason
        What the model is told.
    remember
        Refuse identical calls for the rest of the run, too.
    digest
        Only if this is the digest of what is asked, or its first 32 digits or more; `approvals --json` has it.
    """
    from llm_do_temporal.messages.approvals import DecisionKind

    if not reason.strip():
        raise UsageError("--reason is empty; say why, the model is told it")
    answer = _Answer(DecisionKind.REJECT, reason.strip(), remember)
    return await _decide(location, _Named(run, approval, digest, several), answer)


async def modify(
    run: str,
    approval: Annotated[str | None, Parameter(name="ID")] = None,
    /,
    *,
    args: str | None = None,
    note: str = "",
    remember: Annotated[bool, Parameter(name="--remember")] = False,
    digest: str | None = None,
    location: Location = Location(),  # noqa: B008 - frozen
) -> int:
    """Let a call happen with other arguments.

    Without --args they are edited as YAML in $VISUAL, $EDITOR, `editor` or `vi`. Saved unchanged, nothing is decided.

    Parameters
    ----------
    run
        Id of the run.
    approval
        Id of the approval, like a3; may be left out for the one that this terminal showed last, and with --digest.
    args
        All of the new arguments, as JSON or @FILE; default: they are edited.
    note
        Kept with the decision.
    remember
        Do the same with identical calls for the rest of the run, too.
    digest
        Only if this is the digest of what is asked, or its first 32 digits or more; `approvals --json` has it.
    """
    from llm_do_temporal.messages.approvals import DecisionKind

    if args is None:
        from llm_do_temporal.cli.terminal.ask import check_editor

        check_editor()
    changed = None if args is None else read_json_object(args, "--args")
    answer = _Answer(DecisionKind.MODIFY, note, remember, changed)
    return await _decide(location, _Named(run, approval, digest), answer)


async def undo(
    run: str,
    approval: Annotated[str, Parameter(name="ID")],
    /,
    *,
    location: Location = Location(),  # noqa: B008 - frozen
) -> int:
    """Take back your own decision, for as long as it has not taken effect; the call waits for a person again.

    Decisions on the page and in `approvals watch` take effect after 10 seconds, or as LLM_DO_UNDO_SECONDS says; those
    of other commands take effect at once.

    Parameters
    ----------
    run
        Id of the run.
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


class _Named(NamedTuple):
    """The question, or the questions, as named on the command line."""

    run: str | None
    approval: str | None
    """Id of the approval; None if it was left out."""
    digest: str | None
    """Digest of the question, or its beginning; None if it was left out."""
    several: Several = Several()


class _Further(NamedTuple):
    """Further calls as they were typed."""

    kind: int
    """Number of the kind, from 1."""
    times: int | None
    """Number of calls; None for the default."""
    time: str | None
    """Time in which they may come, like `2h`; None for the default."""


class _Answer(NamedTuple):
    """The decision as it was typed."""

    kind: DecisionKind
    note: str
    remember: bool
    args: dict[str, Any] | None = None
    """New arguments; None unless the call is modified, and where they are still to be edited."""
    further: _Further | None = None
    """Further calls that are agreed to; None: none."""


async def _decide(location: Location, named: _Named, answer: _Answer) -> int:
    from llm_do_temporal.cli.session import opened
    from llm_do_temporal.messages.approvals import Decision, DecisionKind, Remember

    decision = Decision(
        decision=answer.kind,
        args=answer.args,
        note=answer.note,
        remember=Remember.SESSION if answer.remember else Remember.NONE,
        by=login_name(),
    )
    if named.several.all or named.several.group is not None:
        from llm_do_temporal.cli.decisions import decide_several

        if named.approval is not None or named.digest is not None or answer.further is not None:
            raise UsageError("--all and --group are about several approvals; leave the ID, --digest and --kind out")
        return await decide_several(location, named.run, named.several, decision)
    run = named.run
    if run is None or named.several.yes or named.several.as_json:
        raise UsageError("name the run: RUN [ID] for one approval, RUN --all for all of a run; or a group: --group KEY")
    async with opened(location, "decision") as session:
        meant = await _meant(session.client, location, run, named)
        if answer.kind is DecisionKind.MODIFY and answer.args is None:
            from llm_do_temporal.cli.terminal.ask import edit_pending

            meant, changed_args = await edit_pending(session.client, run, meant)
            answer = answer._replace(args=changed_args)
            if changed_args is None:
                say(f"nothing is decided: {meant.id} still waits")
                return 0
        grant, more = None, answer.further
        if more is not None:
            grant = await chosen_grant(session.client, run, meant.id, kind=more.kind, times=more.times, time=more.time)
        named_so = {"id": meant.id, "digest": meant.digest or None, "args": answer.args, "grant": grant}
        decided = await session.client.decide(run, decision.model_copy(update=named_so))
        again = await _asked_again(session.client, run, decided)
    say(_decided_line(run, answer, decided, again))
    if decided is None or decided.verdict is None:
        return 0
    if grant is not None:
        say(f"granted: {value_line(grant.words)}; `{location.command(f'grants {named.run}')}` shows what is left")
    if again is None:
        return 0
    from llm_do_temporal.cli.output import WAITING

    say(f"{decided.id} was not carried out: {visible_line(again.request.reason, 300)}")
    say(f"look at it as it is now: {location.command(f'approvals {run} {again.id}')}")
    return WAITING if again.is_open else 0


def _decided_line(run: str, answer: _Answer, decided: Approval | None, again: Question | None) -> str:
    """Return the line about a decision that was sent; `decided`: None where no worker service has answered yet.

    `again` is the question that asks again about the call; None: none does.
    """
    done = answer.kind.done
    if decided is None:
        return f"{done}: sent to run {run}, but no worker service has answered yet; one that starts takes it up"
    place = visible_line(decided.request.place)
    if decided.verdict is None:
        agreed = f"{len(decided.votes)} of {decided.request.quorum} people have agreed"
        return f"noted: {decided.id} of {place} still waits; {agreed}"
    summary, changed = visible_line(decided.request.summary, 200), ""
    if answer.args is not None:
        does = "it goes on" if again is None else f"{again.id} asks again"
        changed = f"; {does} with {visible_line(json.dumps(answer.args, ensure_ascii=False), 200)}"
    return f"{done}: {decided.id} of {place}: {summary}{changed}"


async def _asked_again(client: LlmDoClient, run: str, decided: Approval | None) -> Question | None:
    """Return the question that asks again about a call that was just agreed to; None: none does."""
    from llm_do_temporal.client.decisions import asked_again, may_be_asked_again

    if decided is None or not may_be_asked_again(decided):
        return None
    return (await asked_again(client, run, [decided.id])).get(decided.id)


async def _meant(client: LlmDoClient, location: Location, run: str, question: _Named) -> ShownQuestion:
    """Return the question that a decision is about. Raises UsageError where no single one is meant."""
    approval, digest = question.approval, question.digest
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
