"""The worker service: wires workflows and activities to a Temporal task queue for one workshop.

Owned by whoever deploys it. `worker_service` runs it as a process; tests run it in theirs.
"""

from llm_do_temporal.service.build import (
    LEAST_ACTIVITIES,
    ServiceSettings,
    build_replayer,
    build_worker,
    register_search_attributes,
)

__all__ = ["LEAST_ACTIVITIES", "ServiceSettings", "build_replayer", "build_worker", "register_search_attributes"]
