"""Commands of a certain form: every word spelled out, but for at most one free word of a certain type."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Annotated, NamedTuple, cast

from pydantic import AfterValidator

from llm_do_temporal.errors import SandboxRefusal, ShellRefusal
from llm_do_temporal.policy.files.protection import defines
from llm_do_temporal.policy.files.sandbox import Place, locate
from llm_do_temporal.policy.identity import SeenFile, real_place
from llm_do_temporal.policy.kinds.call import AskedCall
from llm_do_temporal.policy.kinds.files import place_in
from llm_do_temporal.policy.programs import refused_command, refused_freedom
from llm_do_temporal.policy.shell import split_command

FREE_WORDS = {
    "{number}": re.compile(r"[0-9]{1,9}"),
    "{name}": re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}"),
    "{path}": re.compile(r"(?:\./)?\w[\w.+-]*(?:/\w[\w.+-]*)*/?"),
}
"""Types of free words, the narrowest first. A name has no `/`; a path has no part that begins with a dot or a sign."""
MAX_WORD_CHARS = 500
_BRACES = re.compile(r"\{(?:path|number|name)\}")
_PLACEHOLDER = re.compile(r"\{\w*\}")


class Form(NamedTuple):
    """Words of a command, and the position of the free one; None: there is none."""

    words: tuple[str, ...]
    free: int | None


def form_of(pattern: str) -> Form:
    """Return the form that a pattern such as `git log {path}` describes. Raises ValueError where no kind may be so."""
    try:
        words = split_command(pattern)
    except ShellRefusal as refusal:
        raise ValueError(f"'{pattern}': {refusal.message}") from refusal
    free = [number for number, word in enumerate(words) if word in FREE_WORDS]
    for word in words:
        if word not in FREE_WORDS and (_BRACES.search(word) or _PLACEHOLDER.fullmatch(word)):
            raise ValueError(f"'{word}' in '{pattern}' is no free word; a free word is {', '.join(FREE_WORDS)}, alone")
    if len(free) > 1:
        raise ValueError(f"'{pattern}' has {len(free)} free words; at most one word may be free")
    if any(not word for word in words):
        raise ValueError(f"'{pattern}' has an empty word")
    form = Form(words, free[0] if free else None)
    reason = refused_command(words)
    if form.free is not None and reason is None:
        reason = refused_freedom(words, form.free, is_number=words[form.free] == "{number}")
    if reason is not None:
        raise ValueError(f"'{pattern}' is refused: {reason}")
    return form


def _checked(pattern: str) -> str:
    form_of(pattern)
    return pattern


CommandPattern = Annotated[str, AfterValidator(_checked)]
"""Words of a command, of which one may be `{path}`, `{number}` or `{name}`."""


def fits_word(kind: str, word: str) -> bool:
    """Return whether a word is of the type `{path}`, `{number}` or `{name}`."""
    is_plain = len(word) <= MAX_WORD_CHARS and unicodedata.normalize("NFKC", word) == word
    return is_plain and FREE_WORDS[kind].fullmatch(word) is not None


def fits(pattern: str, argv: Sequence[str]) -> bool:
    """Return whether a command has exactly the words of the pattern."""
    form = form_of(pattern)
    return len(argv) == len(form.words) and all(
        fits_word(wanted, word) if number == form.free else word == wanted
        for number, (wanted, word) in enumerate(zip(form.words, argv, strict=True))
    )


def argv_of(call: AskedCall) -> tuple[str, ...] | None:
    """Return the words that a command would be run with; None for a call of another tool."""
    given = [use.payload.get("argv") for use in call.uses]
    if call.tool != "shell" or not given or any(one != given[0] for one in given) or not isinstance(given[0], list):
        return None
    return tuple(str(word) for word in cast("list[object]", given[0]))


def free_word(pattern: str, argv: Sequence[str]) -> str | None:
    """Return the free word of a command that fits the pattern; None where no word is free."""
    free = form_of(pattern).free
    return None if free is None else argv[free]


def free_place(pattern: str, call: AskedCall, argv: Sequence[str]) -> Place | None:
    """Return the place of the file that the free word of a command names, by its text; None where it names none."""
    word, cwd = free_word(pattern, argv), call.uses[0].payload.get("cwd")
    return place_in(call.tree, f"{cwd}/{word}") if word is not None and isinstance(cwd, str) else None


def leads_nowhere_else(pattern: str, call: AskedCall, argv: Sequence[str]) -> bool:
    """Return whether the free word of a command is a name in its worker's tree, with no link behind any of its words.

    The program itself may be a link: many are, and it is no free word.
    """
    if not all(one.place == real_place(call.tree, one.path) for one in _beside_program(call, argv)):
        return False
    word = free_word(pattern, argv)
    if word is None:
        return True
    try:
        place = locate(call.tree, f"{call.uses[0].payload.get('cwd')}/{word}")
    except SandboxRefusal:
        # Above several folders a word may be no file at all; a path has to be one of the tree.
        return form_of(pattern).words[form_of(pattern).free or 0] != "{path}"
    return not defines(place)


def _beside_program(call: AskedCall, argv: Sequence[str]) -> Iterator[SeenFile]:
    """Yield the files that a command's words name, but the one that is run."""
    program = place_in(call.tree, f"{call.uses[0].payload.get('cwd')}/{argv[0]}") if "/" in argv[0] else None
    return (one for one in call.files if program is None or one.path != program.path)
