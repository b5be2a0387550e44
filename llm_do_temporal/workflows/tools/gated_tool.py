"""Tools as the gate sees them: the questions of a call, its effect once they are answered, and its outcome."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

from llm_do_temporal.errors import LlmDoError
from llm_do_temporal.messages.approvals import ExtensionQuestion, Verdict
from llm_do_temporal.messages.budget import Usage
from llm_do_temporal.policy.approvals import Terms
from llm_do_temporal.policy.files.attachments import Attachment
from llm_do_temporal.policy.identity import SeenFile
from llm_do_temporal.policy.values import CapabilityUse, canonical


@dataclass(frozen=True)
class ToolQuestion:
    """Question that a person may have to answer before a call is carried out."""

    uses: tuple[CapabilityUse, ...]
    args: dict[str, Any]
    """Arguments that a person is shown and a grant remembers."""
    summary: str
    changeable: bool = True
    """Whether `args` are the call's own arguments, which the person may change."""
    attachments: tuple[Attachment, ...] = ()
    """Files that the call hands over, for the person to look at."""
    files: tuple[SeenFile, ...] = ()
    """Files that the call names, as they were when it was prepared."""
    circumstances: str = ""
    """Digest of everything else that the effect depends on."""
    surroundings: str = ""
    """Digest of that part of it which calls of one kind have in common: folders, network, the callee's definition."""
    allowed: str = ""
    """Entry of `approvals: allow:` that lets the call through, in words; empty: none does."""
    in_layer: bool = False
    """Whether the call only changes files of a layer: nobody is asked before the review of that."""
    extension: ExtensionQuestion | None = None
    """Subject of a question that an extension asks by itself; None: the question is about a call."""
    again: str = ""
    """Id of the approval that was given to the same call or review, and not carried out; empty: it is the first."""

    @property
    def identity(self) -> str:
        """Text that names the question among those of one call; other files make it another question."""
        handed = [[attachment.path, attachment.sha256] for attachment in self.attachments]
        found = [file.model_dump(mode="json") for file in self.files]
        return canonical([[use.name for use in self.uses], self.args, handed, found, self.circumstances])


@dataclass(frozen=True)
class ToolOutcome:
    """Result of a call, and the usage of the workers it called."""

    value: Any = None
    usage: Usage = field(default_factory=Usage)
    failure: LlmDoError | None = None
    """Error that the model gets instead of the value, of a call that failed after it had spent something."""
    note: str = ""
    """Changes that people made to the call, or to calls below it: the model gets them beside the result."""


@dataclass(frozen=True)
class Shown:
    """Preview of a call, for a person."""

    diff: str | None = None
    files: tuple[SeenFile, ...] | None = ()
    """Files as the preview found them; None where that is not known."""
    note: str = ""
    """Unusual way in which the call would be carried out: part of the question, and of a remembered decision."""

    def put_to(self, question: ToolQuestion) -> ToolQuestion:
        """Return the question with the files and the note of this preview."""
        files = (*question.files, *(self.files or ()))
        return replace(question, files=files, circumstances=f"{question.circumstances} {self.note}".strip())

    def file(self, path: str) -> SeenFile | None:
        """Return the file with this virtual path as it was shown; None where it was not."""
        return next((file for file in self.files or () if file.path == path), None)


@dataclass(frozen=True)
class PreparedCall:
    """Call that has passed every check a machine can make."""

    questions: tuple[ToolQuestion, ...]
    effect: Callable[[], Awaitable[ToolOutcome]]
    preview: Callable[[], Awaitable[str | Shown]] | None = None
    """Makes the preview that is shown with the question; fails where the effect would."""
    bound: Callable[[Shown], Awaitable[ToolOutcome]] | None = None
    """Effect of a call that a person was asked about: it raises ShownDiffers, having done nothing, where something is
    not as it was shown. None: nothing that was shown can change."""
    then: Callable[[], Awaitable[PreparedCall]] | None = None
    """Does the part that needs the answers to the questions first, and returns the rest of the call. None: no such
    part."""


class GatedTool(Protocol):
    """Tool as the gate sees it."""

    name: str
    description: str
    schema: dict[str, Any]

    async def prepare(self, args: dict[str, Any]) -> PreparedCall:
        """Check the call and return its questions and its effect. Raises LlmDoError where it is refused."""
        ...


@runtime_checkable
class TakesOver(Protocol):
    """Tool whose calls change more than files: a fork that reuses one has to do the rest."""

    def take_over(self, args: dict[str, Any], value: Any) -> None:
        """Do what a call with this result has done in its workflow, besides the result."""


class AskedTool(Protocol):
    """Tool as a question at the desk names it, or a limit in the place of a tool."""

    @property
    def name(self) -> str:
        """Name that people and approval rules know it by."""
        ...

    @property
    def schema(self) -> dict[str, Any]:
        """JSON Schema of the arguments that a person may change."""
        ...


class AsksDesk(Protocol):
    """Desk of the run, as an invocation and its tools see it."""

    async def ask(
        self,
        tool: AskedTool,
        question: ToolQuestion,
        *,
        reason: str,
        terms: Terms,
        diff: str | None = None,
        account: str | None = None,
    ) -> Verdict:
        """Return the decision, however long it takes within these terms. Raises ApprovalTimedOut.

        `account` is that of a reached limit, the path of its invocation or "" for the run; None: no limit is reached.
        """
        ...

    def report(self, tool: AskedTool, error: Exception) -> None:
        """Log, for the people who run the service, that a tool broke."""

    async def withdraw_abandoned(self) -> None:
        """Take back the questions of calls that were cancelled."""
