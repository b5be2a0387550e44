"""Changing the arguments of a call before it is approved: in an editor, checked, with the difference shown."""

from __future__ import annotations

import difflib
import json
import sys
from typing import Any

from rich.console import Console

from llm_do_temporal.cli.terminal.last_shown import ShownQuestion
from llm_do_temporal.cli.terminal.lines import Interrupt
from llm_do_temporal.cli.terminal.prompts import Prompter
from llm_do_temporal.cli.text import visible_line
from llm_do_temporal.client.client import LlmDoClient
from llm_do_temporal.client.history.questions import Question
from llm_do_temporal.errors import UsageError
from llm_do_temporal.json_schema import schema_problems
from llm_do_temporal.policy.values import canonical
from llm_do_temporal.ui.content.arguments import editable_yaml, read_arguments

_MISSING = object()
_SHOWN_PROBLEMS = 5


async def ask_for_change(question: Question, prompter: Prompter) -> dict[str, Any] | None:
    """Return new arguments that fit the tool and that the person has confirmed; None if nothing is to be sent.

    Editing begins with the arguments that are agreed to now. A text with a mistake is offered again as it was typed.
    """
    text = heading(question) + editable_yaml(question.args)
    while True:
        edited = await prompter.edited(text, "new arguments, YAML or JSON")
        if edited is None:
            return None
        args, problem = fitting_arguments(edited, question.request.args_schema or {})
        if args is not None:
            difference = changes(question.args, args)
            if not difference:
                prompter.tell("nothing was changed, so nothing is decided")
                return None
            prompter.tell("\n".join(difference))
            if await prompter.yes("approve with this change?", default=False):
                return args
        else:
            prompter.tell(problem)
        if not await prompter.yes("edit again?", default=True):
            return None
        text = edited


def check_editor(
    what: str = "the arguments", otherwise: str = "Give all of them: --args '{…}' or --args @FILE."
) -> None:
    """Raise UsageError where nobody could edit `what`; `otherwise` says what to do there."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(f"there is no terminal to edit {what} in", next_step=otherwise)


async def edit_pending(
    client: LlmDoClient, run: str, meant: ShownQuestion
) -> tuple[ShownQuestion, dict[str, Any] | None]:
    """Let a person edit the arguments of a question that waits; return it with the new ones, None for no change.

    Raises UsageError for a question that cannot be changed.
    """
    asked = await client.approvals(run)
    question = next((one for one in asked if one.id == meant.id), None)
    if question is None:
        pending = ", ".join(one.id for one in asked) or "none"
        raise UsageError(f"run '{run}' does not ask '{meant.id}'; pending: {pending}")
    if question.request.args_schema is None:
        raise UsageError(f"approval '{question.id}' cannot be changed, only approved or rejected")
    prompter = Prompter(Console(stderr=True, highlight=False), Interrupt(), lambda: None)
    changed = await ask_for_change(question, prompter)
    # An earlier look may have been at another question of this id: the decision is then refused.
    return ShownQuestion(question.id, meant.digest or question.request.digest), changed


def heading(question: Question) -> str:
    """Return the comment at the top of the text."""
    # No words of the arguments: whoever looks for one in the editor is to find the argument.
    named = f"# {question.id}: {visible_line(question.request.tool, 100)}"
    return f"{named}\n# Save and close to go on; saved unchanged, nothing is decided.\n"


def fitting_arguments(text: str, schema: dict[str, Any]) -> tuple[dict[str, Any] | None, str]:
    """Return the arguments in a text and an empty string, or None and the reason why they cannot be used."""
    try:
        args = read_arguments(text)
    except UsageError as error:
        return None, error.message
    problems = schema_problems(schema, args)
    if problems:
        return None, "the new arguments are not valid: " + "; ".join(problems[:_SHOWN_PROBLEMS])
    return args, ""


def changes(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Return the difference between two sets of arguments, line by line; empty if there is none."""
    found: list[str] = []
    for name in [*before, *(name for name in after if name not in before)]:
        old, new = before.get(name, _MISSING), after.get(name, _MISSING)
        # To Python 1 and true are equal.
        if old is not _MISSING and new is not _MISSING and canonical(old) == canonical(new):
            continue
        found.append(f"{name}:")
        lines = list(difflib.unified_diff(_lines(old), _lines(new), lineterm="", n=2))[2:]
        # Only the kind of the value can differ where no line of it does.
        found += [f"  {line}" for line in lines or (f"-{canonical(old)}", f"+{canonical(new)}")]
    return found


def _lines(value: Any) -> list[str]:
    if value is _MISSING:
        return []
    text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
    return text.split("\n")
