"""Ledger of limits: the permission to spend, as pure steps from one state to the next.

An account is one set of limits: the run's, or a worker's for one of its invocations. The spending of an invocation
counts for every account whose path it stands on. An invocation spends from the amounts that it holds. It is granted
more only where every account has something free, which is the limit less the amounts that were spent and that others
hold. So no amount that can be counted beforehand is ever overspent. The tokens and the money of a turn are known only
afterwards: a turn may start while anything is free, and holds as much as the largest turn so far took, or all that is
free where that is less or no turn has ended yet.

An invocation may be granted more than it asked for, to ask less often. It gives the rest back when it is recalled,
which happens as soon as another invocation is short.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Literal

from pydantic import ConfigDict, Field

from llm_do_temporal.policy.budget.limits import MEASURED, RESERVED, Amounts, Dimension, Limits
from llm_do_temporal.policy.values import Value

MAX_LEASE = 16
"""Largest number of turns, or of further tool calls, that are granted at once."""
_PARTS = 2
"""Divisor of the free amount: a grant takes at most this part of it, shared by all invocations that may ask."""


class Account(Value):
    """Set of limits, with the amounts that were spent and are held against them."""

    path: str
    """Path of the invocation whose limits these are; empty for the run."""
    owner: str
    """Workflow id of the invocation that asks a person when a limit is reached."""
    limits: Limits
    steps: Limits
    """Amounts by which an approval raises each limit: the limits as they were at first."""
    spent: Amounts = Amounts(invocations=1)
    held: Amounts = Amounts()
    turn: Amounts | None = None
    """Tokens and cost of the largest turn so far; None before the first turn has ended."""
    unpriced: tuple[str, ...] = ()
    """Models that were used and have no known price."""
    accepts_unpriced: bool = False
    overdue: bool = False
    reached: Dimension | None = None
    """Limit about which a person is being asked. No amount is granted meanwhile."""

    def contains(self, path: str) -> bool:
        """Return whether the spending of the invocation at `path` counts here."""
        return not self.path or path == self.path or path.startswith(f"{self.path}/")

    def free(self, dimension: Dimension) -> Decimal | None:
        """Return the amount that is neither spent nor held; None without a limit."""
        limit = self.limits.of(dimension)
        return None if limit is None else limit - self.spent.of(dimension) - self.held.of(dimension)

    def counts_unknown(self, dimension: Dimension) -> bool:
        """Return whether the limit cannot be held because the price of a used model is unknown."""
        return (
            dimension is Dimension.COST
            and self.limits.cost is not None
            and bool(self.unpriced)
            and not self.accepts_unpriced
        )

    def lacks(self, wants: Amounts) -> Dimension | None:
        """Return the first dimension in which nothing is left for the wanted amounts; None where all have some."""
        for dimension in wants.needs:
            free = self.free(dimension)
            if self.counts_unknown(dimension) or (free is not None and free <= 0):
                return dimension
        return None

    def unit(self, dimension: Dimension, wants: Amounts, free: Decimal) -> Decimal:
        """Return the amount of a dimension that a single grant of `wants` takes, where `free` is left."""
        if dimension in MEASURED:
            return free if self.turn is None else min(free, self.turn.of(dimension))
        return wants.of(dimension)


class Holder(Value):
    """Invocation that has spent or asked."""

    path: str
    spent: Amounts = Amounts()
    holds: Amounts = Amounts()
    wants: Amounts = Amounts()
    granted: int = 0
    """Number of grants that were sent."""
    grant: Amounts = Amounts()
    """Amounts of the last grant."""
    recalled: bool = False


class Ledger(Value):
    """All accounts, and all invocations that have not ended."""

    accounts: tuple[Account, ...] = ()
    holders: dict[str, Holder] = Field(default_factory=dict)
    """Holders by workflow id, in the order in which they first asked."""


class Report(Value):
    """Report of an invocation about its spending, in total since it began."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    invocation: str
    path: str
    spent: Amounts = Amounts()
    holds: Amounts = Amounts()
    wants: Amounts = Amounts()
    grants: int = 0
    """Number of grants that have arrived: the amounts of a grant on its way are not in `holds`."""
    turn: Amounts | None = None
    """Tokens and cost of the invocation's largest turn; None before the first turn has ended."""
    unpriced: tuple[str, ...] = ()
    limits: Limits = Limits()
    """Limits of the invocation's worker."""
    overdue: tuple[str, ...] = ()
    """Paths of the invocation's own accounts whose time is up."""
    ended: Literal["no", "yes", "lost"] = "no"
    """`lost`: the invocation was ended from outside, so the amounts it held count as spent."""


class Action(Value):
    """Message for an invocation."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    kind: Literal["grant", "recall", "reached"]
    invocation: str
    number: int = 0
    """Number of the grant."""
    amounts: Amounts = Amounts()
    account: Account | None = None
    """Account whose limit was reached."""


def opened(ledger: Ledger, path: str, owner: str, limits: Limits) -> Ledger:
    """Return the ledger with an account for these limits; the same ledger without limits, or with such an account."""
    if not limits.set_ones or any(one.path == path for one in ledger.accounts):
        return ledger
    account = Account(path=path, owner=owner, limits=limits, steps=limits)
    return ledger.model_copy(update={"accounts": (*ledger.accounts, account)})


def with_report(ledger: Ledger, report: Report) -> Ledger:
    """Return the ledger after the report of an invocation."""
    ledger = opened(ledger, report.path, report.invocation, report.limits)
    old = ledger.holders.get(report.invocation, Holder(path=report.path))
    under_way = report.grants < old.granted
    holds = report.holds.plus(old.grant) if under_way else report.holds
    spent = report.spent
    if report.ended == "lost":
        spent = old.spent.plus(old.holds)
    if report.ended != "no":
        holds = Amounts()
    wants = Amounts() if under_way else report.wants
    new = old.model_copy(update={"spent": spent, "holds": holds, "wants": wants})
    accounts = [_after_report(one, report, old, new) for one in ledger.accounts if one.contains(report.path)]
    ledger = _replaced(ledger, accounts)
    holders = {name: one for name, one in ledger.holders.items() if name != report.invocation}
    if report.ended != "no":
        left = tuple(one for one in ledger.accounts if one.path != report.path)
        return Ledger(accounts=left, holders=holders)
    kept = {**ledger.holders, report.invocation: new}
    return ledger.model_copy(update={"holders": kept})


def raised(ledger: Ledger, path: str, dimension: Dimension, limit: Decimal) -> Ledger:
    """Return the ledger after a person agreed to go on to another limit."""
    accounts = [
        one.model_copy(
            update={
                "limits": one.limits.with_limit(dimension, limit),
                "accepts_unpriced": one.accepts_unpriced or one.counts_unknown(dimension),
                "overdue": one.overdue and dimension is not Dimension.TIME,
                "reached": None,
            }
        )
        for one in ledger.accounts
        if one.path == path
    ]
    return _replaced(ledger, accounts)


def settle(ledger: Ledger) -> tuple[Ledger, list[Action]]:
    """Grant the wants that can be granted, recall amounts that others need, and name the limits that are reached."""
    actions: list[Action] = []
    for account in ledger.accounts:
        if account.overdue and account.reached is None:
            ledger = _reach(ledger, account, Dimension.TIME, actions)
            ledger = _recall(ledger, account, None, actions)
    for invocation, holder in list(ledger.holders.items()):
        if not holder.wants.needs:
            continue
        above = [one for one in ledger.accounts if one.contains(holder.path)]
        if any(one.reached for one in above):
            continue
        short = [(one, lacking) for one in above if (lacking := one.lacks(holder.wants)) is not None]
        for account, dimension in short:
            if account.held.of(dimension) > 0 and not account.counts_unknown(dimension):
                ledger = _recall(ledger, account, dimension, actions)
            else:
                ledger = _reach(ledger, account, dimension, actions)
        if not short:
            ledger = _grant(ledger, invocation, above, actions)
    return ledger, actions


def share(account: Account, wants: Amounts, parties: int) -> int:
    """Return how many times the wanted amounts can be granted at once and leave enough for `parties` invocations."""
    times = MAX_LEASE
    for dimension in wants.needs:
        free = account.free(dimension)
        if free is not None:
            unit = account.unit(dimension, wants, free)
            times = int(min(Decimal(times), free / (unit * _PARTS * parties))) if unit else times
    return max(1, times)


def _grant(ledger: Ledger, invocation: str, above: list[Account], actions: list[Action]) -> Ledger:
    holder = ledger.holders[invocation]
    wants = holder.wants
    times = min((share(one, wants, _parties(ledger, one)) for one in above), default=1)
    amounts: dict[Dimension, Decimal] = {name: wants.of(name) * times for name in RESERVED}
    for account in above:
        for dimension in wants.needs:
            free = account.free(dimension)
            if free is None:
                continue
            if dimension in MEASURED:
                held = min(free, account.unit(dimension, wants, free) * times)
                amounts[dimension] = min(held, amounts.get(dimension, held))
            else:
                amounts[dimension] = min(free, amounts[dimension])
    granted = Amounts.model_validate(
        {name: amount if name is Dimension.COST else int(amount) for name, amount in amounts.items()}
    )
    changed = holder.model_copy(
        update={
            "holds": holder.holds.plus(granted),
            "wants": Amounts(),
            "granted": holder.granted + 1,
            "grant": granted,
            "recalled": False,
        }
    )
    actions.append(Action(kind="grant", invocation=invocation, number=changed.granted, amounts=granted))
    ledger = ledger.model_copy(update={"holders": {**ledger.holders, invocation: changed}})
    return _replaced(ledger, [one.model_copy(update={"held": one.held.plus(granted)}) for one in above])


def _recall(ledger: Ledger, account: Account, dimension: Dimension | None, actions: list[Action]) -> Ledger:
    """Ask every holder of a dimension (None: of any) to give back the amounts that it does not need."""
    holders = dict(ledger.holders)
    for invocation, holder in ledger.holders.items():
        holds = holder.holds != Amounts() if dimension is None else holder.holds.of(dimension) > 0
        if holds and account.contains(holder.path) and not holder.recalled:
            holders[invocation] = holder.model_copy(update={"recalled": True})
            actions.append(Action(kind="recall", invocation=invocation))
    return ledger.model_copy(update={"holders": holders})


def _reach(ledger: Ledger, account: Account, dimension: Dimension, actions: list[Action]) -> Ledger:
    account = account.model_copy(update={"reached": dimension})
    actions.append(Action(kind="reached", invocation=account.owner, account=account))
    return _replaced(ledger, [account])


def _parties(ledger: Ledger, account: Account) -> int:
    return max(1, sum(account.contains(one.path) for one in ledger.holders.values()))


def _after_report(account: Account, report: Report, old: Holder, new: Holder) -> Account:
    turn = report.turn
    if turn is not None and account.turn is not None:
        turn = turn.largest(account.turn)
    return account.model_copy(
        update={
            "spent": account.spent.plus(new.spent).minus(old.spent),
            "held": account.held.plus(new.holds).minus(old.holds),
            "turn": turn or account.turn,
            "unpriced": tuple(sorted({*account.unpriced, *report.unpriced})),
            "overdue": account.overdue or account.path in report.overdue,
        }
    )


def _replaced(ledger: Ledger, accounts: list[Account]) -> Ledger:
    changed = {one.path: one for one in accounts}
    return ledger.model_copy(update={"accounts": tuple(changed.get(one.path, one) for one in ledger.accounts)})
