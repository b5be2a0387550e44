"""A tool as the gate sees it: the questions of a call, what it does once they are answered, and what came of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from llm_do_temporal.errors import LlmDoError
from llm_do_temporal.messages.approvals import Verdict
from llm_do_temporal.messages.budget import Usage
from llm_do_temporal.policy.approvals import CapabilityUse, Terms, canonical
from llm_do_temporal.policy.files.attachments import Attachment
from llm_do_temporal.policy.identity import SeenFile


@dataclass(frozen=True)
class ToolQuestion:
    """One thing a person may have to be asked about a call."""

    uses: tuple[CapabilityUse, ...]
    args: dict[str, Any]
    """What is shown, and what a grant remembers."""
    summary: str
    changeable: bool = True
    """Whether `args` are the call's own arguments, which the person may change."""
    attachments: tuple[Attachment, ...] = ()
    """Files that the call hands over, for the person to look at."""
    files: tuple[SeenFile, ...] = ()
    """Files that the call names, as they were found."""
    circumstances: str = ""
    """Digest of what else the effect depends on."""

    @property
    def identity(self) -> str:
        """Names the question among those of one call; other files make it another question."""
        handed = [[one.path, one.sha256] for one in self.attachments]
        found = [one.model_dump(mode="json") for one in self.files]
        return canonical([[use.name for use in self.uses], self.args, handed, found, self.circumstances])


@dataclass(frozen=True)
class ToolOutcome:
    """What a call gave, and what it spent below itself (delegations)."""

    value: Any = None
    usage: Usage = field(default_factory=Usage)
    failure: LlmDoError | None = None
    """For a call that failed after it had spent something: what the model is told instead of the value."""
    note: str = ""
    """What people changed in the call, or in those it made: the model is told beside the result."""


@dataclass(frozen=True)
class Shown:
    """What a preview saw and a person is shown."""

    diff: str | None = None
    files: tuple[SeenFile, ...] | None = ()
    """Files as they were seen; None where nobody can tell."""
    note: str = ""
    """How else the call would be carried out than usual: part of the question, and of what is remembered."""

    def put_to(self, question: ToolQuestion) -> ToolQuestion:
        """The question with what was seen."""
        files = (*question.files, *(self.files or ()))
        return replace(question, files=files, circumstances=f"{question.circumstances} {self.note}".strip())

    def file(self, path: str) -> SeenFile | None:
        """The file with this virtual path, as it was shown."""
        return next((one for one in self.files or () if one.path == path), None)


@dataclass(frozen=True)
class PreparedCall:
    """A call that passed every check a machine can make."""

    questions: tuple[ToolQuestion, ...]
    effect: Callable[[], Awaitable[ToolOutcome]]
    preview: Callable[[], Awaitable[str | Shown]] | None = None
    """Makes what is shown with the question; fails where the effect would."""
    bound: Callable[[Shown], Awaitable[ToolOutcome]] | None = None
    """The effect, for a call that somebody was asked about: it raises ShownDiffers, having done nothing, where
    something is not as it was shown. None: nothing that was shown can change."""
    then: Callable[[], Awaitable[PreparedCall]] | None = None
    """Does what may only be done once the questions are answered, and says what is left to ask and to do."""


class GatedTool(Protocol):
    """A tool as the gate sees it."""

    name: str
    description: str
    schema: dict[str, Any]

    async def prepare(self, args: dict[str, Any]) -> PreparedCall:
        """Check the call and say what it would do. Raises LlmDoError."""
        ...


class AskedTool(Protocol):
    """A tool as a question at the desk names it, or a limit in the place of a tool."""

    @property
    def name(self) -> str:
        """The name that people and approval rules know it by."""
        ...

    @property
    def schema(self) -> dict[str, Any]:
        """JSON Schema of the arguments that a person may change."""
        ...


class AsksDesk(Protocol):
    """The desk of the run, as an invocation and its tools see it."""

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
        """The decision, however long it takes within these terms. Raises ApprovalTimedOut.

        `account` is that of the limit in question, for a question at a reached limit.
        """
        ...

    def report(self, tool: AskedTool, error: Exception) -> None:
        """Log, for the people who run the service, that a tool broke."""
        ...

    async def withdraw_abandoned(self) -> None:
        """Take back the questions of calls that were cancelled."""
        ...
