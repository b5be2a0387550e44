"""Texts that lie just beside a text that a rule lets pass: paths, command lines, names and values.

Made mechanically, of one example each, with the trick in words. Nothing here says which of them pass: the gate does.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

_CYRILLIC = "\u0430\u0441\u0435\u0456\u043e\u0440\u0445\u0443\u0410\u0421\u0415\u0406\u041e\u0420\u0425"
_LOOKALIKES = str.maketrans("aceiopxyACEIOPX", _CYRILLIC)
"""Latin letters and the Cyrillic ones that look the same."""
_INVISIBLE = "\u200b"


@dataclass(frozen=True)
class EdgeText:
    """Text beside another one."""

    trick: str
    """Difference from the example, in words."""
    text: str
    is_linked: bool = False
    """Whether the file that it names is a link to a file elsewhere."""


def paths_beside(path: str, folder: str, suffix: str | None = None) -> Iterator[EdgeText]:
    """Yield the paths beside `path`, a file below `folder` whose name ends in `suffix`; None: in whatever."""
    return _changed(_paths_beside(path, folder, suffix), path)


def _paths_beside(path: str, folder: str, suffix: str | None) -> Iterator[EdgeText]:
    name, inside = PurePosixPath(path).name, PurePosixPath(path).parent
    ending = suffix or PurePosixPath(name).suffix
    stem = name.removesuffix(ending) if ending and name != ending else name
    yield EdgeText("a step up with '..'", f"{inside}/../{name}".replace("//", "/"))
    yield EdgeText("up and down again", f"{folder.rstrip('/')}/../{folder.strip('/')}/{name}".replace("//", "/"))
    yield EdgeText("another suffix", f"{inside / stem}.sh")
    yield EdgeText("a further suffix", f"{path}.sh")
    yield EdgeText("no suffix", f"{inside / stem}")
    yield EdgeText("the suffix in capitals", f"{inside / stem}{ending.upper()}")
    if folder != "/":
        top = folder.rstrip("/")
        below = path.removeprefix(top)
        yield EdgeText("a sibling folder with the same beginning", f"{top}-2{below}")
        yield EdgeText("the folder above", f"{PurePosixPath(folder).parent / name}")
        yield EdgeText("another case", f"{top.swapcase()}{below}")
        yield EdgeText("letters that look the same", f"{top.translate(_LOOKALIKES)}{below}")
        yield EdgeText("an invisible character", f"{top}{_INVISIBLE}{below}")
    else:
        yield EdgeText("another case", path.swapcase())
        yield EdgeText("letters that look the same", path.translate(_LOOKALIKES))
        yield EdgeText("an invisible character", f"{inside / stem}{_INVISIBLE}{ending}")
    yield EdgeText("another file", f"{inside}/another-{name}".replace("//", "/"))
    yield EdgeText("a folder further below", f"{inside}/further/{name}".replace("//", "/"))
    yield EdgeText("a folder of a tool", f"{inside}/.git/{name}".replace("//", "/"))
    yield EdgeText("the file of a worker", f"{inside / stem}.worker")
    yield EdgeText("a path of the machine", "/etc/passwd")
    yield EdgeText(
        "slashes and dots that say nothing", f"/.{folder.rstrip('/')}//./{path.removeprefix(folder).lstrip('/')}"
    )
    yield EdgeText("a relative path", path.lstrip("/"))
    yield EdgeText("a space at the end", f"{path} ")
    yield EdgeText("an empty path", "")
    yield EdgeText("a link that leads elsewhere", path, is_linked=True)


def commands_beside(words: Sequence[str], free: int | None) -> Iterator[EdgeText]:
    """Yield the command lines beside a command of these words; `free` is the word that a rule leaves open, if any."""
    return _changed(_commands_beside(words, free), shlex.join(words))


def _commands_beside(words: Sequence[str], free: int | None) -> Iterator[EdgeText]:
    line = shlex.join(words)
    yield EdgeText("a second command after ';'", f"{line}; rm -r .")
    yield EdgeText("a second command after '&&'", f"{line} && rm -r .")
    yield EdgeText("a pipe", f"{line} | sh")
    yield EdgeText("a redirection", f"{line} > out.txt")
    yield EdgeText("a command in a command", f"{line} $(id)")
    yield EdgeText("one more option", shlex.join([*words, "--force"]))
    yield EdgeText("an option with a path", shlex.join([*words, "--output=/etc/passwd"]))
    yield EdgeText("an option before the rest", shlex.join([words[0], "-c", *words[1:]]))
    yield EdgeText("an extra word", shlex.join([*words, "more"]))
    yield EdgeText("an empty word", shlex.join([*words, ""]))
    if len(words) > 1:
        yield EdgeText("a word less", shlex.join(words[:-1]))
    for trick, program in _programs_beside(words[0]):
        yield EdgeText(trick, shlex.join([program, *words[1:]]))
    if free is None:
        return
    for trick, word in _words_beside(words[free]):
        yield EdgeText(f"{trick} in the open place", shlex.join([*words[:free], word, *words[free + 1 :]]))
    yield EdgeText("a link that leads elsewhere", line, is_linked=True)


def _programs_beside(program: str) -> Iterator[tuple[str, str]]:
    yield "another case of the program", program.swapcase()
    yield "a program that looks the same", program.translate(_LOOKALIKES)
    yield "a program of the worker's own files", f"./{program}"
    yield "the program after another one", f"env {program}"


def _words_beside(word: str) -> Iterator[tuple[str, str]]:
    head, slash, name = word.rpartition("/")
    yield "another word", f"{head}{slash}another-{name}"
    yield "a word in another folder", f"another/{word}"
    yield "a step up with '..'", f"../{word}"
    yield "a step up further on", f"{word}/../../x"
    yield "an absolute path", "/etc/passwd"
    yield "an option", "-o"
    yield "a long option", "--output=x"
    yield "an assignment", f"a={word}"
    yield "a file of arguments", f"@{word}"
    yield "a host", f"host:{word}"
    yield "an address", "https://example.com/x"
    yield "a home folder", "~/x"
    yield "another suffix", f"{PurePosixPath(word).with_suffix('')}.sh" if word.strip("./") else ".sh"
    yield "another case", word.swapcase()
    yield "letters that look the same", word.translate(_LOOKALIKES)
    yield "an empty word", ""
    yield "two words", f"{word} more"


def names_beside(name: str) -> Iterator[EdgeText]:
    """Yield the names beside the name of a worker."""
    return _changed(_names_beside(name), name)


def _names_beside(name: str) -> Iterator[EdgeText]:
    yield EdgeText("another worker", f"another_{name}")
    yield EdgeText("a longer name", f"{name}_2")
    yield EdgeText("a shorter name", name[:-1])
    yield EdgeText("another case", name.swapcase())
    yield EdgeText("letters that look the same", name.translate(_LOOKALIKES))
    yield EdgeText("a worker of a folder", f"./{name}")
    yield EdgeText("a worker that the package brings", f"pkg:{name}")
    yield EdgeText("a space at the end", f"{name} ")
    yield EdgeText("an empty name", "")


def _changed(edges: Iterator[EdgeText], example: str) -> Iterator[EdgeText]:
    """Yield the texts that differ from the example: one without letters has no other case."""
    return (edge for edge in edges if edge.text != example or edge.is_linked)


def arguments_beside(args: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the arguments beside these, each with the difference in words."""
    for key, value in args.items():
        for trick, other in _values_beside(value):
            if other != value or type(other) is not type(value):
                yield f"{trick} in '{key}'", {**args, key: other}
        yield f"without '{key}'", {name: one for name, one in args.items() if name != key}
    yield "an argument more", {**args, "more": True}


def _values_beside(value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, str):
        yield "another case", value.swapcase()
        yield "letters that look the same", value.translate(_LOOKALIKES)
        yield "a space at the end", f"{value} "
        yield "an invisible character", f"{value}{_INVISIBLE}"
        yield "an empty text", ""
    elif isinstance(value, bool):
        yield "the contrary", not value
    elif isinstance(value, int | float):
        yield "one more", value + 1
        yield "text", str(value)
    else:
        yield "nothing", None
