"""Rendering of instructions as a template, step by step, with a price for each step and for each value.

Every text ends: with a result or a TemplateMistake. Nothing is compiled, no object of Python is reached.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from jinja2 import nodes

from llm_do_temporal.definitions.workers.instruction_syntax import (
    FILE,
    FUNCTIONS,
    RANGE,
    Inclusion,
    TemplateMistake,
    file_name,
    included_names,
)
from llm_do_temporal.definitions.workers.instruction_values import (
    FILTER_FUNCTIONS,
    LARGEST_NUMBER,
    Items,
    NotDefined,
    Pairs,
    as_text,
    items_of,
    looked_up,
    number_of,
    passes,
    weight_of,
)
from llm_do_temporal.definitions.yaml.text_files import MAX_FILE_BYTES

MAX_INSTRUCTIONS_CHARS = MAX_FILE_BYTES
"""Longest instructions that may come of a template: no longer than a file may be."""
MAX_STEPS = 200_000
"""Steps of one rendering: well under a second."""
MAX_WORK = 16 * 1024 * 1024
"""Characters that are made on the way to a result, those that are thrown away included."""
_ARITHMETIC: dict[type[nodes.BinExpr], Callable[[Any, Any], Any]] = {
    nodes.Add: operator.add,
    nodes.Sub: operator.sub,
    nodes.Mul: operator.mul,
    nodes.Div: operator.truediv,
    nodes.FloorDiv: operator.floordiv,
    nodes.Mod: operator.mod,
}
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "lteq": operator.le,
    "gt": operator.gt,
    "gteq": operator.ge,
    "in": lambda a, b: a in b,
    "notin": lambda a, b: a not in b,
}
Scope = dict[str, Any]
_CANNOT_GROW = "the template does too much: instructions are rendered within a bound of steps and size"


def render(tree: nodes.Template, read: Callable[[Inclusion], str]) -> str:
    """Return the text that the template makes; `read` gives the text of an included file. Raises TemplateMistake."""
    return _Rendering(read).text_of(tree)


class _Rendering:
    def __init__(self, read: Callable[[Inclusion], str]) -> None:
        self._read = read
        self._parts: list[str] = []
        self._length = 0
        self._steps = MAX_STEPS
        self._work = MAX_WORK
        self._line: int | None = None

    def text_of(self, tree: nodes.Template) -> str:
        try:
            self._carry_out(tree.body, {})
        except TemplateMistake as mistake:
            mistake.line = mistake.line or self._line
            raise
        except (ArithmeticError, TypeError, ValueError, LookupError) as error:
            raise TemplateMistake(str(error)[:300], self._line) from error
        return "".join(self._parts)

    def _pay(self, work: int = 0) -> None:
        self._steps -= 1
        self._work -= work
        if self._steps < 0 or self._work < 0:
            raise TemplateMistake(_CANNOT_GROW, self._line, None)

    def _write(self, text: str) -> None:
        self._length += len(text)
        if self._length > MAX_INSTRUCTIONS_CHARS:
            raise TemplateMistake(
                f"the instructions are longer than {MAX_INSTRUCTIONS_CHARS} characters", self._line, None
            )
        self._parts.append(text)

    # Statements

    def _carry_out(self, statements: Sequence[nodes.Node], names: Scope) -> None:
        for statement in statements:
            self._pay()
            self._line = statement.lineno
            if isinstance(statement, nodes.Output):
                for part in statement.nodes:
                    self._write(part.data if isinstance(part, nodes.TemplateData) else self._text(part, names))
            elif isinstance(statement, nodes.If):
                self._carry_out(self._branch(statement, names), names)
            elif isinstance(statement, nodes.For):
                self._loop(statement, names)
            elif isinstance(statement, nodes.Assign):
                names[cast("nodes.Name", statement.target).name] = self._value(statement.node, names)
            else:
                assert isinstance(statement, nodes.Include)
                inclusion = Inclusion(included_names(statement), statement.lineno, statement.ignore_missing)
                self._write(self._included(inclusion).removesuffix("\n"))

    def _branch(self, statement: nodes.If, names: Scope) -> Sequence[nodes.Node]:
        for one in (statement, *statement.elif_):
            if self._value(one.test, names):
                return one.body
        return statement.else_

    def _loop(self, statement: nodes.For, names: Scope) -> None:
        items = self._items(self._value(statement.iter, names))
        if statement.test is not None:
            items = [one for one in items if self._value(statement.test, self._bound(statement.target, one, names))]
        for index, item in enumerate(items):
            self._pay()
            # What is set in a loop ends with its turn, as it does in Jinja2.
            inner = self._bound(statement.target, item, names)
            inner["loop"] = Pairs(
                {
                    "index": index + 1,
                    "index0": index,
                    "revindex": len(items) - index,
                    "revindex0": len(items) - index - 1,
                    "first": index == 0,
                    "last": index == len(items) - 1,
                    "length": len(items),
                }
            )
            self._carry_out(statement.body, inner)
        if not items:
            self._carry_out(statement.else_, dict(names))

    def _bound(self, target: nodes.Node, item: Any, names: Scope) -> Scope:
        self._pay(len(names))
        if isinstance(target, nodes.Name):
            return {**names, target.name: item}
        wanted = [cast("nodes.Name", one).name for one in cast("nodes.Tuple", target).items]
        given = self._items(item)
        if len(given) != len(wanted):
            raise TemplateMistake(f"{len(given)} values cannot be given to {len(wanted)} names", target.lineno)
        return {**names, **dict(zip(wanted, given, strict=True))}

    def _items(self, value: Any) -> Sequence[Any]:
        return items_of(self._pay, value)

    # Expressions

    def _text(self, node: nodes.Node, names: Scope) -> str:
        return as_text(self._pay, self._value(node, names))

    def _value(self, node: nodes.Node, names: Scope) -> Any:
        self._line = node.lineno or self._line
        value = self._computed(node, names)
        self._pay(weight_of(value) if not isinstance(node, nodes.Name | nodes.Const) else 0)
        return value

    def _computed(self, node: nodes.Node, names: Scope) -> Any:
        if isinstance(node, nodes.Const):
            return node.value
        if isinstance(node, nodes.TemplateData):
            return node.data
        if isinstance(node, nodes.BinExpr):
            return self._operation(node, names)
        if isinstance(node, nodes.UnaryExpr):
            value = self._value(node.node, names)
            if isinstance(node, nodes.Not):
                return not value
            number = number_of(value)
            return -number if isinstance(node, nodes.Neg) else number
        return _EXPRESSIONS[type(node)](self, node, names)

    def _name(self, node: nodes.Name, names: Scope) -> Any:
        if node.name in names:
            return names[node.name]
        if node.name in FUNCTIONS:
            raise TemplateMistake(f"'{node.name}' is a function and must be called: {node.name}(…)", node.lineno)
        raise NotDefined(f"'{node.name[:80]}' is undefined", node.lineno)

    def _operation(self, node: nodes.BinExpr, names: Scope) -> Any:
        left = self._value(node.left, names)
        if isinstance(node, nodes.And):
            return self._value(node.right, names) if left else left
        if isinstance(node, nodes.Or):
            return left or self._value(node.right, names)
        right = self._value(node.right, names)
        if isinstance(node, nodes.Mul) and isinstance(left, str) != isinstance(right, str):
            text, times = (left, right) if isinstance(left, str) else (right, left)
            self._pay(len(text) * max(int(number_of(times)), 0))
            return text * times
        if isinstance(node, nodes.Add) and isinstance(left, str) and isinstance(right, str):
            self._pay(len(left) + len(right))
            return left + right
        return _ARITHMETIC[type(node)](number_of(left), number_of(right))

    def _compare(self, node: nodes.Compare, names: Scope) -> bool:
        left = self._value(node.expr, names)
        for operand in node.ops:
            right = self._value(operand.expr, names)
            self._pay(weight_of(left) + weight_of(right))
            if not _COMPARISONS[operand.op](left, right):
                return False
            left = right
        return True

    def _concat(self, node: nodes.Concat, names: Scope) -> str:
        parts = [self._text(part, names) for part in node.nodes]
        self._pay(sum(map(len, parts)))
        return "".join(parts)

    def _list(self, node: nodes.List | nodes.Tuple, names: Scope) -> Items:
        return Items([self._value(item, names) for item in node.items])

    def _dict(self, node: nodes.Dict, names: Scope) -> Pairs:
        return Pairs({self._key(pair.key, names): self._value(pair.value, names) for pair in node.items})

    def _key(self, node: nodes.Node, names: Scope) -> Any:
        key = self._value(node, names)
        if not isinstance(key, str | int | float | None):
            raise TemplateMistake("a key is a text or a number", node.lineno)
        return key

    def _choice(self, node: nodes.CondExpr, names: Scope) -> Any:
        if self._value(node.test, names):
            return self._value(node.expr1, names)
        return "" if node.expr2 is None else self._value(node.expr2, names)

    def _attribute(self, node: nodes.Getattr, names: Scope) -> Any:
        return looked_up(self._value(node.node, names), node.attr)

    def _item(self, node: nodes.Getitem, names: Scope) -> Any:
        return looked_up(self._value(node.node, names), self._key(node.arg, names))

    def _call(self, node: nodes.Call, names: Scope) -> Any:
        name = cast("nodes.Name", node.node).name
        if name == FILE:
            return self._included(Inclusion((file_name(node),), node.lineno))
        assert name == RANGE
        numbers = [self._value(one, names) for one in node.args]
        if node.kwargs or not 1 <= len(numbers) <= 3 or not all(type(one) is int for one in numbers):
            raise TemplateMistake("range() takes one to three whole numbers", node.lineno)
        made = range(*numbers)
        if any(abs(one) > LARGEST_NUMBER for one in numbers) or len(made) > MAX_STEPS:
            raise TemplateMistake(f"Range too big: at most {MAX_STEPS} numbers", node.lineno, None)
        return made

    def _included(self, inclusion: Inclusion) -> str:
        text = self._read(inclusion)
        self._pay(len(text))
        return text

    def _test(self, node: nodes.Test, names: Scope) -> bool:
        if node.name in ("defined", "undefined"):
            try:
                self._value(node.node, names)
            except NotDefined:
                return node.name == "undefined"
            return node.name == "defined"
        return passes(node.name, self._value(node.node, names))

    def _filter(self, node: nodes.Filter, names: Scope) -> Any:
        given = [self._value(one, names) for one in node.args]
        named = {str(one.key): self._value(one.value, names) for one in cast("list[nodes.Keyword]", node.kwargs)}
        try:
            if node.name in ("default", "d"):
                return self._default(node, names, *given, **named)
            value = self._value(cast("nodes.Expr", node.node), names)
            return FILTER_FUNCTIONS[node.name](self._pay, value, *given, **named)
        except TypeError as error:
            raise TemplateMistake(f"the filter '{node.name}' does not take these arguments", node.lineno) from error

    def _default(self, node: nodes.Filter, names: Scope, default_value: Any = "", boolean: Any = False) -> Any:
        try:
            value = self._value(cast("nodes.Expr", node.node), names)
        except NotDefined:
            return default_value
        return value or default_value if boolean else value


_EXPRESSIONS: Mapping[type[nodes.Node], Callable[[Any, Any, Scope], Any]] = {
    nodes.Name: _Rendering._name,  # pyright: ignore[reportPrivateUsage]
    nodes.Compare: _Rendering._compare,  # pyright: ignore[reportPrivateUsage]
    nodes.Concat: _Rendering._concat,  # pyright: ignore[reportPrivateUsage]
    nodes.List: _Rendering._list,  # pyright: ignore[reportPrivateUsage]
    nodes.Tuple: _Rendering._list,  # pyright: ignore[reportPrivateUsage]
    nodes.Dict: _Rendering._dict,  # pyright: ignore[reportPrivateUsage]
    nodes.CondExpr: _Rendering._choice,  # pyright: ignore[reportPrivateUsage]
    nodes.Getattr: _Rendering._attribute,  # pyright: ignore[reportPrivateUsage]
    nodes.Getitem: _Rendering._item,  # pyright: ignore[reportPrivateUsage]
    nodes.Call: _Rendering._call,  # pyright: ignore[reportPrivateUsage]
    nodes.Test: _Rendering._test,  # pyright: ignore[reportPrivateUsage]
    nodes.Filter: _Rendering._filter,  # pyright: ignore[reportPrivateUsage]
}
