"""What a program may read as a path among its arguments, where nothing but its arguments can be bounded.

Owns the one rule for commands that run without isolation: **every argument that is no plain option is a path**,
whether it exists or not. Called by the shell activity, which knows whether a command will be isolated, and which
looks at where the paths really lead. Must not look at files.

A plain option is one of

- `-x`: a hyphen and one letter, digit or `?`;
- `-10`: a hyphen and digits;
- `--word`, `--two-words`: two hyphens and letters, digits and inner hyphens;
- `-` and the first `--`; after that one there are no options.

Everything else is judged in every way in which a program could take it apart: as a whole (of `--word=x` only `x`), at
each of the marks that may stand before a path (`if=x`, `host:x`, `@x`, `a,b`, quotes, brackets, blanks), and, for what
begins with a hyphen, at every letter from the second on (`-ft.`, `-uo.env`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from llm_do_temporal.errors import SandboxRefusal

_PLAIN_OPTION = re.compile(r"-|-[A-Za-z?]|-[0-9]+|--[A-Za-z0-9]+(?:-[A-Za-z0-9]+)*", re.ASCII)
_VALUED_OPTION = re.compile(r"--[A-Za-z0-9]+(?:-[A-Za-z0-9]+)*=(?P<value>.*)", re.ASCII | re.DOTALL)
_MARKS = re.compile(r"[\s=:,@\"'(){}\[\]+%#!?*^\\]+")
_MAX_GLUED_CHARS = 512
"""Every end of a glued option is judged; longer ones are no options that anybody writes."""


def check_arguments(argv: Sequence[str], cwd: str, allowed: Sequence[str], *, spelled: int = 1) -> list[str]:
    """Every virtual path that the arguments may name, all of them inside `allowed` as far as text can tell.

    `argv` has absolute virtual paths written relative to `cwd` already, so an absolute one that is left would be one
    of the host. The first `spelled` words are the author's and are not looked at. Raises SandboxRefusal.
    """
    found: list[str] = []
    options = True
    for word in argv[spelled:]:
        if options and word == "--":
            options = False
            continue
        if options and _PLAIN_OPTION.fullmatch(word):
            continue
        found += [_inside(reading, word, cwd, allowed) for reading in _readings(word, options=options)]
    return found


def _readings(word: str, *, options: bool) -> Iterator[str]:
    if not word:
        return
    if options and (valued := _VALUED_OPTION.fullmatch(word)):
        word = valued["value"]
    yield word
    begins = [word]
    if options and word.startswith("-") and not word.startswith("--"):
        if len(word) > _MAX_GLUED_CHARS:
            raise SandboxRefusal(f"'{word[:40]}...' is too long for an option")
        begins += [word[index:] for index in range(2, len(word))]
    for begin in begins:
        yield begin
        # Only what follows a mark begins a path of its own; what precedes the first is the beginning of the whole.
        yield from (piece for piece in _MARKS.split(begin) if piece)


def _inside(reading: str, word: str, cwd: str, allowed: Sequence[str]) -> str:
    shown = word if len(word) <= 80 else f"{word[:80]}..."
    why = None
    if reading.startswith("/"):
        why = "names a path of the machine"
    elif reading.startswith("~"):
        why = "names somebody's home"
    elif ".." in PurePosixPath(reading).parts:
        why = "contains '..'"
    if why is not None:
        raise SandboxRefusal(f"'{shown}' {why}", next_step="Name files relative to the working directory.")
    path = PurePosixPath(cwd) / reading
    if any(path.is_relative_to(folder) for folder in allowed):
        return str(path)
    glued = word.startswith("-") and "=" not in word
    raise SandboxRefusal(
        f"'{shown}' could name a file outside the paths that this command may use: {', '.join(allowed) or 'none'}",
        next_step="Commands are not isolated here, so whatever is no plain option (-x, --word) has to be a path inside "
        "these." + (" Write single options apart, and their values as words of their own." if glued else ""),
    )
