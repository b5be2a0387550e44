"""Words about questions and runs for people who read messages, the same at every door that has them.

Plain text, as it is: each door makes it harmless for the program that shows it.
"""

from __future__ import annotations

import json

from llm_do_temporal.client.history.questions import undone_words
from llm_do_temporal.doors.values import AskedQuestion, Run, Vote
from llm_do_temporal.messages.approvals import DecisionKind


def headline_words(question: AskedQuestion) -> str:
    """Return what has become of a question, in one line."""
    words = {
        "open": f"{question.worker} asks for approval: {question.tool}",
        "held": f"{question.tool} of {question.worker} is decided, and can still be taken back",
        "withdrawn": f"{question.tool} of {question.worker} needs no answer any more",
    }
    if question.state in words:
        return words[question.state]
    last = question.votes[-1]
    undone = f" ({undone_words(question.asked_again)})" if question.asked_again else ""
    return f"{_done(last)} by {by_words(last.by, last.via)}: {question.tool} of {question.worker}{undone}"


def call_words(question: AskedQuestion) -> str:
    """Return the call that an approval would agree to now: its change, or its arguments."""
    changed = question.votes and question.votes[-1].decision is DecisionKind.MODIFY
    if question.diff and not changed:
        return question.diff
    return json.dumps(question.args, ensure_ascii=False, indent=1)


def vote_words(vote: Vote) -> str:
    """Return who has answered what, when and why."""
    why = f": {vote.note}" if vote.note else ""
    return f"{_done(vote)} by {by_words(vote.by, vote.via)} at {vote.at:%Y-%m-%d %H:%M:%S} UTC{why}"


def _done(vote: Vote) -> str:
    return "changed and approved" if vote.decision is DecisionKind.MODIFY else vote.decision.done


def by_words(by: str | None, via: str | None) -> str:
    """Return who has answered, and at which door `via`."""
    return f"{by or 'somebody'}{f' via {via}' if via else ''}"


def circumstances_words(question: AskedQuestion) -> str:
    """Return where a question comes from, whom it is for, and how far it is."""
    whom = f"for {', '.join(question.approvers)}" if question.approvers else ""
    agreed = f"{len(question.votes)} of {question.quorum} have agreed" if question.quorum > 1 else ""
    until = f"until {question.deadline:%Y-%m-%d %H:%M} UTC" if question.deadline and question.state == "open" else ""
    return " · ".join(filter(None, (f"run {question.run} {question.id}", question.path, whom, agreed, until)))


def spent_words(run: Run) -> str:
    """Return what a run has spent."""
    if run.usage is None:
        return f"run {run.run}"
    tokens = f"{run.usage.input_tokens:,} tokens in, {run.usage.output_tokens:,} out"
    cost = "" if run.usage.cost_usd is None else f"${run.usage.cost_usd:f}"
    return " · ".join(filter(None, (f"run {run.run}", f"{run.usage.requests} requests", tokens, cost)))
