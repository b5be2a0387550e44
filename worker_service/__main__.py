"""`python -m worker_service`: the worker service, whose modules are loaded without looks for garbage in between."""

from __future__ import annotations

import gc
import sys

gc.disable()
# With this module httpx loads a command line of its own, and all of rich and pygments for it.
sys.modules["httpx._main"] = None  # pyright: ignore[reportArgumentType] - so that importing it is an ImportError

from worker_service.program import main  # noqa: E402 - it loads them

del sys.modules["httpx._main"]

if __name__ == "__main__":
    main()
