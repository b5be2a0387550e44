"""Sentences about a comparison: what was found, how sure it is, and what is left out."""

from __future__ import annotations

from collections.abc import Mapping

Names = tuple[str, str]
Interval = tuple[float | None, float | None]
_UNITS: Mapping[str, str] = {"cost": "${:.4f}", "seconds": "{:.1f} s", "tokens": "{:.0f} tokens"}


def metric_sentence(
    *,
    verdict: str,
    shares: bool,
    means: tuple[float | None, float | None, float | None],
    interval: Interval,
    p_value: float,
    pairs: int,
    missing: int,
    needed: int,
    names: Names,
) -> str:
    """Return the verdict on a metric in words; `means` are those of both versions and their difference.

    `needed` is the number of cases from which on a difference could be shown.
    """
    if means[0] is None or means[1] is None or means[2] is None:
        return f"no case has this score in both versions{_missing(missing)}."
    amount = _points if shares else _plain
    said = f"{names[0]} {_mean(means[0], shares)}, {names[1]} {_mean(means[1], shares)}"
    low, high = interval
    around = "" if low is None or high is None else f" (95 %: {amount(low)} to {amount(high)})"
    said = f"{said}, difference {amount(means[2])}{around}, {_cases(pairs)}{_missing(missing)}"
    match verdict:
        case "better" | "worse":
            return f"{names[1]} is {verdict}: {said}, {_p(p_value)}."
        case "too_few":
            more = f"it takes {needed} to show any difference"
            return f"too few cases to tell: {said}; {more}."
        case _:
            return f"no difference shown: {said}, {_p(p_value)}."


def label_sentence(changed: int, pairs: int) -> str:
    """Return how many cases have other labels, in words."""
    return f"labels changed in {changed} of {_cases(pairs)}; labels have no order and are not tested."


def amount_sentence(name: str, one: float | None, other: float | None, interval: Interval, names: Names) -> str:
    """Return what both versions spend a run, in words."""
    if one is None or other is None:
        return f"{name} is not known of both versions."
    form = _UNITS[name]
    share = "" if one == 0 else f", {(other - one) / one:+.0%}".replace("%", " %")
    low, high = interval
    around = (
        "" if low is None or high is None else f" (95 % of the difference: {form.format(low)} to {form.format(high)})"
    )
    return f"{names[0]} {form.format(one)}, {names[1]} {form.format(other)} a case{share}{around}."


def error_sentence(errors: tuple[int, int], names: Names) -> str:
    """Return how many runs ended in errors, in words; empty for none."""
    if not any(errors):
        return ""
    return (
        f"{_runs(errors[0])} of {names[0]} and {_runs(errors[1])} of {names[1]} ended in an error: an error is no "
        "wrong answer and has no scores, so other metrics compare the runs that are left."
    )


def left_out_sentence(only_one: int, only_other: int, names: Names) -> str:
    """Return how many cases only one version was run with, in words; empty for none."""
    parts = [
        f"{_cases(count)} only {name} has" for count, name in zip((only_one, only_other), names, strict=True) if count
    ]
    return f"left out: {' and '.join(parts)}." if parts else ""


def _mean(value: float, shares: bool) -> str:
    return f"{100 * value:.1f} %" if shares else f"{value:.3g}"


def _points(value: float) -> str:
    return f"{100 * value:+.1f} points"


def _plain(value: float) -> str:
    return f"{value:+.3g}"


def _p(value: float) -> str:
    return "p < 0.001" if value < 0.001 else f"p = {value:.3f}"


def _missing(count: int) -> str:
    return f" ({count} without the score left out)" if count else ""


def _cases(count: int) -> str:
    return "1 case" if count == 1 else f"{count} cases"


def _runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count} runs"
