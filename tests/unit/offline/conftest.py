from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from llm_do_temporal.definitions.registry.registry import Registry
from llm_do_temporal.definitions.workshop import load_workshop

WORKSHOP = Path(__file__).parents[3] / "workers"


@pytest.fixture(scope="session")
def evaluation_schema() -> dict[str, Any]:
    """The output schema that the shipped evaluator is given."""
    schema = Registry(load_workshop(WORKSHOP)).load("pitch_evaluator").output_schema
    assert schema is not None
    return schema
