"""What a worker service loads before it polls, and garbage collection: off while modules are loaded, then on."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.support.patience import PATIENCE_SECONDS

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


SERVES = """
import gc, sys
import worker_service.__main__
from worker_service import program

print("loaded", gc.isenabled())

class Served:
    polled = ()
    async def __aenter__(self):
        print("serves", gc.isenabled(), gc.get_freeze_count() > 0)
        raise SystemExit(0)
    async def __aexit__(self, *error):
        pass

async def connected(*_):
    return True

program._connected = program.register_search_attributes = connected
program.build_worker = lambda *_more, **_options: Served()
sys.argv = ["worker_service", "--workshop", sys.argv[1]]
program.main()
"""


def test_garbage_is_looked_for_once_the_service_serves_and_not_before(tmp_path: Path) -> None:
    (tmp_path / "workshop.yaml").write_text("name: shop\n")
    command = [sys.executable, "-c", SERVES, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert done.stdout.splitlines() == ["loaded False", "serves True True"], done.stderr
