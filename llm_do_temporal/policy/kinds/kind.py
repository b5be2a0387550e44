"""Kind of calls: a sentence about calls that are alike, and whether it covers one.

A kind has one of four shapes: files of one tool (`tool` with `path` or `below`), commands (`command`), calls of a
worker (`worker`), or one call exactly (`tool` with `args`). It covers a call by what the call really is: where its
file lies once links are followed, and the words that would be run. Facts that nobody looked up cover nothing.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from llm_do_temporal.policy.files.sandbox import Place
from llm_do_temporal.policy.files.tool_paths import PATH_TOOLS
from llm_do_temporal.policy.kinds.call import AskedCall
from llm_do_temporal.policy.kinds.callees import callee_of, hands_over, hands_over_really
from llm_do_temporal.policy.kinds.commands import CommandPattern, argv_of, fits, free_place, leads_nowhere_else
from llm_do_temporal.policy.kinds.files import Suffix, TreePath, is_below, is_seen_there, place_in, place_of
from llm_do_temporal.policy.shell import split_command
from llm_do_temporal.policy.uses import canonical
from llm_do_temporal.policy.values import Value

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
        if self.args is None:
            return self._fits_file(call)
        return self._is_exactly(call)

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
        if self.folder is None:
            return hands_over(call, self.attachments)
        places = [place_in(call.tree, attachment.path) for attachment in call.attachments]
        return not call.files and bool(places) and all(map(self._lies_there, places))

    def _fits_file(self, call: AskedCall) -> bool:
        place = place_of(call)
        if place is None or call.tool != self.tool:
            return False
        return place.path == self.path if self.path is not None else self._lies_there(place)

    def _lies_there(self, place: Place | None) -> bool:
        """Return whether a file lies where the kind says, by the text of its path."""
        if place is None:
            return False
        if self.folder is None:
            return self.below is not None and is_below(place.path, self.below, self.suffix)
        return is_below(place.path, self.folder, self.suffix) and place.path.rpartition("/")[0] == self.folder

    def _is_exactly(self, call: AskedCall) -> bool:
        named = all(use.payload.get("tool") == call.tool for use in call.uses)
        code = {use.payload.get("sha256") for use in call.uses}
        is_plain = call.tool == self.tool and named and not call.files and not call.attachments
        return is_plain and code == {self.sha256} and canonical(call.args) == canonical(self.args)
