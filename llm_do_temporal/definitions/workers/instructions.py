"""Instructions of a worker: text of the author, with files of the workshop included.

Rendered once, when a worker is loaded, by Jinja2's sandbox. Included text is inserted as it is and never rendered: only
the author of the worker's own file decides what a template does. Text that a model wrote is never rendered at all.

The syntax tree is checked against what instructions may use. Names of included files are literal, so they are known
before anything is rendered. Then the tree is rewritten: nothing is called but the filters of `_Sandbox`, and each block
of statements and each value that is made has a price. So every rendering ends, with a text or with a TemplateMistake,
after a number of steps and characters that depends on the text alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from math import isfinite
from pathlib import Path, PurePosixPath
from traceback import walk_tb
from typing import Any, cast

from jinja2 import Environment, StrictUndefined, Template, TemplateSyntaxError, Undefined, nodes, pass_context
from jinja2.parser import Parser
from jinja2.runtime import LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

from llm_do_temporal.definitions.workers.places import is_generated
from llm_do_temporal.definitions.workers.worker_file import ParsedWorker
from llm_do_temporal.definitions.yaml.documents import MAX_FILE_BYTES, Missing, Unreadable, find_file, read_text
from llm_do_temporal.errors import DefinitionError

MAX_TOKENS = 50_000
"""Words and signs of the template language in a text; instructions have a handful."""
MAX_NESTING = 60
MAX_INSTRUCTIONS_CHARS = MAX_FILE_BYTES
"""Longest instructions that may come of a template: no longer than a file may be."""
MAX_STEPS = 200_000
"""Steps of one rendering: well under a second."""
MAX_WORK = 16 * 1024 * 1024
"""Characters that are made on the way to a result, those that are thrown away included."""
LARGEST_NUMBER = 10**15
_WIDEST_INDENT = 200
_RAW_HINT = "Text that only looks like a template goes between {% raw %} and {% endraw %}."
_ALLOWED = "Instructions may use {% if %}, {% for %}, {% set %}, {% include %}, {{ file('…') }} and a few filters."
_FILE, _RANGE = "file", "range"
_TAKEN = frozenset({_FILE, _RANGE, "loop", "self"})
"""Names that have a meaning of their own."""
_LOOP = frozenset({"index", "index0", "revindex", "revindex0", "first", "last", "length"})
_NODES = (
    *(nodes.Template, nodes.Output, nodes.If, nodes.For, nodes.Assign, nodes.Include),
    *(nodes.TemplateData, nodes.Const, nodes.Name, nodes.List, nodes.Tuple, nodes.Dict, nodes.Pair),
    *(nodes.Getattr, nodes.Getitem, nodes.Call, nodes.Filter, nodes.Test, nodes.CondExpr, nodes.Concat),
    *(nodes.Compare, nodes.Operand, nodes.And, nodes.Or, nodes.Not, nodes.Neg, nodes.Pos),
    *(nodes.Add, nodes.Sub, nodes.Mul, nodes.Div, nodes.FloorDiv, nodes.Mod),
)
_INFINITE = "a number is too large"
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
_UNENDED = {"comment_begin": "comment tag", "raw_begin": "{% raw %}"}
_PARSER = Environment(autoescape=False)  # noqa: S701 - only takes text apart; what comes of it is no HTML


class TemplateMistake(Exception):
    """Mistake in a text as a template; `str()` of it is for people."""

    def __init__(self, message: str, line: int | None = None, next_step: str | None = _RAW_HINT) -> None:
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


@dataclass(frozen=True)
class InstructionText:
    """Instructions as they stand in a worker file."""

    text: str
    file: str
    """Path of the worker file, as messages name it."""
    first_line: int
    """The line of the file on which the text begins."""
    folder: Path
    """The worker's folder: where included files are looked for first."""
    root: Path
    """The folder that included files may not leave."""

    def error_for(self, mistake: TemplateMistake) -> DefinitionError:
        """Return the error for a mistake in this text, with its line in the file."""
        line = None if mistake.line is None else self.first_line - 1 + mistake.line
        return DefinitionError(f"template: {mistake}", file=self.file, line=line, next_step=mistake.next_step)


def render_instructions(source: InstructionText) -> str:
    """Return the instructions with everything included. Raises DefinitionError with file and line of a mistake."""
    if "{" not in source.text:
        return source.text.strip()
    try:
        return render(parse(source.text), lambda inclusion: _read(source, inclusion)).strip()
    except TemplateMistake as mistake:
        raise source.error_for(mistake) from mistake


def check_instructions(source: InstructionText) -> None:
    """Raise DefinitionError where the instructions could not be rendered; nothing of them is carried out."""
    try:
        tree = parse(source.text)
        for inclusion in inclusions(tree):
            _read(source, inclusion)
        named = list(tree.find_all(nodes.Name))
        given = {one.name for one in named if one.ctx != "load"} | _TAKEN
        for one in named:
            if one.ctx == "load" and one.name not in given:
                raise TemplateMistake(f"'{one.name[:80]}' is undefined", one.lineno)
        if not tree.body:
            raise TemplateMistake("they are empty once rendered", 1)
    except TemplateMistake as mistake:
        raise source.error_for(mistake) from mistake


def instruction_text(parsed: ParsedWorker) -> InstructionText:
    """Return the instructions of a worker file."""
    place = parsed.place
    return InstructionText(
        text=parsed.text, file=place.label, first_line=parsed.text_line, folder=place.path.parent, root=place.root
    )


def included_files(source: InstructionText) -> frozenset[str]:
    """Return every path, relative to the root, at which a file that the instructions include is looked for.

    Known without rendering: names of included files are literal. Instructions that cannot be used include none.
    """
    names = [PurePosixPath(name) for name in _included_names(source.text) or () if name and "\0" not in name]
    inside = [name for name in names if not name.is_absolute() and ".." not in name.parts]
    folders = (source.folder, source.root)
    return frozenset((folder / name).relative_to(source.root).as_posix() for name in inside for folder in folders)


def has_mistakes(parsed: ParsedWorker) -> bool:
    """Return whether the instructions cannot be taken apart, so that the files they would include are unknown."""
    place = parsed.place
    return not (place.shipped or place.generated) and _included_names(parsed.text) is None


@lru_cache(maxsize=512)
def _included_names(text: str) -> frozenset[str] | None:
    """Return the names of included files; None for instructions with mistakes."""
    if "{" not in text:
        return frozenset()
    try:
        return frozenset(name for inclusion in inclusions(parse(text)) for name in inclusion.names)
    except TemplateMistake:
        return None


def _read(source: InstructionText, inclusion: Inclusion) -> str:
    """Return the text of the first file that exists. Raises TemplateMistake."""
    missing: Missing | None = None
    folders, root = (source.folder, source.root), source.root
    for name in inclusion.names:
        try:
            path = find_file(name, folders, root)
            if any(part.startswith(".") for one in (path, path.resolve()) for part in one.relative_to(root).parts):
                hidden = "files and folders whose name begins with '.' are never included"
                raise Unreadable(f"'{name}' is hidden: {hidden}")
            if is_generated(path.resolve(), root):
                raise Unreadable(f"'{name}' was written by a model and cannot be included")
            return read_text(name, folders, root)[0]
        except Missing as error:
            missing = missing or error
        except Unreadable as error:
            raise TemplateMistake(str(error), inclusion.line, None) from error
    if inclusion.optional:
        return ""
    raise TemplateMistake(str(missing), inclusion.line, None) from missing


def parse(text: str) -> nodes.Template:
    """Return the text taken apart. Raises TemplateMistake for anything in it that instructions may not use."""
    parser: Parser | None = None
    try:
        signs = list(islice(_PARSER.lex(text), MAX_TOKENS + 1))
        line, kind, _ = signs[-1] if signs else (1, "", "")
        if len(signs) > MAX_TOKENS:
            raise TemplateMistake(f"it has more than {MAX_TOKENS} words and signs of the template language", line)
        if kind in _UNENDED:  # which Jinja2 passes over
            raise TemplateMistake(f"Missing end of {_UNENDED[kind]}", line)
        parser = Parser(_PARSER, text)
        tree = parser.parse()
    except TemplateSyntaxError as error:
        raise TemplateMistake(str(error.message), error.lineno) from error
    except (RecursionError, ValueError, OverflowError, MemoryError) as error:
        words = f"it cannot be read: {str(error)[:200]}"  # a number that Python cannot read
        words = "it is nested too deeply" if isinstance(error, RecursionError) else words
        raise TemplateMistake(words, None if parser is None else parser.stream.current.lineno) from error
    for node, depth in _walk(tree):
        if depth > MAX_NESTING:
            raise TemplateMistake(f"it is nested more than {MAX_NESTING} deep", node.lineno)
        wrong = _wrong_with(node)
        if wrong is not None:
            raise TemplateMistake(wrong, node.lineno, _ALLOWED)
    for _ in inclusions(tree):
        pass
    return tree


def inclusions(tree: nodes.Template) -> Iterator[Inclusion]:
    """Yield every place at which a file is included, also in branches that are never taken. Raises TemplateMistake."""
    for node, _ in _walk(tree):
        if isinstance(node, nodes.Include) or (isinstance(node, nodes.Call) and _called(node) == _FILE):
            yield _inclusion(node)


def _inclusion(node: nodes.Include | nodes.Call) -> Inclusion:
    """Return the files that a tag or a call of `file` names. Raises TemplateMistake for a computed name."""
    if isinstance(node, nodes.Call):
        parts: Sequence[nodes.Node] = node.args if len(node.args) == 1 else ()
    else:
        is_list = isinstance(node.template, nodes.List | nodes.Tuple)
        parts = cast("nodes.List", node.template).items if is_list else [node.template]
    names = [part.value for part in parts if isinstance(part, nodes.Const) and isinstance(part.value, str)]
    if not names or len(names) != len(parts):
        raise TemplateMistake(
            "the name of an included file must be written out, and cannot be computed",
            node.lineno,
            "Write {{ file('NAME') }} or {% include 'NAME' %}; use {% if %} to choose between files.",
        )
    return Inclusion(tuple(names), node.lineno, isinstance(node, nodes.Include) and node.ignore_missing)


def _called(node: nodes.Call) -> str:
    """Return the name of the function that is called; empty for what is not called by its name."""
    return node.node.name if isinstance(node.node, nodes.Name) else ""


def _wrong_with(node: nodes.Node) -> str | None:
    kind = type(node).__name__
    if not isinstance(node, _NODES):
        return f"'{_WORDS.get(kind, kind)}' cannot be used in instructions"
    if isinstance(node, nodes.Call | nodes.Filter | nodes.Test) and (node.dyn_args or node.dyn_kwargs):
        return "'*' and '**' before an argument cannot be used in instructions"
    match node:
        case nodes.Const(value=float() as value) if not isfinite(value):
            return _INFINITE
        case nodes.Const(value=str() as value) if any("\ud800" <= char <= "\udfff" for char in value):
            return "a text has half a character (a lone surrogate)"
        case nodes.Name() if node.ctx != "load":
            taken = f"'{node.name}' has a meaning of its own and cannot be given another"
            return taken if node.name in _TAKEN else None
        case nodes.Name(name=("file" | "range") as name):
            return f"'{name}' is a function and must be called: {name}(…)"
        case nodes.Name(name="self"):
            return "'self' is undefined"
        case nodes.Call():
            return _wrong_with_call(node)
        case _:
            return _wrong_with_statement(node)


def _wrong_with_statement(node: nodes.Node) -> str | None:
    match node:
        case nodes.For() if node.recursive:
            return "'recursive' cannot be used in instructions"
        case nodes.For():
            targets = node.target.items if isinstance(node.target, nodes.Tuple) else [node.target]
            return None if all(isinstance(one, nodes.Name) for one in targets) else "{% for %} gives values to names"
        case nodes.Assign():
            return None if isinstance(node.target, nodes.Name) else "{% set %} gives a value to one name"
        case nodes.Getattr() if not isinstance(node.node, nodes.Name) or node.node.name != "loop":
            return f"reading '.{node.attr[:40]}' of a value is unsafe"
        case nodes.Test():
            return None if node.name in _TESTS else f"there is no test '{node.name[:40]}' here"
        case nodes.Filter():
            return None if node.name in _FILTERS and node.node else f"there is no filter '{node.name[:40]}' here"
        case _:
            return None


def _wrong_with_call(node: nodes.Call) -> str | None:
    if isinstance(node.node, nodes.Getattr):
        return f"calling '.{node.node.attr[:40]}' of a value is unsafe"
    if _called(node) == _RANGE:
        return None if 1 <= len(node.args) <= 3 else "range() takes one to three whole numbers"
    return None if _called(node) == _FILE else "only file() and range() can be called in instructions"


def _walk(tree: nodes.Node) -> Iterator[tuple[nodes.Node, int]]:
    """Every node with its depth, from the top down; never by recursion, as the text may be nested at will."""
    pending = [(tree, 0)]
    while pending:
        node, depth = pending.pop()
        yield node, depth
        # A function is not a value: its name is no part that is looked at on its own.
        parts = node.iter_child_nodes(exclude=("node",) if isinstance(node, nodes.Call) else None)
        pending += [(part, depth + 1) for part in reversed(list(parts))]


def render(tree: nodes.Template, read: Callable[[Inclusion], str]) -> str:
    """Return the text that the template makes; `read` gives the text of an included file. Raises TemplateMistake.

    The tree is the only one of its text that may be rendered: it is rewritten.
    """
    sandbox = _Sandbox(read)
    try:
        template = sandbox.from_string(cast("nodes.Template", _Pricing().visit(tree)))
    except (SyntaxError, RecursionError, MemoryError) as error:  # of Python, which nests 20 loops at most
        loops = [(depth, node.lineno) for node, depth in _walk(tree) if isinstance(node, nodes.For)]
        raise TemplateMistake("it is nested too deeply", max(loops, default=(0, None))[1]) from error
    try:
        return "".join(template.root_render_func(template.new_context()))
    except TemplateMistake as mistake:
        mistake.line = mistake.line or _line_of(mistake, template)
        raise
    except Exception as error:
        raise TemplateMistake(str(error)[:300], _line_of(error, template)) from error


def _line_of(error: Exception, template: Template) -> int | None:
    """Return the line of the template that was rendered last."""
    lines = [line for frame, line in walk_tb(error.__traceback__) if "__jinja_template__" in frame.f_globals]
    return template.get_corresponding_lineno(lines[-1]) if lines else None


class _Pricing(NodeTransformer):
    """Rewriter of a checked tree: every call becomes a filter of the sandbox, and every block has its price."""

    def visit_Template(self, node: Any) -> nodes.Node:  # noqa: N802 - Jinja2's names of nodes
        """Put its price before each block of statements."""
        for block in (node.body, getattr(node, "else_", [])):
            if block or block is node.body:
                line = block[0].lineno if block else node.lineno
                block.insert(0, nodes.ExprStmt(_price_of(block, line), lineno=line))
        return self.generic_visit(node)

    visit_If = visit_Template  # noqa: N815

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802
        """Bound what is looped over, and price each look at an item that is left out."""
        node.iter = _filter(node.iter, " items")
        if node.test is not None:
            node.test = nodes.Or(_price_of([node.test], node.test.lineno), node.test, lineno=node.test.lineno)
        return self.visit_Template(node)

    def visit_Assign(self, node: nodes.Assign) -> nodes.Node:  # noqa: N802
        """Give no name to what is undefined."""
        node.node = _filter(node.node, " defined")
        return self.generic_visit(node)

    def visit_Include(self, node: nodes.Include) -> nodes.Node:  # noqa: N802
        """Write the text of a file without its last line end."""
        return nodes.Output([_filter(_constant(_inclusion(node), node), " include")], lineno=node.lineno)

    def visit_Call(self, node: nodes.Call) -> nodes.Node:  # noqa: N802
        """Make a filter of a function, so that nothing is ever called that a template names."""
        if _called(node) == _FILE:
            return _filter(_constant(_inclusion(node), node), " file")
        return self.generic_visit(_filter(nodes.List(node.args, lineno=node.lineno), " range"))

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802
        """Make a priced `join` of `~`."""
        return self.generic_visit(_filter(nodes.List(node.nodes, lineno=node.lineno), "join"))

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:  # noqa: N802
        """Price the values that are compared."""
        node.expr = _filter(node.expr, " weighed")
        for operand in node.ops:
            operand.expr = _filter(operand.expr, " weighed")
        return self.generic_visit(node)

    def visit_CondExpr(self, node: nodes.CondExpr) -> nodes.Node:  # noqa: N802
        """Let a condition without `else` be an empty text."""
        node.expr2 = node.expr2 or nodes.Const("", lineno=node.lineno)
        return self.generic_visit(node)

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Node:  # noqa: N802
        """Make a list of what stands in parentheses."""
        return self.generic_visit(node if node.ctx != "load" else nodes.List(node.items, lineno=node.lineno))


def _price_of(block: Sequence[nodes.Node], line: int) -> nodes.Filter:
    """Return the payment for a block, without the blocks in it: a step for each node, and the characters written."""
    steps, written, pending = 1, 0, list(block)
    while pending:
        node = pending.pop()
        steps += 1
        written += len(node.data) if isinstance(node, nodes.TemplateData) else 0
        pending += node.iter_child_nodes(exclude=("body", "else_"))
    return _filter(nodes.Const((steps, written), lineno=line), " pay")


def _filter(node: Any, name: str) -> nodes.Filter:
    return nodes.Filter(node, name, [], [], None, None, lineno=node.lineno)


def _constant(inclusion: Inclusion, node: nodes.Node) -> nodes.Const:
    return nodes.Const((inclusion.names, inclusion.line, inclusion.optional), lineno=node.lineno)


class _Sandbox(ImmutableSandboxedEnvironment):
    """Environment of one rendering, which counts its steps and characters.

    Values are texts, numbers, truth values, None, ranges, and lists and mappings of these; no attribute of them is
    looked up, and nothing can be called.
    """

    intercepted_binops = frozenset({"+", "-", "*", "/", "//", "%", "**"})
    intercepted_unops = frozenset({"+", "-"})

    def __init__(self, read: Callable[[Inclusion], str]) -> None:
        # `finalize` takes the context, and nothing is optimised: so nothing is computed while a template is compiled.
        super().__init__(optimized=False, undefined=StrictUndefined, finalize=self.written)
        self._read, self._steps, self._work, self._length = read, MAX_STEPS, MAX_WORK, 0
        self.globals.clear()
        self.tests = dict(_TESTS)
        own: dict[str, Callable[..., Any]] = {
            " pay": self._pay_block,
            " items": self.items,
            " defined": _defined,
            " weighed": self.weighed,
            " include": self._included_by_tag,
            " file": self._included,
            " range": self._range,
        }
        self.filters = own | {name: self._guarded(name, function) for name, function in _FILTERS.items()}

    def _guarded(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def filtered(value: Any, *given: Any) -> Any:
            if isinstance(value, Undefined) and function is not _default:
                return value
            try:
                return function(self, value, *given)
            except TypeError as error:
                raise TemplateMistake(f"the filter '{name}' does not take these arguments") from error

        return filtered

    def pay(self, work: int = 0, *, steps: int = 0, written: int = 0) -> None:
        """Pay for characters before they are made, for steps, and for characters of the result.

        Raises TemplateMistake where they are too many.
        """
        self._steps -= steps
        self._work -= work
        self._length += written
        if self._steps < 0 or self._work < 0:
            too_much = "the template does too much: instructions are rendered within a bound of steps and size"
            raise TemplateMistake(too_much, None, None)
        if self._length > MAX_INSTRUCTIONS_CHARS:
            raise TemplateMistake(f"the instructions are longer than {MAX_INSTRUCTIONS_CHARS} characters", None, None)

    def _pay_block(self, price: tuple[int, int]) -> None:
        self.pay(steps=price[0], written=price[1])

    def weighed(self, value: Any) -> Any:
        """Return the value once all that is in it is paid for, however its lists hang together."""
        pending = [value]
        while pending:
            one = _defined(pending.pop())
            if isinstance(one, str | range):
                self.pay(len(one) + 1)
            elif isinstance(one, dict | list):
                inner = cast("dict[Any, Any] | list[Any]", one)
                pending += [*inner, *inner.values()] if isinstance(inner, dict) else inner
                self.pay(20)
            elif one is None or isinstance(one, int | float):
                self.pay(20)
            else:
                raise TemplateMistake("this is no text, number or list")
        return value

    @pass_context
    def written(self, context: Any, value: Any) -> str:
        """Return the value as it is written into the instructions."""
        del context
        text = self.text(value)
        self.pay(written=len(text))
        return text

    def text(self, value: Any) -> str:
        """Return the value as text."""
        return value if isinstance(value, str) else str(self.weighed(value))

    def items(self, value: Any) -> Any:
        """Return the items that a loop goes through. Raises TemplateMistake for a value that is no list."""
        if not isinstance(_defined(value), list | dict | range | str):
            raise TemplateMistake("this needs a list")
        self.pay(len(value))
        return list(cast("dict[Any, Any]", value)) if isinstance(value, dict) else value

    def getattr(self, obj: Any, attribute: str) -> Any:
        """Return what is known of a loop."""
        return self.getitem(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        """Return `obj[argument]`, or something undefined."""
        if isinstance(obj, Undefined):
            return obj
        if not isinstance(argument, str | int | float | None):
            raise TemplateMistake("a key is a text or a number")
        self.pay(len(argument) if isinstance(argument, str) else 0)
        if isinstance(obj, dict):
            pairs = cast("dict[Any, Any]", obj)
            if argument in pairs:
                return pairs[argument]
        elif isinstance(obj, list | range | str):
            items = cast("Sequence[Any]", obj)
            if type(argument) is int and -len(items) <= argument < len(items):
                return items[argument]
        elif isinstance(obj, LoopContext) and argument in _LOOP:
            return getattr(obj, str(argument))
        return self.undefined(f"there is no '{str(argument)[:80]}' in that value")

    def call_unop(self, context: Any, operator: str, arg: Any) -> Any:
        """Return a number with a sign."""
        if isinstance(arg, Undefined):
            return arg
        return -_number(arg) if operator == "-" else _number(arg)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Return the result of an operator: of numbers, of two texts that are put together, of a text repeated."""
        for one in (left, right):
            if isinstance(one, Undefined):
                return one
        if operator == "*" and isinstance(left, str) != isinstance(right, str):
            text, times = (left, right) if isinstance(left, str) else (right, left)
            self.pay(len(text) * max(int(_number(times)), 0))
            return text * times
        if operator == "+" and isinstance(left, str) and isinstance(right, str):
            self.pay(len(left) + len(right))
            return left + right
        result = super().call_binop(context, operator, _number(left), _number(right))
        if not isfinite(result):
            raise TemplateMistake(_INFINITE)
        return result

    def _included_by_tag(self, given: tuple[tuple[str, ...], int, bool]) -> str:
        return self._included(given).removesuffix("\n")

    def _included(self, given: tuple[tuple[str, ...], int, bool]) -> str:
        text = self._read(Inclusion(*given))
        self.pay(len(text))
        return text

    def _range(self, numbers: list[Any]) -> range:
        if not all(type(_defined(one)) is int for one in numbers):
            raise TemplateMistake("range() takes one to three whole numbers")
        made = range(*numbers)
        if any(abs(one) > LARGEST_NUMBER for one in numbers) or len(made) > MAX_STEPS:
            raise TemplateMistake(f"Range too big: at most {MAX_STEPS} numbers", None, None)
        return made


def _defined(value: Any) -> Any:
    """Return the value. Raises UndefinedError for a missing name or key."""
    if isinstance(value, Undefined):
        str(value)
    return value


def _number(value: Any) -> int | float:
    """Return the value as a number of a sensible size. Raises TemplateMistake for any other value."""
    number = _defined(value)
    if not isinstance(number, int | float) or (isinstance(number, int) and abs(number) > LARGEST_NUMBER):
        raise TemplateMistake("an operator is used on what is no number, or on one that is too large")
    return number


def _changing(change: Callable[[str], str]) -> Callable[[_Sandbox, Any], str]:
    def changed(sandbox: _Sandbox, value: Any) -> str:
        text = sandbox.text(value)
        sandbox.pay(3 * len(text))
        return change(text)

    return changed


def _end(where: int) -> Callable[[_Sandbox, Any], Any]:
    def end(sandbox: _Sandbox, value: Any) -> Any:
        items = sandbox.items(value)
        return items[where] if items else sandbox.undefined("an empty list has no first and no last item")

    return end


def _default(_: _Sandbox, value: Any, default_value: Any = "", boolean: Any = False) -> Any:
    is_missing = isinstance(value, Undefined) or (boolean and not value)
    return default_value if is_missing else value


def _count(_: _Sandbox, value: Any) -> int:
    if not isinstance(value, list | dict | range | str):
        raise TemplateMistake("only a text or a list has a length")
    return len(cast("Sequence[Any]", value))


def _indent(sandbox: _Sandbox, value: Any, width: Any = 4, first: Any = False, blank: Any = False) -> str:
    if type(width) is not int or not 0 <= width <= _WIDEST_INDENT or not isinstance(value, str):
        raise TemplateMistake(f"indent takes a text and a number of at most {_WIDEST_INDENT}")
    head, *rest = value.split("\n")
    sandbox.pay(len(value) + (len(rest) + 1) * (width + 1))
    space = " " * width
    return "\n".join([space * bool(first) + head, *(space * bool(line or blank) + line for line in rest)])


def _join(sandbox: _Sandbox, value: Any, d: Any = "") -> str:
    items, between = sandbox.items(value), sandbox.text(d)
    sandbox.pay(len(between) * len(items))
    parts = [sandbox.text(item) for item in items]
    sandbox.pay(sum(map(len, parts)))
    return between.join(parts)


def _replace(sandbox: _Sandbox, value: Any, old: Any, new: Any) -> str:
    if not (isinstance(value, str) and isinstance(old, str) and isinstance(new, str)):
        raise TemplateMistake("replace takes texts")
    sandbox.pay(len(value))
    sandbox.pay(len(value) + value.count(old) * len(new))
    return value.replace(old, new)


_FILTERS: Mapping[str, Callable[..., Any]] = {
    "capitalize": _changing(str.capitalize),
    "count": _count,
    "d": _default,
    "default": _default,
    "first": _end(0),
    "indent": _indent,
    "join": _join,
    "last": _end(-1),
    "length": _count,
    "lower": _changing(str.lower),
    "replace": _replace,
    "trim": _changing(str.strip),
    "upper": _changing(str.upper),
}
_TESTS: Mapping[str, Callable[[Any], bool]] = {
    "defined": lambda value: not isinstance(value, Undefined),
    "undefined": lambda value: isinstance(value, Undefined),
    "none": lambda value: _defined(value) is None,
    "string": lambda value: isinstance(_defined(value), str),
    "number": lambda value: isinstance(_defined(value), int | float),
    "even": lambda value: _number(value) % 2 == 0,
    "odd": lambda value: _number(value) % 2 == 1,
}
