"""Groups of equal calls: questions that a person can decide together, with what tells them apart.

Calls are of one group where tool, capabilities and shape are the same: names and types of the arguments, and also the
folder and suffix of a file, the program, subcommand and options of a command, the callee of a delegation, the code of a
tool. Where it is not sure that two calls are alike they are of two groups. A run puts the group of each question into
its memo, so that no list has to read a history. Versioned: groups of two versions are never the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, cast

from pydantic import ConfigDict, Field

from llm_do_temporal.policy.files.sandbox import Tree
from llm_do_temporal.policy.identity import digest_of, real_place
from llm_do_temporal.policy.programs import MODES, names_program, runs_script
from llm_do_temporal.policy.values import LIMIT, REPEAT, CapabilityUse, Value, canonical

GROUP_VERSION = 4
KEY_DIGITS = 32
"""Digits of a digest that says whether two things are one: 128 bits."""
TITLE_CHARS = 120
"""Longest title of a group."""
CELL_CHARS = 80
"""Longest value that is shown whole; of a longer one its beginning, its length and its digest."""
CELLS_CHARS = 400
"""Most characters of all values of a call together: 20 questions share a run's memo, which is written with each."""
_BEGIN_CHARS = 20
_SHORTENED = re.compile(r"\([\d,]+ characters, [0-9a-f]+\)\Z")
"""End of a shortened value. A short value that ends like this is shortened, too: it could pass for a longer one."""
_NAME_CHARS = 40
_MOST_DEPTH = 3
"""Levels of nested arguments whose names and types are told apart."""
_SUBCOMMAND = re.compile(r"[a-z][a-z0-9]*([-:][a-z0-9]+)*")
_DEPTHS = {
    **dict.fromkeys(("aws", "docker", "gh", "ip", "kubectl", "npm", "pnpm", "rc-service", "service", "uv", "yarn"), 2),
    **dict.fromkeys(("az", "gcloud"), 3),
}
"""Number of words that name a subcommand, for programs where it is more than one."""
_DEEPER = frozenset(
    (
        *("annex", "bisect", "bundle", "commit-graph", "compose", "config", "container", "context", "image"),
        *("imagetools", "key", "lfs", "maintenance", "manifest", "module", "network", "node", "notes", "package"),
        *("plugin", "pool", "profile", "provider", "providers", "queue", "reflog", "remote", "repo", "rerere"),
        *("secret", "sparse-checkout", "stack", "stash", "state", "submodule", "subtree", "system", "token"),
        *("toolchain", "trust", "user", "volume", "workspace", "worktree"),
    )
)
"""Subcommands of whatever program behind which another one follows: `git stash drop`, `terraform state rm`."""
_SCRIPT_TOOLS = frozenset(("npm", "pnpm", "yarn"))
"""Programs that run what their configuration has by a name, which counts as a subcommand."""
_WHOLE = frozenset(
    (
        *("bash", "bc", "bun", "dash", "dc", "duckdb", "ed", "ex", "find", "fish", "gnuplot", "ksh", "mariadb"),
        *("mongo", "mongosh", "mysql", "psql", "redis-cli", "sh", "sqlite3", "ssh", "zsh"),
    )
)
"""Programs whose words are commands or code, beside those that run others: of these only the same words are alike."""


class CallGroup(Value):
    """Group of a call, and the values that tell it from the others of the group."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    key: str
    """32 hexadecimal digits that all calls of the group share."""
    title: str
    """Words for people about all calls of the group."""
    cells: dict[str, str] = Field(default_factory=dict)
    """Arguments in short, by name; as far as there is room."""
    is_whole: bool = True
    """Whether `cells` has every argument, and each one whole."""
    left_out: int = Field(default=0, exclude_if=lambda count: not count)
    """Number of arguments that `cells` has no room for."""


def group_of(tool: str, args: Mapping[str, Any], uses: Sequence[CapabilityUse], tree: Tree) -> CallGroup:
    """Return the group of a call of `tool` that makes these uses, by a worker with these files."""
    names = sorted({use.name for use in uses})
    likeness = [_likeness(use, tree) for use in uses]
    key = digest_of([GROUP_VERSION, tool, names, _shape(args), likeness])[:KEY_DIGITS]
    cells = _cells(args)
    is_whole = cells == {name: _text(value) for name, value in args.items()}
    title, left_out = _title(tool, uses)[:TITLE_CHARS], len(args) - len(cells)
    return CallGroup(key=key, title=title, cells=cells, is_whole=is_whole, left_out=left_out)


def command_shape(argv: Sequence[str]) -> list[str]:
    """Return the words that equal commands share: program, subcommand, and the names of all options, sorted.

    All words, where one may be a program that is run, or where a word behind an option may be the subcommand.
    """
    program, rest = PurePosixPath(argv[0]).name, list(argv[1:])
    is_script = program in _SCRIPT_TOOLS and rest[:1] == ["run"]
    if program in _WHOLE or (names_program(argv) and not is_script):
        return [*argv]
    options = {word.partition("=")[0] for word in rest if word.startswith("-") and len(word) > 1}
    # `git push a :b` deletes, `git push a +b` forces.
    options |= {word for word in rest if word.startswith((":", "+"))}
    if runs_script(argv[0]) or program in MODES:
        is_unclear = bool(rest) and rest[0].startswith("-")
        return [*argv] if is_unclear else [argv[0], *rest[:1], *sorted(options)]
    words: list[str] = []
    depth = _DEPTHS.get(program, 1)
    for at, word in enumerate(rest):
        if len(words) == depth:
            break
        if _SUBCOMMAND.fullmatch(word) is None:
            is_unclear = word.startswith("-") and any(map(_SUBCOMMAND.fullmatch, rest[at:]))
            return [*argv] if is_unclear else [argv[0], *words, *sorted(options)]
        words.append(word)
        depth += len(words) == depth and word in _DEEPER
    return [argv[0], *words, *sorted(options)]


def _likeness(use: CapabilityUse, tree: Tree) -> list[Any]:
    """Return what one use of a capability has to share with that of another call."""
    payload = use.payload
    path, argv = payload.get("path"), _argv(use)
    place: list[Any] = []
    if isinstance(path, str):
        real = real_place(tree, path)
        whole = PurePosixPath(path if real is None else real)
        place = [real is not None, str(whole.parent), whole.suffix]
    command = [real_place(tree, payload.get("cwd")), *command_shape(argv)] if argv else []
    rest = [payload.get(name) for name in ("worker", "target_worker", "tool", "toolset", "sha256", "of")]
    return [use.name, place, command, [one if isinstance(one, str) else None for one in rest]]


def _argv(use: CapabilityUse) -> list[str]:
    argv = use.payload.get("argv")
    if not isinstance(argv, list | tuple):
        return []
    return [str(word) for word in cast("Sequence[object]", argv)]


def _shape(value: object, depth: int = 0) -> Any:
    """Return the names and types in a JSON value."""
    if isinstance(value, Mapping):
        named = cast("Mapping[str, object]", value)
        return "object" if depth == _MOST_DEPTH else {name: _shape(one, depth + 1) for name, one in named.items()}
    if isinstance(value, list | tuple):
        if depth == _MOST_DEPTH:
            return "list"
        shapes = [_shape(one, depth + 1) for one in cast("Sequence[object]", value)]
        return ["list", *sorted({canonical(shape) for shape in shapes})]
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    return "null" if value is None else "text"


def _cells(args: Mapping[str, Any]) -> dict[str, str]:
    """Return the arguments in short, by name: as many as there is room for, the shortest first."""
    texts = {name: _short(_text(value)) for name, value in args.items() if len(name) <= _NAME_CHARS}
    kept: set[str] = set()
    room = CELLS_CHARS
    for name in sorted(texts, key=lambda one: (len(texts[one]), one)):
        room -= len(name) + len(texts[name])
        if room < 0:
            break
        kept.add(name)
    return {name: text for name, text in texts.items() if name in kept}


def _short(text: str) -> str:
    """Return a value as a table has it: two values that differ do not look the same."""
    if len(text) <= CELL_CHARS and _SHORTENED.search(text) is None:
        return text
    return f"{text[:_BEGIN_CHARS]}… ({len(text):,} characters, {digest_of(text)[:KEY_DIGITS]})"


def _text(value: object) -> str:
    return value if isinstance(value, str) else canonical(value)


def _title(tool: str, uses: Sequence[CapabilityUse]) -> str:
    names = {use.name for use in uses}
    if LIMIT in names:
        return "go over a limit"
    repeat = "may have happened: " if REPEAT in names else ""
    for use in uses:
        path, target = use.payload.get("path"), use.payload.get("target_worker")
        if argv := _argv(use):
            return f"{repeat}{tool} {' '.join(command_shape(argv))}"
        if isinstance(path, str):
            whole = PurePosixPath(path)
            what = f"*{whole.suffix} in {whole.parent}"
            return f"{repeat}share {what} with {target}" if isinstance(target, str) else f"{repeat}{tool} {what}"
        if isinstance(callee := use.payload.get("worker"), str):
            return f"{repeat}call {callee}"
    return f"{repeat}{tool}"
