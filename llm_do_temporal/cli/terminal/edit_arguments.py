"""Changing the arguments of a call before it is approved: in an editor, checked, with the difference shown."""

from __future__ import annotations

import difflib
import json
from typing import Any, cast

from llm_do_temporal.cli.terminal.prompts import Prompter
from llm_do_temporal.client.history.questions import Question
from llm_do_temporal.json_schema import schema_problems
from llm_do_temporal.policy.approvals import canonical
from llm_do_temporal.ui.content.forms import editable_json

_MISSING = object()
_SHOWN_PROBLEMS = 5


async def ask_for_change(question: Question, prompter: Prompter) -> dict[str, Any] | None:
    """Return new arguments that fit the tool and that the person has confirmed; None if nothing is to be sent.

    Editing begins with the arguments that are agreed to now.
    """
    text = editable_json(question.args)
    while True:
        edited = await prompter.edited(text, "new arguments, JSON")
        if edited is None:
            return None
        args, problem = read_arguments(edited, question.request.args_schema or {})
        if args is not None:
            difference = changes(question.args, args)
            if not difference:
                prompter.tell("nothing was changed")
                return None
            prompter.tell("\n".join(difference))
            if await prompter.yes("approve with this change?", default=False):
                return args
        else:
            prompter.tell(problem)
        if not await prompter.yes("edit again?", default=True):
            return None
        text = edited


def read_arguments(text: str, schema: dict[str, Any]) -> tuple[dict[str, Any] | None, str]:
    """Return the arguments in a JSON text and an empty string, or None and the reason why they cannot be used."""
    try:
        args: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        return None, f"that is not JSON: {error}"
    if not isinstance(args, dict):
        return None, 'the arguments are an object, like {"path": "/a.txt"}'
    problems = schema_problems(schema, args)
    if problems:
        return None, "the new arguments are not valid: " + "; ".join(problems[:_SHOWN_PROBLEMS])
    return cast("dict[str, Any]", args), ""


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
