"""Syntax trees of Python texts, made by one thread at a time.

Python 3.11 counts the depth of a tree for the whole interpreter: of two threads that make one, either may get
`SystemError: AST constructor recursion depth mismatch` (CPython issue 106905).
"""

from __future__ import annotations

import ast
import threading

TRIES = 5
"""Most attempts for a text: other people's code may call `ast.parse` itself, and disturb one."""
_one_thread = threading.Lock()


def parse_python(text: str | bytes) -> ast.Module:
    """Return the tree of a text. Raises what `ast.parse` does: SyntaxError, ValueError, RecursionError, MemoryError."""
    for _ in range(TRIES - 1):
        try:
            with _one_thread:
                return ast.parse(text)
        except SystemError:
            continue
    with _one_thread:
        return ast.parse(text)
