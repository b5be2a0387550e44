"""Addresses of pages. Stable: they stand in messages that were sent."""

from __future__ import annotations

from urllib.parse import quote

from llm_do_temporal.extension import added

_PLACES = (
    (("runs", "approvals"), "a request for approval"),
    (("runs",), "a run"),
    (("groups",), "a group of similar requests"),
    (("outcomes",), "the outcome of a decision"),
)
"""Fixed parts of an address, which alternate with names, and words for what is there."""


def place_words(path: str) -> str:
    """Return words for what an address of this page leads to; empty where they would not help."""
    parts = path.strip("/").split("/")
    pages = ((entry.path.strip("/"), entry.place) for entry in added(lambda one: one.navigation()))
    places = (*_PLACES, *(((first,), words) for first, words in pages))
    return next((words for fixed, words in places if len(parts) > 1 and tuple(parts[::2][: len(fixed)]) == fixed), "")


def run_address(run: str) -> str:
    """Return the address of the page of a run."""
    return f"/runs/{quote(run, safe='')}"


def results_address(run: str) -> str:
    """Return the address of the results of a run as CSV."""
    return f"{run_address(run)}/results.csv"


def approval_address(run: str, approval: str) -> str:
    """Return the address of the page of an approval."""
    return f"{run_address(run)}/approvals/{quote(approval, safe='')}"


def group_address(key: str) -> str:
    """Return the address of the page of a group of similar questions."""
    return f"/groups/{quote(key, safe='')}"


def open_questions_address(run: str) -> str:
    """Return the address of the page with all open questions of a run."""
    return f"{run_address(run)}/approvals"


def grants_address(run: str) -> str:
    """Return the address of the page with the remembered decisions of a run."""
    return f"{run_address(run)}/grants"


def attachment_address(run: str, approval: str, sha256: str) -> str:
    """Return the address of the bytes of a file that a call hands over."""
    return f"{approval_address(run, approval)}/attachments/{sha256}"


def given_file_address(run: str, sha256: str) -> str:
    """Return the address of the bytes of a file that a run was given."""
    return f"{run_address(run)}/given/{sha256}"


def written_file_address(run: str) -> str:
    """Return the address of a file that a run has written; a query says which, and which invocation wrote it."""
    return f"{run_address(run)}/written"


def invocation_address(run: str, path: str, what: str = "invocations") -> str:
    """Return the address of a conversation; `what` is `live` for its news as they come, `entries` for new entries."""
    return f"{run_address(run)}/{what}/{quote(path)}"


def crumbs_of(run: str, path: str) -> list[tuple[str, str]]:
    """Return the invocations from the entry worker to `path`, each as its name and its address."""
    names = path.split("/")
    return [(name, invocation_address(run, "/".join(names[: number + 1]))) for number, name in enumerate(names)]
