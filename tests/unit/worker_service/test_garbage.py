"""Garbage collection of the worker service: off while modules are loaded, on once it serves."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.patience import PATIENCE_SECONDS

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
