"""Neighbours of a kind: calls just beside the calls that it covers, each with the verdict of the gate.

They are made mechanically of one call that the kind covers, so that tools, folders and workers are those of real runs.
A call with other arguments is judged from the beginning, as the gate would. The files of the worker are taken to be
there, with no links among them but those that the attempt is about.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from llm_do_temporal.errors import Refusal
from llm_do_temporal.extensions.rules.policy.verdicts import GateOutcome, PastVerdict, judge, with_places
from llm_do_temporal.policy.approvals import ApprovalRules
from llm_do_temporal.policy.files.attachments import Attachment
from llm_do_temporal.policy.files.protection import PATH_TOOLS, file_use, judge_path
from llm_do_temporal.policy.files.sandbox import locate
from llm_do_temporal.policy.kinds.kind import AskedCall, CallKind, argv_of, form_of
from llm_do_temporal.policy.shell import ShellPolicy, judge_command
from llm_do_temporal.policy.values import Value, canonical

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


def _edges(example: str, texts: Mapping[str, str], *, has_link: bool = False) -> Iterator[EdgeText]:
    """Yield the texts that differ from the example: one without letters has no other case. Keys are the tricks."""
    yield from (EdgeText(trick, text) for trick, text in texts.items() if text != example)
    if has_link:
        yield EdgeText("a link that leads elsewhere", example, is_linked=True)


def paths_beside(path: str, folder: str, suffix: str | None = None) -> Iterator[EdgeText]:
    """Yield the paths beside `path`, a file below `folder` whose name ends in `suffix`; None: in whatever."""
    name, inside = PurePosixPath(path).name, PurePosixPath(path).parent
    ending = suffix or PurePosixPath(name).suffix
    stem = name.removesuffix(ending) if ending and name != ending else name
    top, below = folder.rstrip("/"), path.removeprefix(folder.rstrip("/"))
    texts = {
        "a step up with '..'": f"{inside}/../{name}".replace("//", "/"),
        "up and down again": f"{top}/../{folder.strip('/')}/{name}".replace("//", "/"),
        "another suffix": f"{inside / stem}.sh",
        "a further suffix": f"{path}.sh",
        "no suffix": f"{inside / stem}",
        "the suffix in capitals": f"{inside / stem}{ending.upper()}",
    }
    if folder != "/":
        texts |= {
            "a sibling folder with the same beginning": f"{top}-2{below}",
            "the folder above": f"{PurePosixPath(folder).parent / name}",
            "another case": f"{top.swapcase()}{below}",
            "letters that look the same": f"{top.translate(_LOOKALIKES)}{below}",
            "an invisible character": f"{top}{_INVISIBLE}{below}",
        }
    else:
        texts |= {
            "another case": path.swapcase(),
            "letters that look the same": path.translate(_LOOKALIKES),
            "an invisible character": f"{inside / stem}{_INVISIBLE}{ending}",
        }
    texts |= {
        "another file": f"{inside}/another-{name}".replace("//", "/"),
        "a folder further below": f"{inside}/further/{name}".replace("//", "/"),
        "a folder of a tool": f"{inside}/.git/{name}".replace("//", "/"),
        "the file of a worker": f"{inside / stem}.worker",
        "a path of the machine": "/etc/passwd",
        "slashes and dots that say nothing": f"/.{top}//./{path.removeprefix(folder).lstrip('/')}",
        "a relative path": path.lstrip("/"),
        "a space at the end": f"{path} ",
        "an empty path": "",
    }
    return _edges(path, texts, has_link=True)


def commands_beside(words: Sequence[str], free: int | None) -> Iterator[EdgeText]:
    """Yield the command lines beside a command of these words; `free` is the word that a rule leaves open, if any."""
    line, program = shlex.join(words), words[0]
    texts = {
        "a second command after ';'": f"{line}; rm -r .",
        "a second command after '&&'": f"{line} && rm -r .",
        "a pipe": f"{line} | sh",
        "a redirection": f"{line} > out.txt",
        "a command in a command": f"{line} $(id)",
        "one more option": shlex.join([*words, "--force"]),
        "an option with a path": shlex.join([*words, "--output=/etc/passwd"]),
        "an option before the rest": shlex.join([program, "-c", *words[1:]]),
        "an extra word": shlex.join([*words, "more"]),
        "an empty word": shlex.join([*words, ""]),
        "a word less": shlex.join(words[:-1] or words),
        "another case of the program": shlex.join([program.swapcase(), *words[1:]]),
        "a program that looks the same": shlex.join([program.translate(_LOOKALIKES), *words[1:]]),
        "a program of the worker's own files": shlex.join([f"./{program}", *words[1:]]),
        "the program after another one": shlex.join([f"env {program}", *words[1:]]),
    }
    if free is not None:
        for trick, word in _words_beside(words[free]).items():
            texts[f"{trick} in the open place"] = shlex.join([*words[:free], word, *words[free + 1 :]])
    return _edges(line, texts, has_link=free is not None)


def _words_beside(word: str) -> dict[str, str]:
    head, slash, name = word.rpartition("/")
    return {
        "another word": f"{head}{slash}another-{name}",
        "a word in another folder": f"another/{word}",
        "a step up with '..'": f"../{word}",
        "a step up further on": f"{word}/../../x",
        "an absolute path": "/etc/passwd",
        "an option": "-o",
        "a long option": "--output=x",
        "an assignment": f"a={word}",
        "a file of arguments": f"@{word}",
        "a host": f"host:{word}",
        "an address": "https://example.com/x",
        "a home folder": "~/x",
        "another suffix": f"{PurePosixPath(word).with_suffix('')}.sh" if word.strip("./") else ".sh",
        "another case": word.swapcase(),
        "letters that look the same": word.translate(_LOOKALIKES),
        "an empty word": "",
        "two words": f"{word} more",
    }


def names_beside(name: str) -> Iterator[EdgeText]:
    """Yield the names beside the name of a worker."""
    texts = {
        "another worker": f"another_{name}",
        "a longer name": f"{name}_2",
        "a shorter name": name[:-1],
        "another case": name.swapcase(),
        "letters that look the same": name.translate(_LOOKALIKES),
        "a worker of a folder": f"./{name}",
        "a worker that the package brings": f"pkg:{name}",
        "a space at the end": f"{name} ",
        "an empty name": "",
    }
    return _edges(name, texts)


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


_NO_POLICY = "which commands the worker may run is not in the history"


def judge_attempt(
    rules: ApprovalRules, call: AskedCall, args: dict[str, Any], shell: ShellPolicy | None, *, is_linked: bool = False
) -> GateOutcome:
    """Return the outcome of `call` with other arguments.

    `shell` is the policy of the worker's commands; None: the history does not tell it. `is_linked`: the files that the
    call names are links that lead elsewhere.
    """
    try:
        attempt = _attempt(call, args, shell)
    except Refusal as refusal:
        return GateOutcome(verdict=PastVerdict.REFUSED, reason=refusal.message)
    if attempt is None:
        return GateOutcome(verdict=PastVerdict.UNKNOWN, reason=_NO_POLICY)
    return judge(rules, with_places(attempt, are_linked=is_linked))


def _attempt(call: AskedCall, args: dict[str, Any], shell: ShellPolicy | None) -> AskedCall | None:
    """Return the call with other arguments; None where the facts for it are missing. Raises Refusal."""
    changed = call.model_copy(update={"args": args})
    if call.tool in PATH_TOOLS:
        place = judge_path(call.tool, call.tree, args)
        return changed.model_copy(update={"uses": (file_use(call.tool, place, args),)})
    if call.tool != "shell":
        return changed
    if shell is None:
        return None
    command = judge_command(shell, call.tree, args["command"])
    return changed.model_copy(update={"uses": (command.use, *command.more)})


_ORDER = [PastVerdict.PASSES, PastVerdict.UNKNOWN, PastVerdict.ASKS, PastVerdict.BLOCKED, PastVerdict.REFUSED]


class Neighbour(Value):
    """Call beside one that a kind covers."""

    trick: str
    """Difference from the call that is covered, in words."""
    subject: str
    """Text in which the difference lies: a path, a command line, the name of a worker, or arguments as JSON."""
    outcome: GateOutcome


def neighbours_of(
    kind: CallKind, call: AskedCall, rules: ApprovalRules, shell: ShellPolicy | None
) -> tuple[Neighbour, ...]:
    """Return the neighbours of a call that the kind covers, those that pass first, judged by these rules.

    `shell` is the policy of the worker's commands; None: the history does not tell it.
    """
    made = {"files": _of_file, "command": _of_command, "callee": _of_callee, "exact": _of_exact}[kind.shape]
    found = [*made(kind, call, rules, shell), _of_another_worker(call, rules)]
    return tuple(sorted(found, key=lambda one: _ORDER.index(one.outcome.verdict)))


def _of_file(kind: CallKind, call: AskedCall, rules: ApprovalRules, shell: ShellPolicy | None) -> Iterator[Neighbour]:
    path = locate(call.tree, str(call.args["path"])).path
    folder = kind.below or kind.folder or path.rpartition("/")[0] or "/"
    return _attempts(paths_beside(path, folder, kind.suffix), "path", call, rules, shell)


def _of_command(
    kind: CallKind, call: AskedCall, rules: ApprovalRules, shell: ShellPolicy | None
) -> Iterator[Neighbour]:
    edges = commands_beside(argv_of(call) or (), form_of(kind.command or "").free)
    return _attempts(edges, "command", call, rules, shell)


def _attempts(
    edges: Iterator[EdgeText], key: str, call: AskedCall, rules: ApprovalRules, shell: ShellPolicy | None
) -> Iterator[Neighbour]:
    """Yield the call with each text as its argument `key`."""
    for edge in edges:
        outcome = judge_attempt(rules, call, {**call.args, key: edge.text}, shell, is_linked=edge.is_linked)
        yield Neighbour(trick=edge.trick, subject=edge.text, outcome=outcome)


def _of_callee(
    kind: CallKind, call: AskedCall, rules: ApprovalRules, _shell: ShellPolicy | None
) -> Iterator[Neighbour]:
    for edge in names_beside(kind.worker or ""):
        outcome = judge(rules, _calling(call, edge.text))
        yield Neighbour(trick=edge.trick, subject=edge.text, outcome=outcome)
    example = next((one.path for one in call.attachments), "/notes/example.txt")
    folder = kind.attachments or kind.folder or example.rpartition("/")[0] or "/"
    for edge in paths_beside(example, folder, kind.suffix):
        outcome = _handing_over(call, edge.text, rules, is_linked=edge.is_linked)
        yield Neighbour(trick=f"an attachment: {edge.trick}", subject=edge.text, outcome=outcome)


def _of_exact(_kind: CallKind, call: AskedCall, rules: ApprovalRules, shell: ShellPolicy | None) -> Iterator[Neighbour]:
    for trick, args in arguments_beside(call.args):
        outcome = judge_attempt(rules, call, args, shell)
        yield Neighbour(trick=trick, subject=canonical(args), outcome=outcome)
    uses = tuple(use.model_copy(update={"payload": {**use.payload, "sha256": "f" * 64}}) for use in call.uses)
    outcome = judge(rules, call.model_copy(update={"uses": uses}))
    yield Neighbour(trick="other code of the tool", subject=canonical(call.args), outcome=outcome)


def _of_another_worker(call: AskedCall, rules: ApprovalRules) -> Neighbour:
    name = f"another_{call.worker}"
    outcome = judge(rules, call.model_copy(update={"worker": name}))
    return Neighbour(trick="the same call of another worker", subject=name, outcome=outcome)


def _calling(call: AskedCall, name: str) -> AskedCall:
    """Return the delegation, or the handing over of a file, to the worker of this name."""
    uses = tuple(
        use.model_copy(update={"payload": {**use.payload, _callee_key(use.payload): name}}) for use in call.uses
    )
    is_generic = "worker_name" in call.args
    changes: dict[str, Any] = {"args": {**call.args, "worker_name": name}} if is_generic else {"tool": name}
    return call.model_copy(update={"uses": uses, **changes})


def _callee_key(payload: dict[str, Any]) -> str:
    return "worker" if "worker" in payload else "target_worker"


def _handing_over(call: AskedCall, path: str, rules: ApprovalRules, *, is_linked: bool) -> GateOutcome:
    """Return the outcome of the delegation with one file more, or with that file in the place of the one it hands
    over."""
    try:
        place = locate(call.tree, path)
    except Refusal as refusal:
        return GateOutcome(verdict=PastVerdict.REFUSED, reason=refusal.message)
    file = Attachment(path=place.path, sha256="0" * 64, bytes=1, media_type="text/plain")
    kept = call.attachments[1:]
    return judge(rules, with_places(call.model_copy(update={"attachments": (file, *kept)}), are_linked=is_linked))
