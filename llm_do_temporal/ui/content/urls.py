"""Where pages are. Stable: they stand in messages that were sent."""

from __future__ import annotations

from urllib.parse import quote


def run_address(run: str) -> str:
    """The page of a run."""
    return f"/runs/{quote(run, safe='')}"


def approval_address(run: str, approval: str) -> str:
    """The page of one approval."""
    return f"{run_address(run)}/approvals/{quote(approval, safe='')}"


def grants_address(run: str) -> str:
    """The page with the remembered decisions of a run."""
    return f"{run_address(run)}/grants"


def attachment_address(run: str, approval: str, sha256: str) -> str:
    """The bytes of a file that a call hands over."""
    return f"{approval_address(run, approval)}/attachments/{sha256}"


def invocation_address(run: str, path: str, what: str = "invocations") -> str:
    """The conversation of one invocation; `what`: `live` for its news as they come, `entries` for what is new in it."""
    return f"{run_address(run)}/{what}/{quote(path)}"
