"""Public names that are loaded when they are first used."""

from __future__ import annotations

from types import ModuleType

import pytest

import llm_do_temporal
from llm_do_temporal import client, tools


@pytest.mark.parametrize("module", [llm_do_temporal, client, tools])
def test_each_public_name_is_there_and_another_is_none(module: ModuleType) -> None:
    for name in module.__all__:
        assert getattr(module, name).__name__ == name
    with pytest.raises(AttributeError, match=f"^module '{module.__name__}' has no attribute 'nothing'$"):
        _ = module.nothing
