from __future__ import annotations

from decimal import Decimal

from llm_do_temporal.cli.reports.show import cost_lines
from llm_do_temporal.client.views.run_view import Node, RunView
from llm_do_temporal.messages.budget import Usage


def priced(cost: str) -> Usage:
    return Usage(requests=1, input_tokens=1_000, output_tokens=10, cost_usd=Decimal(cost))


def spender(name: str, depth: int, children: list[str], **by_model: Usage) -> Node:
    node = Node(name, path=name, worker="w", model="none", depth=depth, children=children, by_model=by_model)
    for usage in by_model.values():
        node.usage = node.usage.plus(usage)
    return node


def test_own_and_total_cost_by_invocation_and_model_with_what_has_no_price() -> None:
    free = Usage(requests=2, input_tokens=5, output_tokens=6, unpriced=("odd",))
    nodes = [
        spender("main", 0, ["main/a-1"], big=priced("0.5")),
        spender("main/a-1", 1, ["main/a-1/b-1"], big=priced("0.25"), odd=free),
        spender("main/a-1/b-1", 2, []),
    ]
    lines = cost_lines(RunView("r", nodes={node.workflow_id: node for node in nodes}))
    assert [line.split() for line in lines if line] == [
        ["INVOCATION", "MODEL", "TURNS", "TOKENS", "IN", "TOKENS", "OUT", "OWN", "TOTAL"],
        ["main", "big", "1", "1,000", "10", "$0.5000", "$0.7500", "+", "unpriced"],
        ["main/a-1", "big", "1", "1,000", "10", "$0.2500", "$0.2500", "+", "unpriced"],
        ["main/a-1", "odd", "2", "5", "6", "unpriced"],
        ["main/a-1/b-1", "none", "0", "0", "0", "-", "-"],
        ["MODEL", "TURNS", "TOKENS", "IN", "TOKENS", "OUT", "COST"],
        ["big", "2", "2,000", "20", "$0.7500"],
        ["odd", "2", "5", "6", "unpriced"],
        ["total", "$0.7500", "+", "unpriced"],
        ["without", "a", "known", "price,", "and", "not", "in", "any", "sum:", "odd"],
    ]
