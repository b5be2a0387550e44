"""What holds for the tests of all folders."""

from __future__ import annotations

import gc

import pytest


def pytest_configure() -> None:
    """Look for no garbage while tests are collected: all that is loaded then stays, and looking takes a third of it."""
    gc.disable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish() -> None:
    """Look for garbage again while tests run."""
    gc.enable()
