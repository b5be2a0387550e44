"""Limits on the spending of a run, or of a worker with everything below it, and the ledger of spending against them.

A limit is a number for one of six dimensions. Spending is kept as `Amounts`; time is not among them, it is measured by
a clock.

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

import re
from collections.abc import Mapping
from decimal import ROUND_UP, Context, Decimal
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, StringConstraints

from llm_do_temporal.policy.values import Value


class Dimension(StrEnum):
    """Dimension that can be limited."""

    TURNS = "turns"
    TOOL_CALLS = "tool_calls"
    TOKENS = "tokens"
    COST = "cost"
    INVOCATIONS = "invocations"
    TIME = "time"


COUNTED = tuple(dimension for dimension in Dimension if dimension is not Dimension.TIME)
"""Dimensions of `Amounts`."""
MEASURED = (Dimension.TOKENS, Dimension.COST)
"""Dimensions whose amount for a turn is known only when the turn has ended."""
RESERVED = (Dimension.TURNS, Dimension.TOOL_CALLS, Dimension.INVOCATIONS)
"""Dimensions whose amount is known beforehand."""
NOTHING = Decimal(0)

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_WORDS = ((86400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))
_DURATION = re.compile(r"(\d+)([smhd])", re.ASCII)
LONGEST_DURATION = 10 * 366 * 86400
"""Most seconds of a limit, and of any other time that is not an age."""
LONGEST_AGE = 10_000 * 86400
"""Most seconds since something that is looked for, or cleared away."""


def read_duration(value: Any, *, longest: int = LONGEST_DURATION) -> Any:
    """Return the seconds of `90s`, `30m`, `2h`, `3d`; any value but text is returned as it is.

    Raises ValueError for another text, and for more than `longest` seconds.
    """
    if not isinstance(value, str):
        return value
    found = _DURATION.fullmatch(value)
    if found is None:
        raise ValueError(f"'{value[:40]}' is not a time; write it like 90s, 30m, 2h or 3d")
    digits = found[1].lstrip("0") or "0"
    # Python reads no number of thousands of digits, and its clocks count no more than some billion days.
    seconds = int(digits) * _UNITS[found[2]] if len(digits) <= len(str(longest)) else longest + 1
    if seconds > longest:
        raise ValueError(f"'{value[:40]}' is too long; a time is at most {longest // 86400} days")
    return seconds


DurationText = Annotated[str, StringConstraints(pattern=rf"^{_DURATION.pattern}$")]
_MOST = 10**12
_MOST_DOLLARS = 10**9
_PLACES = 20
"""Most places behind the point of a cost; a sum of Python's floats has up to so many."""
_SMALLEST = Decimal(1).scaleb(-_PLACES)


def _is_long(cost: Decimal) -> bool:
    """Return whether a cost has more places than are kept."""
    exponent = cost.as_tuple().exponent
    return isinstance(exponent, int) and exponent < -_PLACES


def _check_places(cost: Decimal) -> Decimal:
    if _is_long(cost):
        raise ValueError(f"it has more than {_PLACES} places behind the point")
    return cost


Count = Annotated[int, Field(ge=1, le=_MOST)]
Dollars = Annotated[Decimal, Field(gt=0, le=_MOST_DOLLARS, allow_inf_nan=False), AfterValidator(_check_places)]
"""Cost in US dollars, within what decimal arithmetic adds, divides and compares."""
Duration = Annotated[
    int, Field(ge=1, le=LONGEST_DURATION), BeforeValidator(read_duration, json_schema_input_type=int | DurationText)
]
"""Duration in whole seconds."""


class Limits(Value):
    """`limits:` of a workshop or a worker; None is no limit."""

    turns: Count | None = None
    tool_calls: Count | None = None
    tokens: Count | None = None
    """Input and output tokens together."""
    cost: Dollars | None = None
    """Cost in US dollars."""
    invocations: Count | None = None
    """Invocations, the worker's own included."""
    time: Duration | None = None
    """Seconds since the start, whatever they are spent on."""

    @property
    def set_ones(self) -> tuple[Dimension, ...]:
        """The dimensions that have a limit."""
        return tuple(dimension for dimension in Dimension if getattr(self, dimension) is not None)

    def of(self, dimension: Dimension) -> Decimal | None:
        """Return the limit of one dimension; None without a limit."""
        limit: int | Decimal | None = getattr(self, dimension)
        return None if limit is None else Decimal(limit)

    def over(self, other: Limits) -> Limits:
        """Return these limits, with those of `other` where these have none."""
        return other.model_copy(update={name: getattr(self, name) for name in self.set_ones})

    def with_limit(self, dimension: Dimension, limit: Decimal) -> Limits:
        """Return these limits with another limit for one dimension, or the highest that is below it."""
        if dimension is not Dimension.COST:
            return self.model_copy(update={dimension: min(int(limit), _MOST)})
        cost = min(limit, Decimal(_MOST_DOLLARS))
        # A person may agree to more places than are kept.
        cost = cost.quantize(_SMALLEST, ROUND_UP, Context(prec=40)) if _is_long(cost) else cost
        return self.model_copy(update={dimension: cost})


class Amounts(Value):
    """Amounts that were spent, are reserved or are wanted."""

    turns: int = 0
    tool_calls: int = 0
    tokens: int = 0
    cost: Decimal = NOTHING
    """Cost in US dollars."""
    invocations: int = 0

    def of(self, dimension: Dimension) -> Decimal:
        """Return the amount of one counted dimension."""
        return Decimal(getattr(self, dimension))

    def plus(self, other: Amounts) -> Amounts:
        """Return the sum of both."""
        return Amounts(**{name: getattr(self, name) + getattr(other, name) for name in COUNTED})

    def minus(self, other: Amounts) -> Amounts:
        """Return the difference of both."""
        return Amounts(**{name: getattr(self, name) - getattr(other, name) for name in COUNTED})

    def largest(self, other: Amounts) -> Amounts:
        """Return the larger of both, dimension by dimension."""
        return Amounts(**{name: max(getattr(self, name), getattr(other, name)) for name in COUNTED})

    @property
    def needs(self) -> tuple[Dimension, ...]:
        """The dimensions in which an amount must be left for a grant: a turn takes tokens and money too."""
        counts = tuple(name for name in COUNTED if self.of(name) > 0)
        return tuple(dict.fromkeys((*counts, *MEASURED))) if self.turns else counts


def limited_by(limits: Limits, above: tuple[Dimension, ...] = ()) -> tuple[Dimension, ...]:
    """Return the dimensions that are limited for an invocation with `limits`, below others that limit `above`."""
    return tuple(dict.fromkeys((*above, *limits.set_ones)))


def agreed_limit(dimension: Dimension, given: Mapping[str, Any], asked: Mapping[str, Any]) -> Decimal:
    """Return the limit in the decision's arguments (`given`), else the one in the question's (`asked`).

    Raises ValueError where neither is a limit.
    """
    for arguments in (given, asked):
        try:
            limit = Decimal(str(arguments.get("next")))
        except ArithmeticError:
            continue
        if limit.is_finite() and 0 < limit <= highest_limit(dimension):
            return limit
    raise ValueError("the question names no limit to go on to")


def highest_limit(dimension: Dimension) -> int:
    """Return the highest limit that a person can agree to: seconds for time, else the dimension's own unit."""
    return LONGEST_DURATION if dimension is Dimension.TIME else 10**15


def described(dimension: Dimension, amount: Decimal) -> str:
    """Return an amount in words: `200 turns`, `$2.50`, `90 minutes`."""
    if dimension is Dimension.COST:
        return f"${amount:.2f}" if amount == round(amount, 2) else f"${amount.normalize():f}"
    if dimension is Dimension.TIME:
        seconds = int(amount)
        unit, word = next(one for one in _WORDS if seconds % one[0] == 0)
        return _counted(seconds // unit, word)
    return _counted(int(amount), dimension.replace("_", " ").removesuffix("s"))


def _counted(number: int, word: str) -> str:
    return f"{number:,} {word if number == 1 else word + 's'}"


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
    paths = [one.path for one in ledger.holders.values()]
    times = min((share(one, wants, max(1, sum(map(one.contains, paths)))) for one in above), default=1)
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
