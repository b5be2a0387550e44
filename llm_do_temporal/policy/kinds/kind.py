"""Kind of calls: a sentence about calls that are alike, and whether it covers one.

A kind has one of four shapes: files of one tool (`tool` with `path` or `below`), commands (`command`), calls of a
worker (`worker`), or one call exactly (`tool` with `args`). It covers a call by what the call really is: where its
file lies once links are followed, and the words that would be run. Facts that nobody looked up cover nothing.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from llm_do_temporal.policy.files.tool_paths import PATH_TOOLS
from llm_do_temporal.policy.kinds.call import AskedCall
from llm_do_temporal.policy.kinds.callees import callee_of, hands_over, hands_over_really
from llm_do_temporal.policy.kinds.commands import CommandPattern, argv_of, fits, leads_nowhere_else
from llm_do_temporal.policy.kinds.files import Suffix, TreePath, is_below, is_seen_there, place_of
from llm_do_temporal.policy.uses import canonical
from llm_do_temporal.policy.values import Value

Shape = Literal["files", "command", "callee", "exact"]
_KEYS: dict[Shape, frozenset[str]] = {
    "files": frozenset({"tool", "path", "below", "suffix"}),
    "command": frozenset({"command"}),
    "callee": frozenset({"worker", "attachments"}),
    "exact": frozenset({"tool", "args", "sha256"}),
}
_SHAPES = "`tool` with `path` or `below`, `command`, `worker`, or `tool` with `args`"
_SHOWN_ARGS = 120
_Text = Annotated[str, StringConstraints(min_length=1)]


class CallKind(Value):
    """Kind of calls."""

    tool: _Text | None = None
    path: TreePath | None = None
    """The one file that is meant."""
    below: TreePath | None = None
    """Folder that the file lies in, at any depth."""
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

    @model_validator(mode="after")
    def _is_of_one_shape(self) -> Self:
        given = {name for name in CallKind.model_fields if getattr(self, name) is not None}
        keys = _KEYS[self.shape]
        if self.shape == "files" and len(given & {"path", "below"}) != 1:
            raise ValueError(f"a kind of calls is {_SHAPES}")
        if stray := sorted(given - keys):
            raise ValueError(f"`{stray[0]}` does not go with `{min(given & keys - {'tool'})}`; a kind is {_SHAPES}")
        if self.shape in ("files", "exact"):
            self._check_tool()
        if self.path is not None and self.suffix is not None:
            raise ValueError("`suffix` goes with `below`; `path` is one file already")
        return self

    def _check_tool(self) -> None:
        is_file_tool = self.tool in PATH_TOOLS
        if self.tool is None:
            raise ValueError(f"`tool` is missing; a kind of calls is {_SHAPES}")
        if self.shape == "files" and not is_file_tool:
            raise ValueError(
                f"'{self.tool}' is no file tool; `path` and `below` are for {', '.join(sorted(PATH_TOOLS))}"
            )
        if self.shape == "exact" and (is_file_tool or self.tool == "shell"):
            meant = "`path` or `below`" if is_file_tool else "`command`"
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
    def sentence(self) -> str:
        """The kind in words, as people are shown it before they agree to it."""
        match self.shape:
            case "command":
                return f"the command `{self.command}`"
            case "callee":
                handed = f", with files below {self.attachments}" if self.attachments else ", with no files"
                return f"calls of {self.worker}{handed}"
            case "exact":
                given = canonical(self.args)
                shown = given if len(given) <= _SHOWN_ARGS else f"{given[:_SHOWN_ARGS]}…"
                return f"{self.tool} with exactly {shown}"
            case _:
                return f"{self.tool} of {self._files}"

    @property
    def _files(self) -> str:
        return self.path or f"{f'{self.suffix} ' if self.suffix else ''}files below {self.below}"

    def fits(self, call: AskedCall) -> bool:
        """Return whether the call is of this kind by its text alone; where its files really are is not looked at."""
        if not call.may_be_covered:
            return False
        if self.command is not None:
            argv = argv_of(call)
            return argv is not None and call.isolated and fits(self.command, argv)
        if self.worker is not None:
            return callee_of(call) == self.worker and hands_over(call, self.attachments)
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

    def _fits_file(self, call: AskedCall) -> bool:
        place = place_of(call)
        if place is None or call.tool != self.tool:
            return False
        return place.path == self.path if self.below is None else is_below(place.path, self.below, self.suffix)

    def _is_exactly(self, call: AskedCall) -> bool:
        named = all(use.payload.get("tool") == call.tool for use in call.uses)
        code = {use.payload.get("sha256") for use in call.uses}
        is_plain = call.tool == self.tool and named and not call.files and not call.attachments
        return is_plain and code == {self.sha256} and canonical(call.args) == canonical(self.args)
