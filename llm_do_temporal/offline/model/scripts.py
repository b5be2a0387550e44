"""The scripted models that tests register, by the name after `test:`.

Owns the registry and nothing else. `llm_do_temporal.testing` fills it; `offline_model` looks here when
the worker service of the same process is asked for `test:<name>`. No model registers itself on import.
"""

from __future__ import annotations

from pydantic_ai.models import Model

TEST_PREFIX = "test:"

SCRIPTS: dict[str, Model] = {}
