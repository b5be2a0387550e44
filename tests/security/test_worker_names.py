"""Names of workers that would lead somewhere else are refused before any file is looked for."""

from __future__ import annotations

import pytest

from llm_do_temporal.errors import DefinitionError
from llm_do_temporal.policy.delegation import check_name

NAMES = (
    *("..", "../x", "a/../b", "/etc/passwd", "a/b", "a\\b", ".", ".hidden", "", " ", "a b", "a\0b", "a\nb"),
    *("-rf", "A", "É", "a.b", "a:b", "pkg:pkg:x", "workshop.yaml", "x" * 300, "\u202etxt", "a\ud800"),
)


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_a_name_that_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(DefinitionError):
        check_name(name)
