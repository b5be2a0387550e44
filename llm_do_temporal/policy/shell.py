"""Commands that a model may run: the text of a command taken apart, and the first rule that fits it.

No shell ever sees a command. It is split into arguments as a POSIX shell would split it, and everything that only a
shell could carry out is refused, quoted or not: programs such as `make` and `npm` hand their arguments to shells of
their own. The acts of a running program are bounded by its isolation, not by these rules.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Annotated

from pydantic import AfterValidator, Field

from llm_do_temporal.errors import ApprovalRefusal, SandboxRefusal, ShellRefusal
from llm_do_temporal.policy.files.sandbox import Tree, describe_roots, normalise
from llm_do_temporal.policy.programs import restrains
from llm_do_temporal.policy.values import Capability, CapabilityUse, Value

LISTED = "proc.exec"
UNLISTED = "proc.exec.unlisted"
WITHOUT_ISOLATION = "it would run without isolation, which does not work on this machine"
"""End of the circumstances of a command that nothing would confine to its files."""
MAX_COMMAND_CHARS = 32_000
"""Longest command: well below the size that an operating system takes as a single argument."""

_REFUSED = {
    "$(": "command substitution",
    "`": "command substitution",
    "$": "a variable",
    ";": "a second command",
    "|": "a pipe",
    "&": "a background or second command",
    "<": "a redirection",
    ">": "a redirection",
    "\n": "a second command",
    "\r": "a second command",
    "\0": "nothing a program can be given",
}
_NAMES = {"\n": "a line break", "\r": "a carriage return", "\0": "a NUL character"}
_FIXED = (
    " Commands cannot change files that define workers, Python of the workshop or .git, nor add to a folder that holds "
    "any; they write freely elsewhere."
)
_PIECES = re.compile(r"([=:,@])")
"""Signs between a word and a path in a single argument: `--out=/x`, `if=/x`, `host:/x`, `@/x`."""
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)
_WILDCARD = re.compile(r"[*?\[]")
_WILDCARD_END = re.compile(r"[*?\]]")
_LEADS = ("-", "+", "@")
_GLUED = re.compile(r"-[^/.=:,@]*")
"""Option with the letters glued to it, up to where a path may begin: `-I` of `-I/x` and `-I../x`."""
_UP = re.compile(r"\.\.(?=[/=:,@]|\Z)")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _checked_pattern(pattern: str) -> str:
    try:
        tokens = shlex.split(pattern)
    except ValueError as error:
        raise ValueError(f"pattern '{pattern}' cannot be split into words: {error}") from error
    if not tokens:
        raise ValueError("a pattern is a command's first words, like 'git status'")
    return pattern


def _checked_paths(paths: tuple[str, ...] | None) -> tuple[str, ...] | None:
    for path in paths or ():
        if not path.startswith("/") or normalise_or_none(path) is None:
            raise ValueError(f"a path of the worker's file tree starts with '/' and has no '..'; got '{path}'")
    return None if paths is None else tuple(normalise(path) for path in paths)


def _checked_variables(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if not _VARIABLE.fullmatch(name):
            raise ValueError(f"'{name}' is not the name of a variable")
        if _SECRET.search(name):
            raise ValueError(f"'{name}' looks like a secret; commands are never given keys")
    return names


class ShellRule(Value):
    """Entry of `shell: rules:`."""

    pattern: Annotated[str, AfterValidator(_checked_pattern)]
    """First words of a command; each may be a glob, which fits no option and nothing outside the files."""
    approval_required: bool = True
    blocked: bool = False
    sandbox_paths: Annotated[tuple[str, ...] | None, AfterValidator(_checked_paths)] = None
    """Virtual folders that a command of this rule is confined to; None: all files of the worker."""


class ShellDefault(Value):
    """`shell: default:`, for a command that no rule fits."""

    approval_required: bool = True
    """Whether such a command asks a person."""
    blocked: bool = False
    """Whether such a command is refused."""


class ShellPolicy(Value):
    """`shell:` of a worker's toolsets."""

    rules: tuple[ShellRule, ...] = ()
    default: ShellDefault | None = None
    network: bool = False
    """Whether commands reach the network; only isolation can keep them from it."""
    capabilities: tuple[Capability, ...] = Field(default=(), exclude_if=lambda given: not given)
    """Capabilities of every command besides `proc.exec` or `proc.exec.unlisted`."""


class Isolation(StrEnum):
    """Treatment of commands on machines that cannot isolate them."""

    REQUIRED = "required"
    PREFERRED = "preferred"


class ShellSettings(Value):
    """`shell:` of `workshop.yaml`."""

    isolation: Isolation = Isolation.PREFERRED
    """Whether commands run without isolation where none works: `required` never does."""
    env: Annotated[tuple[str, ...], AfterValidator(_checked_variables)] = ()
    """Names of variables of the worker service that commands see."""


class JudgedCommand(Value):
    """Command that may run, as far as its text goes."""

    argv: tuple[str, ...] = Field(min_length=1)
    """Program and arguments; absolute paths that were judged are written relative to the working directory."""
    cwd: str
    """Working directory, as a virtual path."""
    sandbox_paths: tuple[str, ...] | None = None
    spelled: int = 1
    """Number of first words that the rule spells out; the others are the model's."""
    use: CapabilityUse
    more: tuple[CapabilityUse, ...] = ()
    """Further capabilities of the command."""

    @property
    def line(self) -> str:
        """The command as one line."""
        return shlex.join(self.argv)


def judge_command(policy: ShellPolicy, tree: Tree, command: str) -> JudgedCommand:
    """Judge `command` for a worker with this policy and these files.

    Raises ShellRefusal for text that is no plain command, ApprovalRefusal for a command that a rule
    blocks, SandboxRefusal for a worker without files and for a path outside the rule's `sandbox_paths`.
    """
    argv, cwd = split_command(command), working_directory(tree)
    name, sandbox_paths, spelled = LISTED, None, 1
    rule, asks = _ruling(policy.rules, argv)
    needs: bool | None
    if rule is not None:
        if rule.blocked:
            raise ApprovalRefusal(f"'shell' is blocked: the worker's rule '{rule.pattern}' does not allow this command")
        needs, sandbox_paths, spelled = asks or rule.approval_required, rule.sandbox_paths, _spelled(rule.pattern)
        if sandbox_paths is not None:
            # A program that the rule spells out is the author's choice; one that a glob let in is a path.
            first = int(argv[0] == shlex.split(rule.pattern)[0])
            argv = (*argv[:first], *(_judged_argument(rule, argument, cwd) for argument in argv[first:]))
    elif policy.default is None:
        name, needs = UNLISTED, True if asks else None
    elif policy.default.blocked:
        raise ApprovalRefusal("'shell' is blocked: no rule of the worker allows this command")
    else:
        needs = asks or policy.default.approval_required
    payload = {"argv": list(argv), "cwd": cwd}
    return JudgedCommand(
        argv=argv,
        cwd=cwd,
        sandbox_paths=sandbox_paths,
        spelled=spelled,
        use=CapabilityUse(name=name, payload=payload, asks=needs),
        more=tuple(
            CapabilityUse(name=one, payload=payload) for one in dict.fromkeys(policy.capabilities) if one != name
        ),
    )


def split_command(command: str) -> tuple[str, ...]:
    """Return the program and its arguments. Raises ShellRefusal for everything that only a shell could carry out."""
    found = next((mark for mark in _REFUSED if mark in command), None)
    if found is not None:
        raise ShellRefusal(
            f"the command contains {_NAMES.get(found, repr(found))} ({_REFUSED[found]}); there is no shell, and such "
            "characters are refused even in quotes",
            next_step="Run one program with plain arguments; use one call a command.",
        )
    if any("\ud800" <= char <= "\udfff" for char in command):
        raise ShellRefusal("the command contains half a character (a lone surrogate)")
    try:
        argv = tuple(shlex.split(command))
    except ValueError as error:
        raise ShellRefusal(f"the command cannot be split into words: {str(error).lower()}") from error
    if not argv or not argv[0]:
        raise ShellRefusal("the command is empty; it begins with the name of a program")
    return argv


def matches(pattern: str, argv: Sequence[str], *, strict: bool = True, bounded: bool = False) -> bool:
    """Return whether the command's first words are those of the pattern, of which each may be a glob.

    A wildcard stands for a name, or for a part of it. The text that it stands for, and each piece of that text after
    one of `= : , @` or after an option's letters, begins with no `-`, `+` or `@`, has no part `..`, and is not absolute
    unless paths are judged afterwards (`bounded`). Words that the pattern itself spells out may be all of these.
    Without `strict` a wildcard stands for anything, as befits a rule that forbids.
    """
    tokens = shlex.split(pattern)
    return len(argv) >= len(tokens) and all(
        fnmatchcase(word, token) and not (strict and _strays(word, token, bounded=bounded))
        for word, token in zip(argv, tokens, strict=False)
    )


def working_directory(tree: Tree) -> str:
    """Return the folder in which commands run: the only one of the tree, or `/` above several.

    Raises SandboxRefusal for a tree without files.
    """
    if not tree.mounts:
        raise SandboxRefusal(
            "commands cannot run here: this worker has no file access",
            next_step="Add `sandbox: {root: .}` to workshop.yaml to give its workers files.",
        )
    return tree.mounts[0].at if len(tree.mounts) == 1 else "/"


def lies_in(path: str, folders: Sequence[str]) -> bool:
    """Return whether the normalised virtual path is one of the folders or below one."""
    return any(PurePosixPath(path).is_relative_to(folder) for folder in folders)


def normalise_or_none(path: str) -> str | None:
    """Return `path` normalised, or None for a path that no file can have."""
    try:
        return normalise(path)
    except SandboxRefusal:
        return None


def describe_policy(policy: ShellPolicy, tree: Tree) -> str:
    """Return the description for a model of the commands it may run."""
    allowed = [repr(rule.pattern) for rule in policy.rules if not rule.blocked]
    known = f"Commands that begin like one of these are known: {', '.join(allowed)}. " if allowed else ""
    others = "" if policy.default is not None and not policy.default.blocked else "Others are normally refused. "
    where = f"Your files: {describe_roots(tree)}." if tree.mounts else "You have no files, so no command runs."
    fixed = _FIXED if any(not mount.readonly for mount in tree.mounts) else ""
    return f"{known}{others}{where}{fixed}"


def _ruling(rules: Sequence[ShellRule], argv: Sequence[str]) -> tuple[ShellRule | None, bool]:
    """Return the rule that decides, or None, and whether a person is asked in any case.

    Where a wildcard would have to take an option, a rule allows nothing; but it blocks all the commands it would block,
    and a command about which it would have asked is not free because a later rule is wider. What a rule blocks or asks
    about is the same in any spelling.
    """
    asks = False
    for rule in rules:
        is_spelled = matches(rule.pattern, argv, strict=False)
        restraining = rule.blocked or rule.approval_required
        if not (is_spelled or (restraining and restrains(shlex.split(rule.pattern), argv))):
            continue
        if rule.blocked or matches(rule.pattern, argv, bounded=rule.sandbox_paths is not None):
            return rule, asks
        asks = asks or rule.approval_required
    return None, asks


def _strays(word: str, token: str, *, bounded: bool) -> bool:
    """Return whether a word that the glob `token` fits is more than a name."""
    first = _WILDCARD.search(token)
    if word == token or first is None:
        return False
    # What the wildcards stand for, with all that lies between the first and the last.
    start, end = first.start(), len(word) - len(_WILDCARD_END.split(token)[-1])
    begins = {0, *(mark.end() for mark in _PIECES.finditer(word))}
    leads = {*begins, 1} if word.startswith(_LEADS) else set(begins)
    if glued := _GLUED.match(word):
        begins.add(glued.end())
    ups = begins | {slash.end() for slash in re.finditer("/", word)}
    return (
        any(start <= at <= end and word.startswith(_LEADS, at) for at in leads)
        or any(start < at + 2 and at < end and _UP.match(word, at) for at in ups)
        or (not bounded and any(start <= at <= end and word.startswith("/", at) for at in begins))
    )


def _spelled(pattern: str) -> int:
    """Return how many of a pattern's first words have no wildcard, at least 1: the program always counts."""
    tokens = shlex.split(pattern)
    first = next((number for number, token in enumerate(tokens) if _WILDCARD.search(token)), len(tokens))
    return max(first, 1)


def _judged_argument(rule: ShellRule, argument: str, cwd: str) -> str:
    if argument in (".", "..") or "/" in argument:
        return "".join(
            _judged_piece(rule, piece, cwd) if piece in (".", "..") or "/" in piece else piece
            for piece in _PIECES.split(argument)
        )
    return argument


def _judged_piece(rule: ShellRule, piece: str, cwd: str) -> str:
    allowed = rule.sandbox_paths or ()
    if piece.startswith("-"):
        raise SandboxRefusal(
            f"'{piece}' hides a path in an option",
            next_step="Write the path as an argument of its own, or as --option=path.",
        )
    path = normalise(piece)
    if not piece.startswith("/"):
        path = normalise(cwd + path)
    if not lies_in(path, allowed):
        raise SandboxRefusal(
            f"'{piece}' is outside the paths that the rule '{rule.pattern}' allows: {', '.join(allowed) or 'none'}"
        )
    if not piece.startswith("/"):
        return piece
    if not lies_in(path, (cwd,)):
        raise SandboxRefusal(f"'{piece}' is outside the working directory '{cwd}'")
    return f"./{PurePosixPath(path).relative_to(cwd)}"
