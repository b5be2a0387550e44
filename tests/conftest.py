"""What holds for the tests of all folders."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator

import pytest
from temporalio.exceptions import CancelledError

from llm_do_temporal.extension import installed as extensions
from tests.support import tiers


def pytest_configure() -> None:
    """Look for no garbage while tests are collected: all that is loaded then stays, and looking takes a third of it."""
    gc.disable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests that `make test` leaves out, before pytest selects by marks, and take one part of them alone."""
    tiers.mark(items)
    items[:], left_out = tiers.chosen(items)
    items[:], lacking = only_installed(items)
    config.hook.pytest_deselected(items=[*left_out, *lacking])


def only_installed(items: list[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Return the tests whose capabilities are all installed, and the others."""
    names = {extension.name for extension in extensions()}
    needed = {item: {name for mark in item.iter_markers("extension") for name in mark.args} for item in items}
    return [item for item in items if needed[item] <= names], [item for item in items if not needed[item] <= names]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish() -> None:
    """Look for garbage again while tests run."""
    gc.enable()


@pytest.fixture(autouse=True, scope="session")
def _cancelled_finalizers() -> Iterator[None]:
    """Let no test fail for a cancellation that reached a finalizer.

    The SDK cancels an activity in a thread by an exception that is raised wherever the thread is just then. Python can
    only report one that is raised while garbage is collected.
    """
    report = sys.unraisablehook

    def hook(unraisable: sys.UnraisableHookArgs) -> None:
        if not issubclass(unraisable.exc_type, CancelledError):
            report(unraisable)

    sys.unraisablehook = hook
    yield
    sys.unraisablehook = report
