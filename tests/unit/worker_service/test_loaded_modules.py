"""What a worker service loads before it polls: every module more keeps runs waiting after a crash."""

from __future__ import annotations

import json
import subprocess
import sys

_NOT_NEEDED = (
    "llm_do_temporal.client.",
    "llm_do_temporal.doors.",
    "llm_do_temporal.cli.",
    "rich.",
    "pygments.",
    "click.",
)
_NEEDED = {
    "llm_do_temporal.client.connection",
    "llm_do_temporal.client.connections",
    "llm_do_temporal.client.embedded",
    "llm_do_temporal.client.embedded.server",
    "llm_do_temporal.client.session",
}


def test_a_worker_service_loads_neither_the_client_nor_a_command_line() -> None:
    script = "import json, sys, worker_service.__main__; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    loaded = {name for name in json.loads(done.stdout) if name.startswith(_NOT_NEEDED)}

    assert loaded - _NEEDED == set()


def test_building_a_service_makes_no_adapter_of_messages_beside_those_of_pydantic_ai() -> None:
    script = """
import json, pydantic.type_adapter as adapters
made = []
build = adapters.TypeAdapter.__init__
def note(self, type, **options):
    import sys
    made.append((sys._getframe(1).f_globals["__name__"], str(type)))
    build(self, type, **options)
adapters.TypeAdapter.__init__ = note
import worker_service.__main__
print(json.dumps(made))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    ours = [kind for module, kind in json.loads(done.stdout) if module.startswith("llm_do_temporal")]

    assert [kind for kind in ours if "messages" in kind or "ModelRequest" in kind] == []
