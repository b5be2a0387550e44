"""`python -m worker_service`: the worker service, whose modules are loaded without looks for garbage in between."""

from __future__ import annotations

import gc

gc.disable()

from worker_service.program import main  # noqa: E402 - it loads them

if __name__ == "__main__":
    main()
