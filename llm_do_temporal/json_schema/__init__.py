"""Values against JSON Schemas: a tool's arguments, a worker's structured output, a changed decision.

Pure, and used on every side: the gate, the desk and the command line must judge the same value alike. Schemas and
values may both be a stranger's, so nothing here is looked up anywhere, patterns run in an engine that is linear, and
work is counted: a value that would take too much of it has a problem, the same on every replay.
"""

from llm_do_temporal.json_schema.patterns import MAX_STEPS, Steps, UnusableSchema
from llm_do_temporal.json_schema.validation import check_schema, find_problems, find_schema_problems, schema_problems
from llm_do_temporal.json_schema.values import normalised, read_value

__all__ = [
    "MAX_STEPS",
    "Steps",
    "UnusableSchema",
    "check_schema",
    "find_problems",
    "find_schema_problems",
    "normalised",
    "read_value",
    "schema_problems",
]
