"""The part of the `calculator`: finds the sum in the prompt, and has the tools do one operation after the other."""

from __future__ import annotations

import ast
import re
from collections.abc import Generator

from llm_do_temporal.offline.model.play import PlaySteps, Say, ask
from llm_do_temporal.offline.model.seen import SeenRequest, ToolResult

MAX_CHARS = 200
"""Longest sum: people type shorter ones, and a longer one could nest deeper than can be followed."""
_SUM = re.compile(r"[\d.\s()+*/^-]+")
_NO_END = " .+*/^-"
_SIGNS = str.maketrans({"×": "*", "·": "*", "÷": "/", ":": "/", "−": "-"})  # noqa: RUF001 - as people type them
_TOOLS: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "subtract",
    ast.Mult: "multiply",
    ast.Div: "divide",
    ast.Pow: "power",
}
_NAMES = {"power": ("base", "exponent")}

Working = Generator[Say, list[ToolResult], float]


class _NoResultError(Exception):
    """Failure of a tool to calculate; the message is the tool's."""


def calculate(seen: SeenRequest) -> PlaySteps:
    """Calculate the longest sum in the prompt."""
    found = sum_in(seen.prompt)
    if found is None:
        return "I found nothing to calculate. I can do sums with + - * / ^ and parentheses, such as (3 + 4) * 2.5 ^ 2."
    text, tree = found
    done: list[str] = []
    try:
        value = yield from _value(tree, done)
    except _NoResultError as error:
        return f"There is no result: {error}"
    return "\n".join([f"{text} = {_shown(value)}", *(f"- {step}" for step in done)])


def sum_in(prompt: str) -> tuple[str, ast.expr] | None:
    """Return the longest sum in a text, as text and as tree; None without any sum."""
    candidates = sorted(_SUM.findall(prompt.translate(_SIGNS)), key=len, reverse=True)
    for candidate in candidates:
        text = " ".join(candidate.split()).rstrip(_NO_END).lstrip(" .*/^")
        try:
            tree = ast.parse(text.replace("^", "**"), mode="eval").body if len(text) <= MAX_CHARS else None
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        if isinstance(tree, ast.BinOp) and all(map(_is_known, ast.walk(tree))):
            return text, tree
    return None


def _is_known(node: ast.AST) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int | float)
    return isinstance(node, (ast.BinOp, ast.UnaryOp, ast.USub, ast.UAdd, *_TOOLS))


def _value(node: ast.expr, done: list[str]) -> Working:
    match node:
        case ast.Constant(value=int() | float() as number):
            return float(number)
        case ast.UnaryOp(op=sign, operand=operand):
            value = yield from _value(operand, done)
            return -value if isinstance(sign, ast.USub) else value
        case ast.BinOp(left=left, op=operator, right=right):
            first = yield from _value(left, done)
            second = yield from _value(right, done)
            return (yield from _operation(_TOOLS[type(operator)], first, second, done))
        case _:
            raise _NoResultError(f"'{ast.unparse(node)}' is no sum")


def _operation(tool: str, first: float, second: float, done: list[str]) -> Working:
    left, right = _NAMES.get(tool, ("a", "b"))
    step = f"{tool}({_shown(first)}, {_shown(second)})"
    result = yield from ask(tool, f"{step} …", **{left: first, right: second})
    if not result.ok or not isinstance(result.data, int | float):
        raise _NoResultError(f"{step}: {result.text}")
    done.append(f"{step} = {_shown(result.data)}")
    return result.data


def _shown(value: float) -> str:
    return f"{value:.10g}"
