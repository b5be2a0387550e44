"""Types of the problems of the HTTP door (RFC 9457): which status an error has, and what to do about it."""

from __future__ import annotations

from typing import NamedTuple

from llm_do_temporal.errors import (
    AccessRefused,
    ConnectionFailed,
    DecisionRefused,
    DefinitionError,
    KeyMismatch,
    LlmDoError,
    UnknownHere,
    UsageError,
)

_DOCS = "`/api/v1/docs` shows what there is, and what a request may say."
_AGAIN = "Read it again."


class ProblemType(NamedTuple):
    """Type of the problems of one status."""

    title: str
    errors: tuple[type[LlmDoError], ...]
    """Classes of the errors that have the status; where none was raised, the name of the first is the `code`."""
    next_step: str | None = None
    """Advice where the error has none."""


PROBLEM_TYPES = {
    403: ProblemType("The token does not allow this.", (AccessRefused,)),
    404: ProblemType("There is no such thing, or the token's owner may not know of it.", (UnknownHere,), _DOCS),
    409: ProblemType("The decision cannot be taken.", (DecisionRefused,), _AGAIN),
    422: ProblemType("The request says something that cannot be.", (UsageError, DefinitionError), _DOCS),
    424: ProblemType("It is encrypted with a key that the server does not have.", (KeyMismatch,)),
    503: ProblemType("The Temporal server or blob store is unreachable.", (ConnectionFailed,), "Send it again later."),
    500: ProblemType("That did not work.", (LlmDoError,)),
    400: ProblemType("The request cannot be read.", (UsageError,), _DOCS),
    401: ProblemType("The token is missing or unknown.", (AccessRefused,), "`llm-do-temporal token create` makes one."),
    405: ProblemType("The path has other methods.", (UsageError,), "`Allow` names them."),
    412: ProblemType("What would be decided is not what was shown.", (DecisionRefused,), _AGAIN),
    413: ProblemType("The request is too large.", (UsageError,), "Send fewer or smaller files."),
    421: ProblemType(
        "The server does not answer under this name.",
        (UsageError,),
        "Use the address that it has printed, or start it with `--allowed-host NAME`.",
    ),
    428: ProblemType("The decision does not say what was shown.", (UsageError,), "Send the `ETag` in `If-Match`."),
}
"""Problem types by status. An error has the first that fits; those listed after 500 are raised by routes alone."""
