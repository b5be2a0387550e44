"""Help of the commands beyond their docstrings: usage lines, examples, and where to begin.

docs/reference/command-line.md has the same usage lines.
"""

from __future__ import annotations

from llm_do_temporal.cli.text import PROGRAM
from llm_do_temporal.extension import Command


def usage_line(command: Command) -> str:
    """Return the usage line of a command."""
    return f"Usage: {PROGRAM} {command.name} {command.usage}"


def epilogue(command: Command) -> str:
    """Return the examples of a command as they stand below its flags; empty without any."""
    return "\n".join(["Examples:", *(f"  {PROGRAM} {one}" for one in command.examples)]) if command.examples else ""


START = f"""\
Begin here:
  {PROGRAM} init my-shop && cd my-shop
  {PROGRAM} start notes "buy bread"  # asks before it writes
  {PROGRAM} approvals                # what waits, from any terminal
  {PROGRAM} dev                      # a server that stays, with a page
"""
"""Examples below the list of commands."""
