"""Evaluators of the files that a case wrote."""

from __future__ import annotations

import hashlib
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from llm_do_temporal.policy.evaluations.evaluators.base import BaseEvaluator, Finding, Seen
from llm_do_temporal.policy.evaluations.facts import CaseFile
from llm_do_temporal.policy.evaluations.json_values import quoted
from llm_do_temporal.policy.evaluations.scores import EvaluatorProblem


class _OfFile(BaseEvaluator):
    """Evaluator of one file."""

    path: str = Field(min_length=1)
    """Path as the worker names the file, like `/notes.md`."""

    @property
    def default_name(self) -> str:
        """See BaseEvaluator."""
        return f"{type(self).__name__} {self.path}"


class FileEquals(_OfFile):
    """Passes where the case wrote a file of exactly this text, or of bytes with this digest."""

    kind: Literal["FileEquals"] = "FileEquals"
    text: str | None = None
    """Whole text of the file, newlines included."""
    sha256: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")
    """Digest of the file's bytes."""

    @model_validator(mode="after")
    def _one_content(self) -> Self:
        if (self.text is None) is (self.sha256 is None):
            raise ValueError("give either 'text' or 'sha256'")
        return self

    def evaluate(self, seen: Seen) -> Finding:
        """See BaseEvaluator."""
        file = _written(seen, self.path)
        if file is None or file.sha256 is None:
            return False, _absent(seen, self.path)
        wanted = self.sha256 or hashlib.sha256((self.text or "").encode(errors="surrogatepass")).hexdigest()
        if file.sha256 == wanted:
            return True, ""
        return False, f"'{self.path}' has other content{'' if file.text is None else f': {quoted(file.text)}'}"


class FileContains(_OfFile):
    """Passes where the case wrote a file in which this text stands."""

    kind: Literal["FileContains"] = "FileContains"
    value: str
    """Text that the file must contain."""

    def evaluate(self, seen: Seen) -> Finding:
        """See BaseEvaluator."""
        file = _written(seen, self.path)
        if file is None or file.sha256 is None:
            return False, _absent(seen, self.path)
        if file.text is None:
            raise EvaluatorProblem(f"'{self.path}' is no small text file ({file.bytes} bytes); use `FileEquals`")
        found = self.value in file.text
        return found, "" if found else f"{quoted(file.text)} does not contain {quoted(self.value)}"


class FileWritten(_OfFile):
    """Passes where the case wrote the file, whatever its content."""

    argument: ClassVar[str | None] = "path"
    kind: Literal["FileWritten"] = "FileWritten"

    def evaluate(self, seen: Seen) -> Finding:
        """See BaseEvaluator."""
        file = _written(seen, self.path)
        written = file is not None and file.sha256 is not None
        return written, "" if written else _absent(seen, self.path)


class FileUntouched(_OfFile):
    """Passes where the case neither wrote nor deleted the file."""

    argument: ClassVar[str | None] = "path"
    kind: Literal["FileUntouched"] = "FileUntouched"

    def evaluate(self, seen: Seen) -> Finding:
        """See BaseEvaluator."""
        file = _written(seen, self.path)
        if file is None:
            return True, ""
        return False, f"'{self.path}' was {'deleted' if file.sha256 is None else 'written'}"


def _written(seen: Seen, path: str) -> CaseFile | None:
    """Return the file that the case left at the path; None where it touched none."""
    wanted = path.lstrip("/")
    return next((file for name, file in seen.facts.files.items() if name.lstrip("/") == wanted), None)


def _absent(seen: Seen, path: str) -> str:
    names = sorted(name for name, file in seen.facts.files.items() if file.sha256 is not None)
    rest = f", and {len(names) - 5} more" if len(names) > 5 else ""
    return f"'{path}' was not written; written: {', '.join(names[:5]) or 'nothing'}{rest}"
