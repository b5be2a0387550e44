"""Kind of calls: a sentence about calls that are alike, and whether it covers one.

A kind has one of four shapes: files of one tool (`tool` with `path` or `below`), commands (`command`), calls of a
worker (`worker`), or one call exactly (`tool` with `args`). It covers a call by what the call really is: where its
file lies once links are followed, and the words that would be run. Facts that nobody looked up cover nothing.

A kind is derived from a call for a person or a rule, the narrowest first. Never free are folders, programs, words that
may be names of tasks or hosts, options, scripts and whatever `programs` knows to be dangerous. A grant is what a person
agrees to beyond one call, for one run: calls of a kind in the same circumstances, with no further capability, under the
same people, from the same real folder, and for a command with the files that its own words name as they were.
"""

from __future__ import annotations

import json
import re
import shlex
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import PurePath, PurePosixPath
from typing import Annotated, Any, Literal, NamedTuple, Self, cast
from urllib.parse import unquote

from pydantic import AfterValidator, Field, StringConstraints, ValidationError, model_validator

from llm_do_temporal.errors import SandboxRefusal, ShellRefusal
from llm_do_temporal.policy.budget import Dimension, Duration, described
from llm_do_temporal.policy.files.attachments import Attachment
from llm_do_temporal.policy.files.protection import PATH_TOOLS, defines
from llm_do_temporal.policy.files.sandbox import Mount, Place, Tree, join, locate, locate_all, normalise
from llm_do_temporal.policy.identity import SeenFile, real_place
from llm_do_temporal.policy.programs import may_free_file, numbers_in, refused_command, refused_freedom
from llm_do_temporal.policy.shell import LISTED, WITHOUT_ISOLATION, split_command
from llm_do_temporal.policy.values import ALWAYS_ASKS, CapabilityUse, Value, canonical

NEVER_COVERED = ALWAYS_ASKS | {
    "changes.commit",
    "changes.commit.automation",
    "changes.commit.links_out",
    "sandbox.write.definitions",
    "worker.create",
}
"""Capabilities of calls that are asked about one by one: repetitions, limits, reviews, and what defines a worker."""


class AskedCall(Value):
    """Call as a question puts it, with the facts that were looked up for the person."""

    tool: str
    args: dict[str, Any]
    uses: tuple[CapabilityUse, ...]
    tree: Tree = Tree()
    """Files of the invocation that makes the call."""
    files: tuple[SeenFile, ...] = ()
    """Files that the call names, as they were found; none where nobody looked."""
    attachments: tuple[Attachment, ...] = ()
    """Files that the call hands over."""
    worker: str = ""
    """Name of the worker that makes the call."""
    circumstances: str = ""
    """Digest of all else that the call's effect depends on, and for a command whether it would be isolated."""
    surroundings: str = ""
    """Digest of that part of it which calls of one kind have in common; empty where nothing of it counts."""

    @property
    def isolated(self) -> bool:
        """Whether a command would run in isolation."""
        return not self.circumstances.endswith(WITHOUT_ISOLATION)

    @property
    def names(self) -> frozenset[str]:
        """Names of the capabilities that the call uses."""
        return frozenset(use.name for use in self.uses)

    @property
    def may_be_covered(self) -> bool:
        """Whether a kind may cover the call at all."""
        return bool(self.uses) and not self.names & NEVER_COVERED


CAPABILITIES = frozenset({"sandbox.read", "sandbox.write"})


def _checked_path(path: str) -> str:
    if not path.startswith("/"):
        raise ValueError(f"a path of the workers' files starts with '/'; got '{path}'")
    if set(path) & set("*?[]{}"):
        raise ValueError(f"'{path}' is the path of a folder or file, and no pattern: all below a folder is meant")
    try:
        return normalise(path)
    except SandboxRefusal as refusal:
        raise ValueError(refusal.message) from refusal


def _checked_suffix(suffix: str) -> str:
    if not suffix.startswith(".") or len(suffix) < 2 or "/" in suffix:
        raise ValueError(f"a suffix starts with a dot, like '.md'; got '{suffix}'")
    return suffix


TreePath = Annotated[str, AfterValidator(_checked_path)]
"""Virtual path, normalised."""
Suffix = Annotated[str, AfterValidator(_checked_suffix)]
"""End of a file name, compared letter by letter."""


def place_in(tree: Tree, path: object) -> Place | None:
    """Return the place of a path by its text; None for one that leads nowhere, or to a file that defines."""
    if not isinstance(path, str):
        return None
    try:
        place = locate(tree, path)
    except SandboxRefusal:
        return None
    return None if defines(place) else place


def place_of(call: AskedCall) -> Place | None:
    """Return the place of the file that a file tool's call names, by its text; None for any other call."""
    if call.tool not in PATH_TOOLS or not call.names <= CAPABILITIES or call.attachments:
        return None
    return place_in(call.tree, call.args.get("path"))


def is_hidden(path: PurePath) -> bool:
    """Return whether a name on the path begins with a dot."""
    return any(part.startswith(".") for part in path.parts)


def is_below(path: str, folder: str, suffix: str | None = None) -> bool:
    """Return whether a normalised path lies below the folder, with no hidden part, and ends in the suffix.

    A name that begins with a dot is hidden: `.env` and `.git` are named one by one.
    """
    inner, outer = PurePosixPath(path), PurePosixPath(folder)
    if inner == outer or not inner.is_relative_to(outer):
        return False
    if is_hidden(inner.relative_to(outer)):
        return False
    return suffix is None or (inner.name.endswith(suffix) and inner.name != suffix)


def is_seen_there(place: Place, files: Iterable[SeenFile]) -> bool:
    """Return whether these files are that at the place alone, and no link leads from there elsewhere."""
    found = list(files)
    real = join(place.mount.root, place.relative)
    return bool(found) and all(one.path == place.path and one.place == real for one in found)


_CALL = "worker.call"
_SHARE = "sandbox.read"


def callee_of(call: AskedCall) -> str | None:
    """Return the name of the worker that is called, or that a file goes to; None for calls of templates and others.

    A template is no worker of a fixed definition: what its call fills in makes another worker each time.
    """
    if len(call.uses) != 1:
        return None
    payload, name = call.uses[0].payload, call.uses[0].name
    if name == _CALL and "template" not in payload:
        callee = payload.get("worker")
    elif name == _SHARE and len(call.attachments) == 1:
        callee = payload.get("target_worker")
    else:
        return None
    return callee if isinstance(callee, str) else None


def hands_over_really(call: AskedCall) -> bool:
    """Return whether no link leads elsewhere from the files that a call hands over, as far as they were looked at."""
    for attachment in call.attachments:
        place = place_in(call.tree, attachment.path)
        if place is None or attachment.place != join(place.mount.root, place.relative):
            return False
    return True


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
    program = place_in(call.tree, f"{call.uses[0].payload.get('cwd')}/{argv[0]}") if "/" in argv[0] else None
    beside = (one for one in call.files if program is None or one.path != program.path)
    if not all(one.place == real_place(call.tree, one.path) for one in beside):
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


Shape = Literal["files", "command", "callee", "exact"]
_KEYS: dict[Shape, frozenset[str]] = {
    "files": frozenset({"tool", "path", "below", "folder", "suffix"}),
    "command": frozenset({"command", "folder", "suffix"}),
    "callee": frozenset({"worker", "attachments", "folder", "suffix"}),
    "exact": frozenset({"tool", "args", "sha256"}),
}
_SHAPES = "`tool` with `path`, `below` or `folder`, `command`, `worker`, or `tool` with `args`"
_SHOWN_ARGS = 120
_Text = Annotated[str, StringConstraints(min_length=1)]


class CallKind(Value):
    """Kind of calls."""

    tool: _Text | None = None
    path: TreePath | None = None
    """The one file that is meant."""
    below: TreePath | None = None
    """Folder that the file lies in, at any depth."""
    folder: TreePath | None = None
    """Folder that the file lies in itself, and not in a folder below: the file of a file tool, the free path of a
    command, each file that a worker is given."""
    suffix: Suffix | None = None
    """End of the file's name; None: any."""
    command: CommandPattern | None = None
    worker: _Text | None = None
    """Name of the worker that is called."""
    attachments: TreePath | None = None
    """Folder of the files that the worker is given; None: it is given none."""
    args: dict[str, Any] | None = None
    """All arguments of the call."""
    sha256: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")
    """Digest of the tool's code, or of the toolset that it comes from; None for a tool that has none."""
    callers: tuple[_Text, ...] | None = Field(default=None, min_length=1)
    """Workers whose calls are meant; None: any worker."""

    @model_validator(mode="after")
    def _is_of_one_shape(self) -> Self:
        given = {name for name in CallKind.model_fields if getattr(self, name) is not None}
        keys = _KEYS[self.shape]
        if self.shape == "files" and len(given & {"path", "below", "folder"}) != 1:
            raise ValueError(f"a kind of calls is {_SHAPES}")
        given.discard("callers")
        if stray := sorted(given - keys):
            raise ValueError(f"`{stray[0]}` does not go with `{min(given & keys - {'tool'})}`; a kind is {_SHAPES}")
        if self.shape in ("files", "exact"):
            self._check_tool()
        if self.path is not None and self.suffix is not None:
            raise ValueError("`suffix` goes with `below` and `folder`; `path` is one file already")
        if self.shape in ("command", "callee"):
            self._check_folder()
        return self

    def _check_folder(self) -> None:
        if self.suffix is not None and self.folder is None:
            raise ValueError("`suffix` goes with `folder`: write the folder of the file that is meant")
        if self.attachments is not None and self.folder is not None:
            raise ValueError("`attachments` are files below a folder, `folder` those in it; write one of them")
        if self.command is not None and self.folder is not None and "{path}" not in split_command(self.command):
            raise ValueError(f"'{self.command}' has no word {{path}}, which `folder` would be about")

    def _check_tool(self) -> None:
        is_file_tool = self.tool in PATH_TOOLS
        if self.tool is None:
            raise ValueError(f"`tool` is missing; a kind of calls is {_SHAPES}")
        if self.shape == "files" and not is_file_tool:
            raise ValueError(
                f"'{self.tool}' is no file tool; `path`, `below` and `folder` are for {', '.join(sorted(PATH_TOOLS))}"
            )
        if self.shape == "exact" and (is_file_tool or self.tool == "shell"):
            meant = "`path`, `below` or `folder`" if is_file_tool else "`command`"
            raise ValueError(f"for '{self.tool}' write {meant} instead of `args`")

    @property
    def shape(self) -> Shape:
        """Form of the kind."""
        if self.command is not None:
            return "command"
        if self.worker is not None:
            return "callee"
        return "files" if self.args is None else "exact"

    @property
    def key(self) -> str:
        """Text that equal kinds have in common."""
        return canonical(self.as_mapping())

    @property
    def sentence(self) -> str:
        """The kind in words, as people are shown it before they agree to it."""
        return f"{self._calls}, by {' or '.join(self.callers)}" if self.callers else self._calls

    @property
    def _calls(self) -> str:
        match self.shape:
            case "command":
                free = f", of {self._files}" if self.folder else ""
                return f"the command `{self.command}`{free}"
            case "callee":
                handed = f"files below {self.attachments}" if self.attachments else "no files"
                return f"calls of {self.worker}, with {self._files if self.folder else handed}"
            case "exact":
                given = canonical(self.args)
                shown = given if len(given) <= _SHOWN_ARGS else f"{given[:_SHOWN_ARGS]}…"
                return f"{self.tool} with exactly {shown}"
            case _:
                return f"{self.tool} of {self._files}"

    @property
    def _files(self) -> str:
        where = f"in {self.folder}" if self.folder else f"below {self.below}"
        return self.path or f"{f'{self.suffix} ' if self.suffix else ''}files {where}"

    def fits(self, call: AskedCall) -> bool:
        """Return whether the call is of this kind by its text alone; where its files really are is not looked at."""
        if not call.may_be_covered or (self.callers is not None and call.worker not in self.callers):
            return False
        if self.command is not None:
            argv = argv_of(call)
            is_so = argv is not None and call.isolated and fits(self.command, argv)
            return is_so and (self.folder is None or self._lies_there(free_place(self.command, call, argv or ())))
        if self.worker is not None:
            return callee_of(call) == self.worker and self._hands_over(call)
        if call.tool != self.tool:
            return False
        if self.args is None:
            place = place_of(call)
            return place is not None and (place.path == self.path if self.path else self._lies_there(place))
        named = all(use.payload.get("tool") == call.tool for use in call.uses)
        code = {use.payload.get("sha256") for use in call.uses}
        is_plain = named and not call.files and not call.attachments
        return is_plain and code == {self.sha256} and canonical(call.args) == canonical(self.args)

    def covers(self, call: AskedCall) -> bool:
        """Return whether the call is of this kind, by its text and by the facts that were looked up."""
        if not self.fits(call):
            return False
        if self.command is not None:
            return leads_nowhere_else(self.command, call, argv_of(call) or ())
        if self.worker is not None:
            return hands_over_really(call)
        place = place_of(call)
        return place is None or is_seen_there(place, call.files)

    def as_mapping(self) -> dict[str, Any]:
        """Return the kind as it is written in YAML."""
        fields = CallKind.model_fields
        return {name: getattr(self, name) for name in fields if getattr(self, name) is not None}

    def _hands_over(self, call: AskedCall) -> bool:
        places = [place_in(call.tree, attachment.path) for attachment in call.attachments]
        if call.files:
            return False
        if self.folder is not None:
            return bool(places) and all(map(self._lies_there, places))
        if (top := self.attachments) is None:
            return not places
        return all(place is not None and is_below(place.path, top) for place in places)

    def _lies_there(self, place: Place | None) -> bool:
        """Return whether a file lies where the kind says, by the text of its path."""
        if place is None:
            return False
        if self.folder is None:
            return self.below is not None and is_below(place.path, self.below, self.suffix)
        return is_below(place.path, self.folder, self.suffix) and place.path.rpartition("/")[0] == self.folder


_ANY_TREE = Tree(mounts=(Mount(at="/", root="files", base="files"),))
_NO_DIGEST = "0" * 64


class FailedExample(NamedTuple):
    """Example that an entry does not keep: its key, its number from 0, and its text."""

    key: str
    number: int
    text: str


class AllowEntry(CallKind):
    """Entry of `approvals: allow:`."""

    why: str = ""
    match: tuple[str, ...] = ()
    """Examples that the entry covers: paths, command lines, names of workers, or arguments as JSON."""
    not_match: tuple[str, ...] = ()
    """Examples that it does not cover."""

    @property
    def kind(self) -> CallKind:
        """The kind without reason and examples."""
        return CallKind(**self.as_mapping())

    def pinned(self) -> AllowEntry:
        """Return the entry as runs take it along: without its examples."""
        return AllowEntry(**self.as_mapping(), why=self.why)

    def failed_examples(self, tree: Tree = _ANY_TREE) -> Iterator[FailedExample]:
        """Yield the examples that the entry does not keep, in a tree of these files; no file in it is a link."""
        for key, examples, expected in (("match", self.match, True), ("not_match", self.not_match, False)):
            for number, text in enumerate(examples):
                call = _example(self, text, tree if tree.mounts else _ANY_TREE)
                if call is not None and self.callers:
                    call = call.model_copy(update={"worker": self.callers[0]})
                if (call is not None and self.covers(call)) is not expected:
                    yield FailedExample(key, number, text)


def covering(entries: Iterable[AllowEntry], call: AskedCall) -> tuple[int, AllowEntry] | None:
    """Return the first entry that covers the call, with its number from 1; None where none does."""
    return next(((number, entry) for number, entry in enumerate(entries, 1) if entry.covers(call)), None)


def may_cover(entries: Iterable[AllowEntry], call: AskedCall) -> bool:
    """Return whether an entry would cover the call, if its files are where their paths say."""
    return any(entry.fits(call) for entry in entries)


def _example(kind: CallKind, text: str, tree: Tree) -> AskedCall | None:
    """Return the call that an example stands for; None for a text that no such call can have."""
    try:
        match kind.shape:
            case "command":
                use = CapabilityUse(name=LISTED, payload={"argv": list(split_command(text)), "cwd": "/"})
                return AskedCall(tool="shell", args={"command": text}, uses=(use,), tree=tree)
            case "callee":
                worker, *paths = text.split() or [""]
                handed = tuple(
                    Attachment(path=place.path, sha256=_NO_DIGEST, bytes=1, media_type="text/plain", place=real)
                    for place, real in (_placed(tree, path) for path in paths)
                )
                use = CapabilityUse(name="worker.call", payload={"worker": worker})
                return AskedCall(tool=worker, args={}, uses=(use,), tree=tree, attachments=handed)
            case "exact":
                given = json.loads(text)
                args = cast("dict[str, Any]", given) if isinstance(given, dict) else None
                code = {} if kind.sha256 is None else {"sha256": kind.sha256}
                use = CapabilityUse(name="python.call", payload={"tool": kind.tool} | code)
                return None if args is None else AskedCall(tool=kind.tool or "", args=args, uses=(use,))
            case _:
                place, real = _placed(tree, text)
                name = "sandbox.read" if kind.tool == "read_file" else "sandbox.write"
                use = CapabilityUse(name=name, payload={"path": place.path})
                seen = SeenFile(path=place.path, place=real)
                return AskedCall(tool=kind.tool or "", args={"path": text}, uses=(use,), tree=tree, files=(seen,))
    except (SandboxRefusal, ShellRefusal, ValueError):
        return None


def _placed(tree: Tree, path: str) -> tuple[Place, str]:
    """Return the place of a path, and the path in the workshop that it stands for. Raises SandboxRefusal."""
    place = locate(tree, path)
    return place, join(place.mount.root, place.relative)


DEFAULT_TIMES = 20
DEFAULT_SECONDS = 3600
MOST_TIMES = 1000


class KindGrant(Value):
    """Agreement of a person to further calls of a kind, for the rest of a run."""

    kind: CallKind
    times: int = Field(default=DEFAULT_TIMES, ge=1, le=MOST_TIMES)
    """Number of further calls."""
    seconds: Duration = DEFAULT_SECONDS
    """Seconds from the decision during which they may be made."""

    @property
    def words(self) -> str:
        """The grant in words."""
        times = "once" if self.times == 1 else f"{self.times} times"
        return f"{self.kind.sentence}, {times} more, for {described(Dimension.TIME, Decimal(self.seconds))}"


class GrantedKind(Value):
    """Kind that was granted, and the circumstances of the call that it was granted on."""

    kind: CallKind
    times: int
    seconds: int
    names: tuple[str, ...]
    """Capabilities of that call; a covered call has no other."""
    places: tuple[str, ...]
    """Real folders, or file, relative to the workshop, that the kind's path stands for; empty where it has none."""
    surroundings: str
    held: tuple[SeenFile, ...]
    """Files that a command names by words that are not free."""
    whom: tuple[Any, ...]
    """People who had to agree."""

    @classmethod
    def of(cls, grant: KindGrant, call: AskedCall, whom: tuple[Any, ...]) -> GrantedKind:
        """Return the kind as it is granted on this call, to which these people had to agree."""
        return cls(
            kind=grant.kind,
            times=grant.times,
            seconds=grant.seconds,
            names=tuple(sorted(call.names)),
            places=_real_places(grant.kind, call),
            surroundings=call.surroundings,
            held=_held(grant.kind, call),
            whom=whom,
        )

    def covers(self, call: AskedCall, whom: tuple[Any, ...]) -> bool:
        """Return whether the call, to which these people would have to agree, is covered."""
        return (
            self.kind.covers(call)
            and call.names <= set(self.names)
            and self.whom == whom
            and self.surroundings == call.surroundings
            and self.places == _real_places(self.kind, call)
            and self.held == _held(self.kind, call)
        )


def _real_places(kind: CallKind, call: AskedCall) -> tuple[str, ...]:
    folder = kind.path or kind.below or kind.folder or kind.attachments
    if folder is None:
        return ()
    try:
        _, places = locate_all(call.tree, folder)
    except SandboxRefusal:
        return ()
    return tuple(sorted(join(place.mount.root, place.relative) for place in places))


def _held(kind: CallKind, call: AskedCall) -> tuple[SeenFile, ...]:
    """Return the files of a command but those that its free word alone names."""
    if kind.command is None:
        return ()
    argv = argv_of(call) or ()
    word = free_word(kind.command, argv)
    named = None if word is None else _path_of(word, call)
    fixed = [one for number, one in enumerate(argv) if number != form_of(kind.command).free]
    kept = (
        one
        for one in call.files
        # A program makes a file of a word without suffix, too.
        if named not in (one.path, one.path.rpartition(".")[0]) or _is_named(one.path, fixed)
    )
    return tuple(sorted(kept, key=lambda one: one.path))


def _is_named(path: str, words: Iterable[str]) -> bool:
    """Return whether the last part of a path stands in one of these words, however it is spelled."""
    whole = PurePosixPath(path)
    return any(whole.name in word or whole.stem == PurePosixPath(word).name for word in map(unquote, words))


def _path_of(word: str, call: AskedCall) -> str | None:
    try:
        return locate(call.tree, f"{call.uses[0].payload.get('cwd')}/{word}").path
    except SandboxRefusal:
        return None


MAX_OFFERED = 8
_MAX_ARGS_CHARS = 2_000
"""Longest arguments that a rule repeats word by word: nobody would read more in a workshop's file."""


@dataclass(frozen=True)
class Generalisation:
    """Kind that covers a call."""

    kind: CallKind
    freed: tuple[str, ...] = ()
    """Values that the call has for each part that the kind leaves free."""
    breadth: int = 0
    """Number of steps from the call itself to the kind."""


_Step = tuple[dict[str, Any], tuple[str, ...], int]
"""Keys of a kind that may be one, with `freed` and `breadth` as a Generalisation has them."""


def _step(keys: dict[str, Any], freed: tuple[str, ...] = (), breadth: int = 0) -> _Step:
    return keys, freed, breadth


def kinds_of(call: AskedCall) -> tuple[CallKind, ...]:
    """Return the kinds that cover the call, at most MAX_OFFERED, the most specific first; none for a call that is
    always asked about by itself."""
    return tuple(one.kind for one in _covering(call, _offers(call)))[:MAX_OFFERED]


def generalisations(call: AskedCall) -> tuple[Generalisation, ...]:
    """Return the kinds that a rule learned from the call may have, the narrowest first; none for a call that is
    always asked about by itself.

    Each step frees something: a number, or the name of a file in one folder with one suffix.
    """
    return tuple(_covering(call, _steps(call)))


def paths_of(call: AskedCall) -> list[str]:
    """Return the virtual paths of the files that a call is about: its own, or those that it hands over or names."""
    place = place_of(call)
    if place is not None:
        return [place.path]
    return [one.path for one in (*call.attachments, *call.files)]


def _covering(call: AskedCall, steps: Iterable[_Step]) -> Iterable[Generalisation]:
    """Return the kinds with these keys that cover the call, each once."""
    found: dict[str, Generalisation] = {}
    for keys, freed, breadth in steps:
        try:
            kind = CallKind.model_validate(keys)
        except ValidationError:
            continue
        if kind.key not in found and kind.covers(call):
            found[kind.key] = Generalisation(kind, freed, breadth)
    return found.values()


def _exactly(call: AskedCall) -> _Step:
    codes = {use.payload.get("sha256") for use in call.uses}
    return _step({"tool": call.tool, "args": call.args, "sha256": codes.pop() if len(codes) == 1 else None})


def _offers(call: AskedCall) -> Iterator[_Step]:
    place, argv, callee = place_of(call), argv_of(call), callee_of(call)
    if place is not None:
        yield _step({"tool": call.tool, "path": place.path})
        path = PurePosixPath(place.path)
        for folder in _folders(path):
            if path.suffix:
                yield _step({"tool": call.tool, "below": folder, "suffix": path.suffix})
            yield _step({"tool": call.tool, "below": folder})
    elif argv is not None:
        yield from _offers_of_command(argv, call)
    elif callee is not None:
        yield from _offers_of_callee(callee, call)
    else:
        yield _exactly(call)


def _offers_of_command(argv: tuple[str, ...], call: AskedCall) -> Iterator[_Step]:
    yield _step({"command": shlex.join(argv)})
    names = {one.path.rpartition("/")[2] for one in call.files}
    for number in reversed(range(1, len(argv))):
        word = argv[number]
        if fits_word("{number}", word):
            free = "{number}"
        elif "/" in word or word in names:
            free = "{path}"
        elif number > 1:
            free = "{name}"
        else:
            continue  # the first word is a subcommand more often than a name
        yield _step({"command": _with_free(argv, number, free)})


def _offers_of_callee(callee: str, call: AskedCall) -> Iterator[_Step]:
    places = [place_in(call.tree, attachment.path) for attachment in call.attachments]
    if not places:
        yield _step({"worker": callee})
    elif None not in places:
        paths = [PurePosixPath(place.path) for place in places if place is not None]
        for folder in _folders(paths[0]):
            if all(path.is_relative_to(folder) for path in paths):
                yield _step({"worker": callee, "attachments": folder})


def _folders(path: PurePosixPath) -> list[str]:
    """Return the folders around a path, the nearest first, without the top: below it lies everything."""
    return [str(folder) for folder in path.parents if str(folder) != "/"]


def _steps(call: AskedCall) -> Iterator[_Step]:
    place, argv, callee = place_of(call), argv_of(call), callee_of(call)
    if place is not None:
        yield _step({"tool": call.tool, "path": place.path})
        if (where := _in_folder(place.path)) is not None:
            yield _step({"tool": call.tool, **where}, (place.path,), 1)
    elif argv is not None:
        yield from _steps_of_command(argv, call)
    elif callee is not None:
        yield from _steps_of_callee(callee, call)
    elif len(canonical(call.args)) <= _MAX_ARGS_CHARS:
        yield _exactly(call)


def _steps_of_command(argv: tuple[str, ...], call: AskedCall) -> Iterator[_Step]:
    yield _step({"command": shlex.join(argv)})
    numbers = numbers_in(argv) or ()
    for number in range(1, len(argv)):
        word = argv[number]
        if fits_word("{number}", word):
            if number in numbers:
                yield _step({"command": _with_free(argv, number, "{number}")}, (word,), 1)
            continue
        # A bare word may be the name of a task, a branch or a target: only what is surely a file's is freed.
        where = f"{call.uses[0].payload.get('cwd')}/{word}"
        place = place_in(call.tree, where) if fits_word("{path}", word) else None
        if place is None or ("/" not in word and all(file.path != place.path for file in call.files)):
            continue
        where = _in_folder(place.path)
        if where is not None and may_free_file(argv, where["suffix"]):
            yield _step({"command": _with_free(argv, number, "{path}"), **where}, (place.path,), 2)


def _steps_of_callee(callee: str, call: AskedCall) -> Iterator[_Step]:
    # The entry covers every task, so it takes different ones, as it takes different files.
    task = canonical({name: value for name, value in call.args.items() if name != "attachments"})
    places = [place_in(call.tree, attachment.path) for attachment in call.attachments]
    if not places:
        yield _step({"worker": callee}, (task,), 1)
    elif len(places) == 1 and places[0] is not None and (where := _in_folder(places[0].path)) is not None:
        yield _step({"worker": callee, **where}, (places[0].path, task), 1)


def _in_folder(path: str) -> dict[str, str] | None:
    """Return the keys of files like this one: in its folder, with its suffix; None for a name without a suffix, at the
    top of the tree, where everything lies, and in a hidden folder, where programs are configured (`.github`)."""
    pure = PurePosixPath(path)
    if not pure.suffix or str(pure.parent) == "/" or is_hidden(pure.parent):
        return None
    return {"folder": str(pure.parent), "suffix": pure.suffix}


def _with_free(argv: tuple[str, ...], number: int, free: str) -> str:
    return " ".join(free if at == number else shlex.quote(word) for at, word in enumerate(argv))
