"""Verdict of a policy on a call of the past, from the facts that its history has, and on calls just beside it.

A fact that the history lacks is not guessed: the call is judged with each value that the fact may have had, and where
these verdicts differ the verdict is unknown. The judgement is that of the gate, `policy.approvals.decide`.

Neighbours of a kind are made mechanically of one call that the kind covers, so that tools, folders and workers are
those of real runs. A call with other arguments is judged from the beginning. The files of the worker are taken to be
there, with no links among them but those that the attempt is about.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import product
from pathlib import PurePosixPath
from typing import Any

from llm_do_temporal.errors import Refusal
from llm_do_temporal.policy.approvals import ApprovalRules, allowed_by, decide
from llm_do_temporal.policy.files.attachments import Attachment
from llm_do_temporal.policy.files.protection import PATH_TOOLS, file_use, judge_path
from llm_do_temporal.policy.files.sandbox import Place, Tree, WorkshopSandbox, join, locate
from llm_do_temporal.policy.identity import SeenFile
from llm_do_temporal.policy.kinds.kind import AskedCall, CallKind, argv_of, form_of, may_cover
from llm_do_temporal.policy.shell import ShellPolicy, judge_command
from llm_do_temporal.policy.values import ALWAYS_ASKS, CapabilityUse, Value, canonical

_ELSEWHERE = "another-place"
"""Real place of a file behind a link that leads elsewhere."""


def lacks_places(call: AskedCall) -> bool:
    """Return whether the call names files of which nobody has noted where they really are."""
    if any(one.place is None for one in (*call.files, *call.attachments)):
        return True
    return call.tool in PATH_TOOLS and not call.files


def with_places(call: AskedCall, *, are_linked: bool) -> AskedCall:
    """Return the call with its files where their paths say, or, where they `are_linked`, at another place."""
    attachments = tuple(
        one.model_copy(update={"place": _place(call.tree, one.path, is_linked=are_linked)}) for one in call.attachments
    )
    seen = [SeenFile(path=path, place=_place(call.tree, path, is_linked=are_linked)) for path in _named(call)]
    return call.model_copy(update={"files": tuple(seen), "attachments": attachments})


def _named(call: AskedCall) -> list[str]:
    """Return the virtual paths of the files that a file tool's call or a command names; none for another call."""
    if call.tool in PATH_TOOLS:
        given = [str(call.args.get("path", ""))]
    elif call.tool == "shell":
        payload = call.uses[0].payload
        given = [f"{payload.get('cwd', '/')}/{word}" for word in payload.get("argv", ())[1:] if word]
    else:
        return []
    return [place.path for path in given if (place := _located(call.tree, path)) is not None]


def _located(tree: Tree, path: str) -> Place | None:
    try:
        return locate(tree, path)
    except Refusal:
        return None


def _place(tree: Tree, path: str, *, is_linked: bool) -> str | None:
    if is_linked:
        return _ELSEWHERE
    place = _located(tree, path)
    return None if place is None else join(place.mount.root, place.relative)


_APPROVAL_KEYS = {
    "sandbox.read": "read_approval",
    "sandbox.write": "write_approval",
    "sandbox.write.definitions": "write_approval",
}
"""Keys of a sandbox that decide for its files, by capability."""
_PLACES = "where its files were, links followed, is not in the history"
_OWN_FILE = "whether the worker's own file asks is not in the history"


class PastVerdict(StrEnum):
    """Verdict on a call that was, or might have been."""

    PASSES = "passes"
    ASKS = "asks"
    BLOCKED = "blocked"
    REFUSED = "refused"
    """Refused by a check, before any rule is looked at."""
    UNKNOWN = "unknown"
    """Decided by a fact that is not known."""


class GateOutcome(Value):
    """Verdict and its reason."""

    verdict: PastVerdict
    reason: str = ""
    """Rule that gives the verdict, or the fact that is not known."""


class Policy(Value):
    """Part of a `workshop.yaml` that decides which calls ask."""

    approvals: ApprovalRules = ApprovalRules()
    sandbox: WorkshopSandbox | None = None


class ChangeKind(StrEnum):
    """Kinds of differences between two outcomes of one call, the gravest first."""

    NEWLY_PASSED = "newly passed"
    NEWLY_ASKED = "newly asked"
    NEWLY_BLOCKED = "newly blocked"
    UNKNOWN = "unknown"


_VERDICTS = {"allow": PastVerdict.PASSES, "ask": PastVerdict.ASKS, "block": PastVerdict.BLOCKED}
_CHANGES = {
    PastVerdict.PASSES: ChangeKind.NEWLY_PASSED,
    PastVerdict.ASKS: ChangeKind.NEWLY_ASKED,
    PastVerdict.BLOCKED: ChangeKind.NEWLY_BLOCKED,
    PastVerdict.REFUSED: ChangeKind.NEWLY_BLOCKED,
    PastVerdict.UNKNOWN: ChangeKind.UNKNOWN,
}


def change_between(before: GateOutcome, after: GateOutcome) -> ChangeKind | None:
    """Return the kind of the difference; None where the call fares as before.

    A call of which nobody can tell is unknown, even if nobody could tell before. Where nobody could tell before, and it
    passes now, it counts as newly passed.
    """
    if PastVerdict.UNKNOWN in (before.verdict, after.verdict) and after.verdict is not PastVerdict.PASSES:
        return ChangeKind.UNKNOWN
    return None if after.verdict is before.verdict else _CHANGES[after.verdict]


def judge_again(policy: Policy, call: AskedCall) -> GateOutcome:
    """Return the outcome that the call would have under this policy, in a run that is started without `--strict` or
    `--approve-all`.
    """
    if any(use.name in ALWAYS_ASKS for use in call.uses):
        return GateOutcome(verdict=PastVerdict.ASKS, reason="no rule answers this question")
    found: dict[PastVerdict, GateOutcome] = {}
    for one in _possible(policy, call):
        outcome = judge(policy.approvals, one)
        found.setdefault(outcome.verdict, outcome)
    if len(found) == 1:
        return next(iter(found.values()))
    missing = _PLACES if lacks_places(call) else _OWN_FILE
    return GateOutcome(verdict=PastVerdict.UNKNOWN, reason=missing)


def judge(rules: ApprovalRules, call: AskedCall) -> GateOutcome:
    """Return the outcome of a call of which all facts are known, as the gate judges it."""
    judgement = decide(rules, rules.mode, call.tool, call.uses, allowable=may_cover(rules.allow, call))
    if judgement.kind != "ask":
        return GateOutcome(verdict=_VERDICTS[judgement.kind], reason=_told(call, judgement.reason))
    allowed = allowed_by(rules, judgement.terms, call)
    if allowed is not None:
        return GateOutcome(verdict=PastVerdict.PASSES, reason=allowed)
    verdict = PastVerdict.BLOCKED if judgement.asks_nobody else PastVerdict.ASKS
    return GateOutcome(verdict=verdict, reason=judgement.reason)


def _told(call: AskedCall, reason: str) -> str:
    """Return the reason with the capabilities, where the gate's own words name none."""
    if reason != "pre-approved":
        return reason
    return ", ".join(
        f"{use.name}: {'pre_approved' if use.asks is None else 'its own place asks nobody'}" for use in call.uses
    )


def _possible(policy: Policy, call: AskedCall) -> Iterator[AskedCall]:
    """Yield the call with each combination of the values that unknown facts may have had."""
    seen = [call]
    if lacks_places(call):
        seen = [with_places(call, are_linked=False), with_places(call, are_linked=True)]
    for one in seen:
        for uses in product(*(_settings(policy.sandbox, use) for use in call.uses)):
            yield one.model_copy(update={"uses": uses})


def _settings(sandbox: WorkshopSandbox | None, use: CapabilityUse) -> list[CapabilityUse]:
    """Return the use with each setting of its place that today's `sandbox:` may give it.

    A place asks where the workshop or the worker's own file says so; what is recorded is both together.
    """
    key = _APPROVAL_KEYS.get(use.name)
    if sandbox is None or key is None:
        return [use]
    setting: bool | None = getattr(sandbox, key)
    now = use.model_copy(update={"asks": setting})
    return [use, now] if use.asks and not setting else [now]


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
    name = f"another_{call.worker}"
    outcome = judge(rules, call.model_copy(update={"worker": name}))
    another = Neighbour(trick="the same call of another worker", subject=name, outcome=outcome)
    found = [*made(kind, call, rules, shell), another]
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


def _calling(call: AskedCall, name: str) -> AskedCall:
    """Return the delegation, or the handing over of a file, to the worker of this name."""
    keys = ["worker" if "worker" in use.payload else "target_worker" for use in call.uses]
    uses = tuple(
        use.model_copy(update={"payload": {**use.payload, key: name}}) for key, use in zip(keys, call.uses, strict=True)
    )
    is_generic = "worker_name" in call.args
    changes: dict[str, Any] = {"args": {**call.args, "worker_name": name}} if is_generic else {"tool": name}
    return call.model_copy(update={"uses": uses, **changes})


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
