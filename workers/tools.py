"""The Python tools of the examples. Their names, types and docstrings are what a model is told."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path, PurePosixPath
from typing import Any

from llm_do_temporal.tools import ToolCallFailed, ToolContext, idempotent, tool_context

# calculator: plain functions


@idempotent
def add(a: float, b: float) -> float:
    """Return a + b."""
    return _finite(a + b)


@idempotent
def subtract(a: float, b: float) -> float:
    """Return a - b."""
    return _finite(a - b)


@idempotent
def multiply(a: float, b: float) -> float:
    """Return a * b."""
    return _finite(a * b)


@idempotent
def divide(a: float, b: float) -> float:
    """Return a / b. b must not be zero."""
    if b == 0:
        raise ValueError("nothing can be divided by zero")
    return _finite(a / b)


@idempotent
def power(base: float, exponent: float) -> float:
    """Return base to the power of exponent; 0.5 is the square root."""
    try:
        return _finite(math.pow(base, exponent))
    except OverflowError:
        raise ValueError("the result is too large") from None


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError("the result is too large")
    return value


# pitch_orchestrator_listed, pitch_orchestrator_coded: what a model need not decide


@idempotent
def list_decks() -> list[dict[str, str]]:
    """List the pitch decks: the path of each, and of the file that its evaluation belongs in."""
    decks = sorted((Path(__file__).parent / "files" / "pipeline").glob("*.pdf"))
    return [{"deck": f"/pipeline/{path.name}", "evaluation": f"/evaluations/{path.stem}.md"} for path in decks]


@tool_context
async def evaluate_decks(ctx: ToolContext, names: list[str] | None = None, wish: str = "") -> list[dict[str, Any]]:
    """Have decks evaluated side by side, and write one file for each evaluation.

    `names` are the decks' names, with or without `.pdf`; without any, all decks are taken. `wish` is what the request
    says about how to evaluate. Returns verdict, average score and file of each deck, or the problem with it.
    """
    wanted = {PurePosixPath(name).name.removesuffix(".pdf") for name in names or ()}
    decks = {PurePosixPath(one["deck"]).stem: one for one in await ctx.call_tool("list_decks", {})}
    chosen = [one for name, one in decks.items() if not wanted or name in wanted]
    unknown = [{"deck": name, "problem": "there is no such deck"} for name in sorted(wanted - decks.keys())]
    return [*await asyncio.gather(*(_evaluate(one, wish, ctx) for one in chosen)), *unknown]


async def _evaluate(one: dict[str, str], wish: str, ctx: ToolContext) -> dict[str, Any]:
    report: dict[str, Any] = {"deck": one["deck"]}
    try:
        evaluation = await ctx.call_tool("pitch_evaluator", wish or "Evaluate it.", attachments=[one["deck"]])
        scores = [row["score"] for row in evaluation["scores"]]
        report |= {"verdict": evaluation["verdict"], "average": round(sum(scores) / len(scores), 1)}
        await ctx.call_tool("write_file", {"path": one["evaluation"], "content": _page(report, evaluation)})
        report["file"] = one["evaluation"]
    except ToolCallFailed as error:
        report["problem"] = str(error)
    return report


def _page(report: dict[str, Any], evaluation: dict[str, Any]) -> str:
    rows = [f"| {row['dimension']} | {row['score']} |" for row in evaluation["scores"]]
    quotes = [f"- {row['dimension']}: {row['evidence']}" for row in evaluation["scores"]]
    flags = [f"- {flag}" for flag in evaluation["red_flags"]] or ["None."]
    lines = [f"# {report['deck']}", "", f"Verdict: {report['verdict']}, average {report['average']}", ""]
    lines += [evaluation["summary"], "", "| dimension | score |", "|---|---|", *rows]
    lines += ["", "## Evidence", "", *quotes, "", "## Red flags", "", *flags]
    return "\n".join(lines) + "\n"
