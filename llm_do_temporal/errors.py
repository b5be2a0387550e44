"""Every error a user can see, split by who must act on it.

    LlmDoError
    ├── UsageError             whoever asks: a flag, a value, a port
    │   └── UnknownHere        whoever asks: no such run, or none that they may know of
    ├── DefinitionError        the author: a worker or workshop file is missing or wrong
    │   ├── WorkerNotFound
    │   └── WorkshopNotFound
    ├── ConnectionFailed       the operator: no Temporal server answers
    │   └── BlobsUnreachable   … or not the store that keeps a workshop's blobs
    ├── KeyMismatch            the operator: an encryption key is missing or wrong
    ├── AccessRefused          the one who calls: a token does not allow this
    ├── Refusal                nobody: policy said no, and the model is told why
    │   ├── SandboxRefusal
    │   │   └── SandboxEscalation
    │   ├── AttachmentRefusal
    │   ├── DelegationRefusal
    │   │   └── DepthExceeded
    │   ├── ShellRefusal
    │   ├── ApprovalRefusal
    │   └── ModelRefusal
    ├── EffectFailed           nobody: an effect did not work (no such file, not text); the model is told
    │   ├── ShownDiffers       the gate: what is there is not what a person was shown; it asks again
    │   └── OutcomeUnknown     the person who decides: a call was sent, and no answer came
    ├── DecisionRefused        the person who decides: unknown approval, already decided, invalid change
    └── RunFailed              the operator: the run ended without a result
        ├── ModelFailed        the model or its provider
        ├── RunAborted         a refusal, in a workshop that says `on_refusal: abort`
        ├── ApprovalTimedOut   nobody decided in time, in a workshop that says `on_timeout: fail`
        ├── BudgetExceeded     a limit was reached
        ├── ItemsFailed        a batch has completed, and items of it have failed
        └── RunCancelled       somebody cancelled it

Errors travel through Temporal by class name (`code`), so renaming a class is a change of the wire
format. Messages say what happened, the name in quotes, what is allowed and what to do next.
"""

from __future__ import annotations

from typing import ClassVar


class LlmDoError(Exception):
    """Base of every error that is meant for a person or a model; `str()` of it is the message."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, next_step: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.next_step = next_step

    @property
    def code(self) -> str:
        """The name this error has on the wire."""
        return type(self).__name__


class UsageError(LlmDoError):
    """A request that cannot be carried out as given: a command line, a call from Python, a request to a door."""

    exit_code = 2


class UnknownHere(UsageError):
    """A run, question or worker that is not there, or that whoever asks may not know of."""


class ExtensionNeeded(UsageError):
    """A request that needs an extension which is not installed here; another worker service may have it."""


class DefinitionError(LlmDoError):
    """A worker or workshop file that is wrong; the message starts with `file:line` where they are known."""

    exit_code = 8

    def __init__(
        self, message: str, *, file: str | None = None, line: int | None = None, next_step: str | None = None
    ) -> None:
        where = "" if file is None else f"{file}:{line}: " if line is not None else f"{file}: "
        super().__init__(where + message, next_step=next_step)
        self.problem = message
        self.file = file
        self.line = line


class WorkerNotFound(DefinitionError):
    """No file defines the worker of this name."""


class WorkshopNotFound(DefinitionError):
    """No `workshop.yaml` where one is needed."""


class ConnectionFailed(LlmDoError):
    """No Temporal server answers at the address."""

    exit_code = 4


class BlobsUnreachable(ConnectionFailed):
    """The store of a workshop's blobs does not answer, refuses access or is full. Nothing is lost: later it goes on."""


class KeyMismatch(LlmDoError):
    """A value is encrypted with a key that this process does not have. Nothing is lost: with the key, work goes on."""

    exit_code = 2

    def __init__(self, message: str, *, key: str = "", next_step: str | None = None) -> None:
        """`key` is its id, fit to be shown."""
        super().__init__(message, next_step=next_step)
        self.key = key


class AccessRefused(LlmDoError):
    """A token, or the kind of its owner, that does not allow what was asked for."""

    exit_code = 2


class Refusal(LlmDoError):
    """Policy refused a call; the model is told the message."""


class SandboxRefusal(Refusal):
    """A path is outside the invocation's tree, or what was asked of it is not allowed there."""


class SandboxEscalation(SandboxRefusal):
    """A worker asked for more file access than its caller has."""


class AttachmentRefusal(Refusal):
    """An attachment breaks the policy of the caller, of the callee or of the tree."""


class DelegationRefusal(Refusal):
    """The caller may not call this worker."""


class DepthExceeded(DelegationRefusal):
    """A delegation past the deepest level allowed."""


class ShellRefusal(Refusal):
    """A command that is not one program with plain arguments."""


class ApprovalRefusal(Refusal):
    """A call was blocked, rejected, or needed an approval that nobody can give in this mode."""


class ModelRefusal(Refusal):
    """No model is configured, or the one chosen is not among the worker's compatible models."""


class EffectFailed(LlmDoError):
    """An effect could not be carried out; the model is told the message."""


class ShownDiffers(EffectFailed):
    """A file differs from the one that a person was shown when agreeing to the call; nothing was done."""


class OutcomeUnknown(EffectFailed):
    """A call was sent and no usable answer came: the effect may have happened. The message begins a sentence."""


class LayerUnavailable(EffectFailed):
    """A command cannot work on a layer on this machine; nothing was run."""


class DecisionRefused(LlmDoError):
    """A decision that cannot be taken: unknown approval, already decided, or an invalid change."""

    exit_code = 2


class RunFailed(LlmDoError):
    """A run, or one invocation of it, ended without a result."""


class ModelFailed(RunFailed):
    """The model, its provider or its credentials made a turn impossible."""


class RunAborted(RunFailed):
    """A call was refused in a workshop whose `on_refusal` is `abort`."""


class ApprovalTimedOut(RunFailed):
    """No person decided in time about a call for which the workshop says `on_timeout: fail`."""


class BudgetExceeded(RunFailed):
    """A limit of the run was reached."""

    exit_code = 7


class ItemsFailed(RunFailed):
    """A batch has completed, and items of it have failed; the others have their results."""

    exit_code = 9


class RunCancelled(RunFailed):
    """The run was cancelled or terminated."""

    exit_code = 5


def error_classes() -> dict[str, type[LlmDoError]]:
    """Every error class by the name it has on the wire."""
    found: list[type[LlmDoError]] = [LlmDoError]
    for cls in found:
        found += cls.__subclasses__()
    return {cls.__name__: cls for cls in found}


def rebuild_error(code: str | None, message: str, next_step: str | None = None) -> LlmDoError | None:
    """The error that left a process as `code` and `message`; None when the code is not one of ours."""
    known = error_classes().get(code or "")
    return None if known is None else known(message, next_step=next_step)
