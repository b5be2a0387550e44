"""Rules of delegation: the workers and templates that a worker may call, and the depth of such calls.

A template is named by its path below the workshop (`templates/one.yaml`) or, when it ships with the package, as
`pkg:name`. Names are compared as text, after `./` and doubled slashes are gone; capitals count. A lock wins over any
name.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from pydantic import Field

from llm_do_temporal.errors import DefinitionError, DelegationRefusal, DepthExceeded
from llm_do_temporal.policy.files.attachments import DEFAULT_MAX_ATTACHMENTS, DEFAULT_MAX_TOTAL_BYTES, AttachmentPolicy
from llm_do_temporal.policy.files.protection import fits
from llm_do_temporal.policy.files.sandbox import Suffixes
from llm_do_temporal.policy.values import Value, words

DEFAULT_MAX_DEPTH = 5
RESERVED_NAMES = frozenset(
    words("worker_call worker_create llm_worker_call shell read_file write_file edit_file list_files final_result")
)
_NAME = re.compile(r"[a-z][a-z0-9_-]*")
MAX_WORKER_NAME_CHARS = 64
"""Longest name of a worker: it is a tool's name, of which providers accept at most 64 characters."""


def check_name(name: str) -> None:
    """Raise DefinitionError unless `name` can be a worker's name: `[a-z][a-z0-9_-]*`, short, not a tool's."""
    if not _NAME.fullmatch(name) or len(name) > MAX_WORKER_NAME_CHARS:
        raise DefinitionError(
            f"worker name '{name[:80]}' is not valid; a name is a lower-case letter followed by "
            f"letters, digits, '_' or '-', at most {MAX_WORKER_NAME_CHARS} characters"
        )
    if name in RESERVED_NAMES:
        raise DefinitionError(f"worker name '{name}' is reserved for a tool; choose another")


def is_name(name: str) -> bool:
    """Return whether `name` can be a worker's name."""
    try:
        check_name(name)
    except DefinitionError:
        return False
    return True


def check_allowed(name: str, allow: Sequence[str], *, caller: str) -> None:
    """Raise DelegationRefusal unless `allow` names the worker or holds `*`."""
    if "*" not in allow and name not in allow:
        listed = ", ".join(f"'{one}'" for one in allow) if allow else "nobody"
        raise DelegationRefusal(f"worker '{caller}' may not call '{name}'; it may call {listed}")


def check_depth(depth: int, max_depth: int, *, worker: str) -> None:
    """Raise DepthExceeded when a worker would run deeper than the limit; the entry worker is at depth 0."""
    if depth > max_depth:
        raise DepthExceeded(
            f"RecursionError: maximum worker depth exceeded: '{worker}' would run at depth {depth}, "
            f"the limit is {max_depth} (max_depth)"
        )


PACKAGE = "pkg:"
MAX_TEMPLATE_NAME_CHARS = 4_096
"""Longest name: the length that a path can have. Each part of it is held against every glob."""
TEMPLATE_SUFFIXES = (".yaml", ".yml")
FOLDER = "templates/"
_BETWEEN = "--"
"""Sign for `/` in the worker name of a template."""
_DIGEST_CHARS = 32


class TemplateRules(Value):
    """`templates:` of a worker's delegation."""

    allow: tuple[str, ...] = ()
    """Globs; `*` stays within one folder, `**` is any number of folders. Empty: no template."""
    lock: str | None = None
    """Template that is used for every call, whichever name it gives."""
    allowed_suffixes: Suffixes = ()
    """Endings of the names of files that calls may attach; empty: all."""
    max_attachments: int = Field(default=DEFAULT_MAX_ATTACHMENTS, ge=0)
    """Most files of a call."""
    max_bytes: int = Field(default=DEFAULT_MAX_TOTAL_BYTES, ge=0)
    """Size of all attachments of a call together."""
    enabled: bool = True
    """`false`: it stays in the file, and is not offered."""

    @property
    def attachments(self) -> AttachmentPolicy:
        """The limits as a policy for attached files."""
        return AttachmentPolicy(
            max_attachments=self.max_attachments,
            max_total_bytes=self.max_bytes,
            allowed_suffixes=self.allowed_suffixes,
        )


def template_problems(rules: TemplateRules) -> list[tuple[tuple[str | int, ...], str]]:
    """Return the problems of an author's rules, each as the path of the key and a message."""
    problems: list[tuple[tuple[str | int, ...], str]] = []
    for number, pattern in enumerate(rules.allow):
        if not pattern.startswith(PACKAGE) and _plain(pattern) is None:
            problems.append((("allow", number), _outside(pattern)))
    if rules.lock is not None:
        try:
            normalise_template(rules.lock)
        except DelegationRefusal as refusal:
            problems.append((("lock",), refusal.message))
    return problems


def normalise_template(name: str) -> str:
    """Return the normal spelling of a template's name. Raises DelegationRefusal for an impossible name."""
    if len(name) > MAX_TEMPLATE_NAME_CHARS:
        raise DelegationRefusal(
            f"a template's name has at most {MAX_TEMPLATE_NAME_CHARS} characters; this has {len(name)}"
        )
    if name.startswith(PACKAGE):
        plain = name.removeprefix(PACKAGE)
        for suffix in TEMPLATE_SUFFIXES:
            plain = plain.removesuffix(suffix)
        try:
            check_name(plain)
        except DefinitionError as error:
            raise DelegationRefusal(
                f"template '{name[:80]}' is not a name of one that ships with the package"
            ) from error
        return PACKAGE + plain
    path = _plain(name)
    if path is None:
        raise DelegationRefusal(_outside(name))
    if not path.endswith(TEMPLATE_SUFFIXES):
        raise DelegationRefusal(
            f"'{name[:80]}' is not a template: a template is a file such as templates/one.yaml, or {PACKAGE}NAME"
        )
    return path


def is_template(asker: str) -> bool:
    """Return whether the name of who asks is that of a template, and not that of a worker."""
    return asker.startswith(PACKAGE) or asker.endswith(TEMPLATE_SUFFIXES)


def worker_name(template: str) -> str:
    """Return the worker name of a template (normalised). No two templates share a name.

    `templates/one.yaml` is `one`, `templates/decks/one.yaml` is `decks--one`, `pkg:one` is `pkg--one`. Where the path
    cannot be read back from such a name, some digits of its digest are added.
    """
    package = template.startswith(PACKAGE)
    path = f"pkg/{template.removeprefix(PACKAGE)}" if package else str(PurePosixPath(template).with_suffix(""))
    plain = re.sub(r"[^a-z0-9_-]+", "_", path.removeprefix(FOLDER).lower().replace("/", _BETWEEN))
    back = plain.replace(_BETWEEN, "/")
    meant = PACKAGE + back.removeprefix("pkg/") if back.startswith("pkg/") else f"{FOLDER}{back}.yaml"
    if meant == template and is_name(plain):
        return plain
    digest = hashlib.sha256(template.encode()).hexdigest()[:_DIGEST_CHARS]
    cut = plain[: MAX_WORKER_NAME_CHARS - len("template_-") - _DIGEST_CHARS]
    name = f"{cut}-{digest}"
    return name if is_name(name) else f"template_{name}"


def choose_template(rules: TemplateRules, asked: str, *, caller: str) -> str:
    """Return the template for a call of `asked`; `caller` is in words. Raises DelegationRefusal for a forbidden one."""
    if rules.lock is not None:
        return normalise_template(rules.lock)
    name = normalise_template(asked)
    if not any(matches(name, pattern) for pattern in rules.allow):
        listed = ", ".join(f"'{pattern}'" for pattern in rules.allow) or "none"
        raise DelegationRefusal(f"{caller} may not call template '{name}'; allowed: {listed}")
    return name


def matches(name: str, pattern: str) -> bool:
    """Return whether a glob of `allow` stands for the template `name` (normalised)."""
    if name.startswith(PACKAGE) or pattern.startswith(PACKAGE):
        both = name.startswith(PACKAGE) and pattern.startswith(PACKAGE)
        return both and fnmatchcase(name.removeprefix(PACKAGE), pattern.removeprefix(PACKAGE))
    plain = _plain(pattern)
    return plain is not None and fits(name.split("/"), plain.split("/"))


def _plain(path: str) -> str | None:
    """Return the path without `./` and doubled slashes; None for a path that is empty, absolute or leads upwards."""
    pure = PurePosixPath(path)
    if not pure.parts or pure.is_absolute() or ".." in pure.parts or "\0" in path or "\\" in path:
        return None
    return str(pure)


def _outside(path: str) -> str:
    return f"'{path[:80]}' is not a path inside the workshop; '..', '\\' and absolute paths are not allowed"
