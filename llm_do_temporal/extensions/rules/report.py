"""Trial of a policy in words: what newly passes first, then what newly asks and is newly blocked, then the unknown.

Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from llm_do_temporal.cli.tables import ago, format_table
from llm_do_temporal.cli.text import visible_line
from llm_do_temporal.extensions.rules.policy.verdicts import ChangeKind, PastVerdict
from llm_do_temporal.extensions.rules.trial import EntryTrial, Trial, TriedCall, answer_in_words

_CALLS = ("RUN", "ID", "PATH", "ASKED", "SUMMARY", "THEN")
_NEIGHBOURS = ("VERDICT", "DIFFERENCE", "CALL")


def trial_lines(trial: Trial, width: int | None) -> list[str]:
    """Return the lines of a trial, tables cut at `width` characters; None leaves them whole."""
    lines: list[str] = []
    for change in ChangeKind:
        found = trial.changed(change)
        if found or change is ChangeKind.NEWLY_PASSED:
            lines += [*_calls(change, found, width), ""]
    for entry in trial.entries:
        lines += [*_entry(entry, width), ""]
    return lines[:-1]


def trial_sentence(trial: Trial, since: str) -> str:
    """Return the outcome in a sentence; `since` is the time looked back, like `30d`."""
    total = len(trial.calls)
    if not total:
        return f"no call asked a person in the last {since}"
    unknown = len(trial.changed(ChangeKind.UNKNOWN))
    doubt = f", and of {unknown:,} nobody can tell" if unknown else ""
    calls = f"{total:,} {'call' if total == 1 else 'calls'} of {trial.runs:,} {'run' if trial.runs == 1 else 'runs'}"
    passed = len(trial.changed(ChangeKind.NEWLY_PASSED))
    newly = f"{passed:,} newly {'passes' if passed == 1 else 'pass'}, {_against(trial.against)}"
    return f"{calls} in {since}: {trial.asked:,} asked, {trial.asks:,} would ask{doubt}; {newly}"


def left_out(trial: Trial) -> list[str]:
    """Return a line for each reason why calls are missing."""
    lines = ["there are more runs, which were not looked at; a shorter --since looks at fewer"] if trial.is_cut else []
    if trial.locked:
        names = visible_line(", ".join(trial.locked[:5])) + (", …" if len(trial.locked) > 5 else "")
        lines.append(f"not looked at, since a key or a stored value is missing here: {names}")
    return lines


def _against(number: int) -> str:
    if not number:
        return "none that a person rejected or changed"
    return f"{number:,} of them though a person rejected or changed {'it' if number == 1 else 'them'}"


def _calls(change: ChangeKind, found: Sequence[TriedCall], width: int | None) -> list[str]:
    head = f"{change.value}: {len(found):,}"
    if not found:
        return [f"{change.value}: none"]
    is_told = change is not ChangeKind.NEWLY_PASSED
    header = (*_CALLS, "BECAUSE") if is_told else (*_CALLS, "PASSED BY")
    rows = [_row(call) for call in found]
    return [head, *format_table(header, rows, width)]


def _row(call: TriedCall) -> tuple[str, ...]:
    question = call.past.question
    said = answer_in_words(call.past)
    return (
        question.run,
        question.id,
        question.request.path,
        ago(question.asked_at),
        question.request.summary,
        f"! {said}" if call.goes_against else said,
        call.after.reason,
    )


def _entry(trial: EntryTrial, width: int | None) -> list[str]:
    times = f"{trial.covered:,} past {'call' if trial.covered == 1 else 'calls'}"
    head = visible_line(f"{trial.entry.sentence}: covers {times}")
    if trial.neighbours is None:
        return [head, "no past call shows its edge: its neighbours are not known"]
    passing = sum(one.outcome.verdict is PastVerdict.PASSES for one in trial.neighbours)
    rows = [(one.outcome.verdict.value, one.trick, one.subject) for one in trial.neighbours]
    return [f"{head}; of {len(rows)} neighbours {passing} pass", *format_table(_NEIGHBOURS, rows, width)]
