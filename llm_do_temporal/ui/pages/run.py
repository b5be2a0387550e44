"""The page of a run: the tree of its invocations. Folded branches are not read before they are opened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from llm_do_temporal.client import LlmDoClient
from llm_do_temporal.client.connection.errors import translated
from llm_do_temporal.client.views.run_list import read_run, read_spent
from llm_do_temporal.client.views.tree import Accounts, Branch, Spent, list_tree
from llm_do_temporal.messages.approvals import PendingApprovalMemo
from llm_do_temporal.ui.content.renderer import render
from llm_do_temporal.ui.content.urls import run_address
from llm_do_temporal.ui.pages.runs import accounts_of
from llm_do_temporal.ui.security.settings import UiSettings

MOST_ROWS = 200
"""Invocations shown below another one before more are asked for."""
_QUICK_SECONDS, _SLOW_SECONDS, _LARGE = 4, 30, 300
"""Seconds between two readings of the page, for a small and for a large tree; and the size of a large one."""


@dataclass
class InvocationRow:
    """Invocation as it is shown."""

    branch: Branch
    spent: Spent
    questions: list[PendingApprovalMemo]
    toggle: str | None
    """Address at which the row is opened, or folded again; None for an invocation without callees."""
    is_opened: bool = False
    rows: list[InvocationRow] = field(default_factory=list["InvocationRow"])
    more: str | None = None
    """Address at which all rows below are shown; None if they are."""


class Folding:
    """The open branches: those that an address names, else the entry worker and all that lead to a question."""

    def __init__(self, run: str, opened: Sequence[str], all_of: Sequence[str], *, named: bool) -> None:
        self._run = run
        self._opened = dict.fromkeys(opened)
        self._all = dict.fromkeys(all_of)
        self.named = named

    def open_first(self, roots: Sequence[Branch], asking: Sequence[str]) -> None:
        """Open the branches that are open if the address names none."""
        parts = [path.split("/") for path in asking]
        self._opened |= {"/".join(one[:end]): None for one in parts for end in range(1, len(one))}
        if len(roots) == 1:
            self._opened[roots[0].path] = None

    def is_open(self, path: str) -> bool:
        """Whether the branch at `path` is open."""
        return path in self._opened

    def shows_all(self, path: str) -> bool:
        """Whether all rows below a branch are shown, however many; an empty path stands for the run."""
        return path in self._all

    def toggled(self, path: str) -> str:
        """Return the address at which an open branch is folded, or a folded one open."""
        opened = [one for one in self._opened if one != path] if self.is_open(path) else [*self._opened, path]
        return self._address(opened, list(self._all), path)

    def with_all(self, path: str) -> str:
        """Return the address at which all rows below this branch are shown."""
        return self._address(list(self._opened), [*self._all, path], path)

    def _address(self, opened: list[str], all_of: list[str], path: str) -> str:
        query = urlencode([("open", one) for one in opened or [""]] + [("all", one) for one in all_of])
        return f"{run_address(self._run)}?{query}#{quote(path)}"


@dataclass
class _Tree:
    accounts: Accounts
    folding: Folding
    questions: dict[str, list[PendingApprovalMemo]]

    async def rows(
        self, branches: list[Branch], parent: Spent | None, path: str
    ) -> tuple[list[InvocationRow], str | None]:
        """Return the rows that are shown of `branches`, and the address that shows the rest; None without any."""
        shown = branches if self.folding.shows_all(path) else branches[:MOST_ROWS]
        shown += [one for one in branches[len(shown) :] if one.workflow_id in self.questions]
        spent = await self.accounts.read(shown, parent)
        rows = [await self._row(one, spent[one.workflow_id]) for one in shown]
        return rows, None if len(shown) == len(branches) else self.folding.with_all(path)

    async def _row(self, branch: Branch, spent: Spent) -> InvocationRow:
        opened = bool(branch.children) and self.folding.is_open(branch.path)
        toggle = self.folding.toggled(branch.path) if branch.children else None
        row = InvocationRow(branch, spent, self.questions.get(branch.workflow_id, []), toggle, opened)
        if opened:
            row.spent = await self.accounts.read_one(branch, whole=True)
            row.rows, row.more = await self.rows(branch.children, row.spent, branch.path)
        return row


async def show_run(request: Request) -> Response:
    """Show the tree, and the questions that the run waits for."""
    client: LlmDoClient = request.app.state.client
    settings: UiSettings = request.app.state.settings
    accounts, query = accounts_of(request), request.query_params
    run = await read_run(client.temporal, request.path_params["run"])
    questions: dict[str, list[PendingApprovalMemo]] = {}
    for one in run.pending:
        questions.setdefault(one.invocation, []).append(one)
    folding = Folding(run.run, query.getlist("open"), query.getlist("all"), named="open" in query)
    async with translated(run.run):
        roots = await list_tree(client.temporal, run.run)
        if not folding.named:
            folding.open_first(roots, [one.path for one in run.pending])
        rows, more = await _Tree(accounts, folding, questions).rows(roots, None, "")
        spent = await read_spent(accounts, run)
    size = sum(root.size for root in roots)
    return render(
        request,
        "run.html",
        run=run,
        spent=_total(spent, roots, rows),
        size=size,
        rows=rows,
        more=more,
        refresh_seconds=None if run.ended_at else _QUICK_SECONDS if size < _LARGE else _SLOW_SECONDS,
        temporal_link=temporal_link(settings, run.run, run.run_id),
    )


def temporal_link(settings: UiSettings, workflow_id: str, run_id: str) -> str | None:
    """Return the address of a workflow in the Temporal UI; None if no such UI is known."""
    if settings.temporal_ui is None:
        return None
    place = f"{settings.temporal_ui}/namespaces/{quote(settings.namespace, safe='')}/workflows"
    return f"{place}/{quote(workflow_id, safe='')}/{run_id}/history"


def _total(spent: Spent, roots: Sequence[Branch], rows: Sequence[InvocationRow]) -> Spent:
    """Return the spending of the run; while it goes on, the account of its only root knows more."""
    return rows[0].spent if len(roots) == 1 and rows and roots[0].is_open else spent


routes = [Route("/runs/{run}", show_run, methods=["GET"])]
