"""Docstrings as pages quote them."""

from __future__ import annotations

import ast
import inspect
from itertools import pairwise


def first_paragraph(docstring: str | None) -> str:
    """Return the first paragraph of a docstring on one line; nothing for None."""
    return inspect.cleandoc(docstring or "").split("\n\n")[0].replace("\n", " ")


def assigned(body: list[ast.stmt]) -> dict[str, str]:
    """Return the docstrings that stand below assignments, by the name that is assigned."""
    found: dict[str, str] = {}
    for node, below in pairwise(body):
        match node, below:
            case ((ast.AnnAssign(target=target) | ast.Assign(targets=[target])), ast.Expr(ast.Constant(str(text)))):
                found[ast.unparse(target)] = text
            case _:
                pass
    return found
