"""Costs of a run, invocation by invocation and model by model: `show --cost`.

Pure. A model without a known price is named, and never counted as free.
"""

from __future__ import annotations

from llm_do_temporal.cli.tables import format_table
from llm_do_temporal.cli.terminal.run_picture import dollars
from llm_do_temporal.cli.text import visible_line
from llm_do_temporal.client.views.run_view import RunView
from llm_do_temporal.messages.budget import Usage

_INVOCATIONS = ("INVOCATION", "MODEL", "TURNS", "TOKENS IN", "TOKENS OUT", "OWN", "TOTAL")
_MODELS = ("MODEL", "TURNS", "TOKENS IN", "TOKENS OUT", "COST")


def cost_lines(view: RunView) -> list[str]:
    """Return two tables, of invocations and of models, and the total. A total is own cost and that of all below."""
    lines = format_table(_INVOCATIONS, _invocations(view), None)
    lines += [
        "",
        *format_table(_MODELS, [(model, *_spent(usage), price(usage)) for model, usage in _models(view)], None),
    ]
    lines += ["", f"total {price(view.usage)}"]
    saved = view.usage.saved
    if saved is not None:
        worth = "" if saved.cost_usd is None else f", {dollars(saved.cost_usd)}"
        tokens = f"{saved.input_tokens:,} tokens in, {saved.output_tokens:,} out"
        lines.append(f"saved by reusing {saved.requests} turns of another run: {tokens}{worth}")
    if view.usage.estimated:
        lines.append(f"the tokens of {view.usage.estimated} turns are estimated: the provider did not say them")
    if view.usage.unpriced:
        lines.append(f"without a known price, and not in any sum: {visible_line(', '.join(view.usage.unpriced))}")
    return lines


def price(usage: Usage) -> str:
    """Return the cost in US dollars; `unpriced` if no price is known, with `+ unpriced` if only some are."""
    if usage.cost_usd is None:
        return "unpriced" if usage.unpriced else "-"
    return dollars(usage.cost_usd) + (" + unpriced" if usage.unpriced else "")


def _invocations(view: RunView) -> list[tuple[str, ...]]:
    """Return a row for each model of each invocation; the first row of an invocation has its total."""
    rows: list[tuple[str, ...]] = []
    for node in view.ordered:
        total = price(view.total_of(node))
        for model, usage in node.by_model.items() or [(node.model, Usage())]:
            rows.append((node.path, model, *_spent(usage), price(usage), total))
            total = ""
    return rows


def _models(view: RunView) -> list[tuple[str, Usage]]:
    return sorted(view.by_model.items(), key=lambda priced: -(priced[1].cost_usd or 0))


def _spent(usage: Usage) -> tuple[str, str, str]:
    return str(usage.requests), f"{usage.input_tokens:,}", f"{usage.output_tokens:,}"
