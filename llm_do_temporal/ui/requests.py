"""Parts that all pages share: settings, the client, numbers in addresses, and answers that are no page of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from temporalio.client import Client

from llm_do_temporal.client import LlmDoClient, Question
from llm_do_temporal.errors import LlmDoError
from llm_do_temporal.ui.access import Access
from llm_do_temporal.ui.content.renderer import render

T = TypeVar("T")


@dataclass(frozen=True)
class UiSettings:
    """Settings of the page, fixed when it starts."""

    access: Access
    """Way to know the visitors."""
    hosts: tuple[str, ...]
    """Values of the Host header that are answered: `name:port`, or `name` for any port."""
    workshop: Path | None = None
    """Folder of the workshop, if it is on this machine: for workers to start, blobs, and files to compare with."""
    temporal_ui: str | None = None
    """Address of the Temporal UI, without a slash at its end."""
    namespace: str = "default"
    embedded: bool = False
    """Whether runs go to an embedded worker service, which shares this environment and so its default model."""
    undo_seconds: int = 0
    """Seconds for which a decision is held, so that whoever decided can take it back; 0: it takes effect at once."""


def settings_of(request: Request) -> UiSettings:
    """Return the settings of the page."""
    return request.app.state.settings


def client_of(request: Request) -> LlmDoClient:
    """Return the client of the page."""
    return request.app.state.client


def shared(request: Request, name: str, make: Callable[[Client], T]) -> T:
    """Return what all visitors share under this name; the first one who needs it has it made."""
    state = request.app.state
    if not hasattr(state, name):
        setattr(state, name, make(state.client.temporal))
    return getattr(state, name)


def page_number(request: Request) -> int:
    """Return the number of the page that the query names, from 1; 1 for anything else."""
    return number_in(request.query_params.get("page", "")) or 1


def number_in(text: str) -> int | None:
    """Return the number that a text is, in at most nine digits; None for any other text."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def is_barred(request: Request, question: Question) -> bool:
    """Whether others than this visitor are to decide the question."""
    approvers = question.request.approvers
    return bool(approvers) and request.state.user not in approvers


def sentence(error: LlmDoError) -> str:
    """Return the message of an error as a sentence."""
    return f"{error.message[:1].upper()}{error.message[1:]}."


def see_other(address: str) -> Response:
    """Return the answer to a form, which leads to a page."""
    return RedirectResponse(address, status_code=303)


def error_page(
    request: Request,
    status: int,
    title: str,
    message: str,
    next_step: str | None = None,
    *,
    place: str = "",
    headers: dict[str, str] | None = None,
) -> Response:
    """Return a page that says what is wrong; `place` are words for what a link should have led to."""
    facts = {"title": title, "message": message, "next_step": next_step, "place": place}
    return render(request, "error.html", status=status, headers=headers, **facts)
