"""What every contender's workers are told, and which tools each kind of worker has."""

from __future__ import annotations

INSTRUCTION_BYTES = 8 * 1024
_RULE = "{number}. Read what you are given with care, say where each figure comes from, and never guess a number.\n"

INSTRUCTIONS = "".join(_RULE.format(number=number) for number in range(1, 100))[:INSTRUCTION_BYTES]

TEN_TOOLS = (
    "lookup",
    "search",
    "fetch_page",
    "list_entries",
    "compare",
    "convert",
    "translate",
    "count_words",
    "find_person",
    "schedule",
)
FUNCTIONS: dict[str, tuple[str, ...]] = {
    "agent": TEN_TOOLS,
    "asker": (*TEN_TOOLS[:9], "guarded"),
    "crasher": (*TEN_TOOLS[:8], "once", "again"),
    "parent": TEN_TOOLS[:9],
    "node": TEN_TOOLS[:9],
}
"""Kinds of workers and their functions; each has ten tools, callees included."""
CALLEES = {"parent": "agent", "node": "node"}
"""Kinds that delegate, and the kind they call by a tool of its name."""
GUARDED = "guarded"
