"""Syntax of instructions: the part of Jinja2's language that they may use, and the files that they include.

Jinja2 takes the text apart; nothing is ever compiled from it. The part is small enough to be carried out with a bound
in steps and size, reaches no object of Python, and names included files literally, so that they are known before
anything is rendered.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import cast

from jinja2 import Environment, TemplateSyntaxError, nodes

from llm_do_temporal.errors import DefinitionError

MAX_TOKENS = 50_000
"""Words and signs of the template language in a text; instructions have a handful."""
MAX_NESTING = 60
RAW_HINT = "Text that only looks like a template goes between {% raw %} and {% endraw %}."
ALLOWED = "Instructions may use {% if %}, {% for %}, {% set %}, {% include %}, {{ file('…') }} and a few filters."
FILE = "file"
RANGE = "range"
FUNCTIONS = frozenset({FILE, RANGE})
FILTERS = frozenset(
    {"capitalize", "count", "d", "default", "first", "indent", "join", "last", "length", "lower", "replace", "trim"}
    | {"upper"}
)
TESTS = frozenset({"defined", "undefined", "none", "string", "number", "even", "odd"})
_NODES = (
    *(nodes.Template, nodes.Output, nodes.If, nodes.For, nodes.Assign, nodes.Include),
    *(nodes.TemplateData, nodes.Const, nodes.Name, nodes.List, nodes.Tuple, nodes.Dict, nodes.Pair),
    *(nodes.Getattr, nodes.Getitem, nodes.Call, nodes.Filter, nodes.Test, nodes.CondExpr, nodes.Concat),
    *(nodes.Compare, nodes.Operand, nodes.And, nodes.Or, nodes.Not, nodes.Neg, nodes.Pos),
    *(nodes.Add, nodes.Sub, nodes.Mul, nodes.Div, nodes.FloorDiv, nodes.Mod),
)
_WORDS = {
    "Macro": "{% macro %}",
    "CallBlock": "{% call %}",
    "Import": "{% import %}",
    "FromImport": "{% from … import %}",
    "Extends": "{% extends %}",
    "Block": "{% block %}",
    "FilterBlock": "{% filter %}",
    "AssignBlock": "{% set %} with a block",
    "With": "{% with %}",
    "ScopedEvalContextModifier": "{% autoescape %}",
    "EvalContextModifier": "{% autoescape %}",
    "Pow": "**",
    "Slice": "[a:b]",
}
_PARSER = Environment(autoescape=False)  # noqa: S701 - only takes text apart; what comes of it is no HTML


class TemplateMistake(Exception):
    """Mistake in a text as a template; `str()` of it is for people."""

    def __init__(self, message: str, line: int | None = None, next_step: str | None = RAW_HINT) -> None:
        super().__init__(message)
        self.line = line
        """Counted from the text's first; None: the text as a whole."""
        self.next_step = next_step


@dataclass(frozen=True)
class Inclusion:
    """Place at which a text includes a file."""

    names: tuple[str, ...]
    """Names of files; the first file that exists is included."""
    line: int
    optional: bool = False
    """Whether none of the files needs to exist."""


def parse(text: str) -> nodes.Template:
    """Return the text taken apart. Raises TemplateMistake for anything in it that instructions may not use."""
    try:
        if sum(1 for _ in islice(_PARSER.lex(text), MAX_TOKENS + 1)) > MAX_TOKENS:
            raise TemplateMistake(f"it has more than {MAX_TOKENS} words and signs of the template language")
        tree = _PARSER.parse(text)
    except TemplateSyntaxError as error:
        raise TemplateMistake(str(error.message), error.lineno) from error
    except RecursionError as error:
        raise TemplateMistake("it is nested too deeply") from error
    except (ValueError, OverflowError, MemoryError) as error:  # a number that Python cannot read
        raise TemplateMistake(f"it cannot be read: {str(error)[:200]}") from error
    _check(tree)
    return tree


def inclusions(tree: nodes.Template) -> Iterator[Inclusion]:
    """Yield every place at which a file is included, also in branches that are never taken. Raises TemplateMistake."""
    for node, _ in _walk(tree):
        if isinstance(node, nodes.Include):
            yield Inclusion(included_names(node), node.lineno, node.ignore_missing)
        elif isinstance(node, nodes.Call) and isinstance(node.node, nodes.Name) and node.node.name == FILE:
            yield Inclusion((file_name(node),), node.lineno)


def included_names(node: nodes.Include) -> tuple[str, ...]:
    """Return the names that an `include` tries in turn. Raises TemplateMistake for a computed name."""
    listed = isinstance(node.template, nodes.List | nodes.Tuple)
    parts = cast("nodes.List", node.template).items if listed else [node.template]
    names = [part.value for part in parts if isinstance(part, nodes.Const) and isinstance(part.value, str)]
    if not names or len(names) != len(parts):
        raise _computed(node)
    return tuple(names)


def file_name(node: nodes.Call) -> str:
    """Return the name in `file('NAME')`. Raises TemplateMistake for a computed name."""
    given = node.args[0] if len(node.args) == 1 and not node.kwargs else None
    if not isinstance(given, nodes.Const) or not isinstance(given.value, str):
        raise _computed(node)
    return given.value


def _computed(node: nodes.Node) -> TemplateMistake:
    return TemplateMistake(
        "the name of an included file must be written out, and cannot be computed",
        node.lineno,
        "Write {{ file('NAME') }} or {% include 'NAME' %}; use {% if %} to choose between files.",
    )


def _check(tree: nodes.Template) -> None:
    for node, depth in _walk(tree):
        if depth > MAX_NESTING:
            raise TemplateMistake(f"it is nested more than {MAX_NESTING} deep", node.lineno)
        wrong = _wrong_with(node)
        if wrong is not None:
            raise TemplateMistake(wrong, node.lineno, ALLOWED)
    for _ in inclusions(tree):
        pass


def _wrong_with(node: nodes.Node) -> str | None:
    kind = type(node).__name__
    if not isinstance(node, _NODES):
        return f"'{_WORDS.get(kind, kind)}' cannot be used in instructions"
    if isinstance(node, nodes.Name):
        return _wrong_with_name(node)
    if isinstance(node, nodes.For):
        return _wrong_with_loop(node)
    if isinstance(node, nodes.Assign):
        return None if isinstance(node.target, nodes.Name) else "{% set %} gives a value to one name"
    if isinstance(node, nodes.Getattr) and (not isinstance(node.node, nodes.Name) or node.node.name != "loop"):
        return f"reading '.{node.attr[:40]}' of a value is unsafe"
    if isinstance(node, nodes.Call | nodes.Filter | nodes.Test) and (node.dyn_args or node.dyn_kwargs):
        return "'*' and '**' before an argument cannot be used in instructions"
    if isinstance(node, nodes.Call):
        return _wrong_with_call(node)
    if isinstance(node, nodes.Filter):
        return None if node.name in FILTERS and node.node else f"there is no filter '{node.name[:40]}' here"
    if isinstance(node, nodes.Test):
        return None if node.name in TESTS else f"there is no test '{node.name[:40]}' here"
    return None


def _wrong_with_name(node: nodes.Name) -> str | None:
    if node.ctx == "load" or node.name not in (*FUNCTIONS, "loop"):
        return None
    return f"'{node.name}' has a meaning of its own and cannot be given another"


def _wrong_with_loop(node: nodes.For) -> str | None:
    if node.recursive:
        return "'recursive' cannot be used in instructions"
    targets = node.target.items if isinstance(node.target, nodes.Tuple) else [node.target]
    return None if all(isinstance(one, nodes.Name) for one in targets) else "{% for %} gives values to names"


def _wrong_with_call(node: nodes.Call) -> str | None:
    if isinstance(node.node, nodes.Name) and node.node.name in FUNCTIONS:
        return None
    if isinstance(node.node, nodes.Getattr):
        return f"calling '.{node.node.attr[:40]}' of a value is unsafe"
    return "only file() and range() can be called in instructions"


def _walk(tree: nodes.Node) -> Iterator[tuple[nodes.Node, int]]:
    """Every node with its depth, from the top down; never by recursion, as the text may be nested at will."""
    pending = [(tree, 0)]
    while pending:
        node, depth = pending.pop()
        yield node, depth
        # A function is not a value: its name is no part that is looked at on its own.
        if isinstance(node, nodes.Call):
            parts: list[nodes.Node] = [*node.args, *node.kwargs]
        else:
            parts = list(node.iter_child_nodes())
        pending += [(part, depth + 1) for part in reversed(parts)]


def as_definition_error(mistake: TemplateMistake, file: str, first_line: int) -> DefinitionError:
    """Return the mistake with its place; `first_line` is the line of the file on which the text begins."""
    line = None if mistake.line is None else first_line - 1 + mistake.line
    return DefinitionError(f"template: {mistake}", file=file, line=line, next_step=mistake.next_step)
