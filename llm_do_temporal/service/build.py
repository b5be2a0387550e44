"""The Temporal worker of one workshop: its workflows, activities, converter and slots."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from pydantic_ai.durable_exec.temporal import AgentPlugin, PydanticAIPayloadConverter, PydanticAIPlugin
from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelResponse
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest, ListSearchAttributesRequest
from temporalio.client import Client
from temporalio.converter import DataConverter
from temporalio.service import RPCError
from temporalio.worker import (
    FixedSizeSlotSupplier,
    Interceptor,
    Replayer,
    ResourceBasedSlotConfig,
    ResourceBasedSlotSupplier,
    ResourceBasedTunerConfig,
    Worker,
    WorkerDeploymentConfig,
    WorkerTuner,
)

from llm_do_temporal.activities.attachments import AttachmentActivities
from llm_do_temporal.activities.commands import ShellActivities
from llm_do_temporal.activities.definitions import DefinitionActivities, RunNote, no_note
from llm_do_temporal.activities.delegation import DelegationActivities
from llm_do_temporal.activities.external import ExternalActivities
from llm_do_temporal.activities.files import FileActivities, LayerActivities
from llm_do_temporal.activities.models.batches import BatchTimes
from llm_do_temporal.activities.models.conversations import Conversations
from llm_do_temporal.activities.models.turns import TurnStore
from llm_do_temporal.activities.notifications import notify, record_at_desk
from llm_do_temporal.activities.python_tools import PythonToolActivities
from llm_do_temporal.activities.runtime.failures import stand_in
from llm_do_temporal.activities.runtime.interceptors import (
    HeartbeatInterceptor,
    SpanInterceptor,
    blocks_of,
    keep_activities,
)
from llm_do_temporal.definitions.workshop import own_queues
from llm_do_temporal.encryption.codec import encrypting, ring_of
from llm_do_temporal.encryption.keys import KeyRing, key_ring
from llm_do_temporal.extension import activity_refs, added, answers
from llm_do_temporal.messages.activities import FILE_ACTIVITIES
from llm_do_temporal.messages.base import PENDING_ATTRIBUTE, STATE_ATTRIBUTE, TASK_QUEUE, WORKER_ATTRIBUTE
from llm_do_temporal.policy.queues import ROLES, Polled, Queues, Role, polled_queues
from llm_do_temporal.policy.shell import Isolation
from llm_do_temporal.redaction.configured_keys import guard_logging
from llm_do_temporal.redaction.failures import keyless
from llm_do_temporal.service.workflow_runner import WorkflowRunner, allow_long_tasks
from llm_do_temporal.storage.blobs import BlobStore
from llm_do_temporal.storage.external_storage import keeping_big_payloads, with_big_payloads
from llm_do_temporal.storage.places import READ_PATIENCE, READ_SILENCE, SERVICE_PATIENCE, workshop_blobs
from llm_do_temporal.storage.private_files import close_to_others
from llm_do_temporal.workflows.invocation.agent import build_agent
from llm_do_temporal.workflows.invocation.workflow import LlmDoWorker
from llm_do_temporal.workflows.run.workflow import LlmDoRun
from llm_do_temporal.workflows.runtime.activities import TaskQueueInterceptor
from llm_do_temporal.workflows.tools.parts import part_makers


class Workers:
    """Polls while its block runs, or until `run` is cancelled."""

    def __init__(self, polled: Sequence[Polled], workers: Sequence[Worker]) -> None:
        self.polled = tuple(polled)
        self.workers = tuple(workers)
        allow_long_tasks(self.workers)
        self._running = AsyncExitStack()

    async def run(self) -> None:
        """Poll for ever. Raises what stops one of them for good."""
        async with self:
            await asyncio.Event().wait()

    async def __aenter__(self) -> Workers:
        """Begin. An error that stops one of them for good cancels the block, and is raised where it ends."""
        for worker in self.workers:
            await self._running.enter_async_context(worker)
        return self

    async def __aexit__(self, *error: Any) -> None:
        """Finish the work under way, at all queues at once."""
        try:
            await asyncio.gather(*(worker.shutdown() for worker in self.workers))
        finally:
            await self._running.__aexit__(*error)


_log = logging.getLogger(__name__)
_QUICK_CONVERTER = DataConverter(payload_converter_class=PydanticAIPayloadConverter)
"""Same payloads as Temporal's Pydantic converter, which builds the validators of a value's type each time."""
_WORKFLOW_THREADS = 8
"""Workflow code only computes. With a thread for each task, the one that starts activities and sends their heartbeats
waits behind all of them."""
_QUICK_EFFECTS = 100
"""Slots of local activities, which run within a workflow's task and take none of the others."""
LEAST_ACTIVITIES = 10
"""Activities that are begun however busy the machine is: a tool may wait for a worker that it has called."""
_SEARCH_ATTRIBUTES = {
    STATE_ATTRIBUTE: IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD,
    PENDING_ATTRIBUTE: IndexedValueType.INDEXED_VALUE_TYPE_INT,
    WORKER_ATTRIBUTE: IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD,
}


@dataclass(frozen=True)
class ServiceHost:
    """Parts of a service that the activities of an extension may use."""

    workshop: Path
    blobs: BlobStore
    client: Client
    isolation: Isolation


@dataclass(frozen=True)
class ServiceSettings:
    """Settings of one process of the worker service."""

    task_queue: str = TASK_QUEUE
    max_cached_workflows: int = 200
    """Parked runs leave the cache and come back in milliseconds; a large cache is mostly memory."""
    max_concurrent_activities: int = 200
    """Most activities at a time of each task queue that the process polls."""
    max_concurrent_workflow_tasks: int = 24
    """Most tasks of workflows at a time of each task queue; two at least, unless no workflow is cached.

    A task that waits here for a thread until its time is up is given out again by the server, and then done twice; one
    that waits at the server is not. With 100, a thousand workflows that begin at once took twice as long."""
    targets: ResourceBasedTunerConfig | None = None
    """Use of memory and processors from which no more activities are begun; None: there is no such limit."""
    graceful_shutdown: timedelta = timedelta(seconds=30)
    """Time for activities that are under way after the service was told to stop."""
    only: frozenset[Role] = ROLES
    """Roles of this process, of all that a workshop needs."""
    isolation: Isolation = Isolation.PREFERRED
    """Wanted isolation of commands; the stricter of this and the workshop's setting counts."""
    batch_times: BatchTimes = field(default_factory=BatchTimes)
    """Times of model turns that go through the batch APIs of providers."""
    deployment: WorkerDeploymentConfig | None = None
    """Version of a worker deployment that this process is; None: it is none, and takes every run."""
    nexus_handlers: tuple[object, ...] = ()
    """Handlers of Nexus services, which answer callers of other namespaces where workflows are served."""
    note: RunNote = no_note
    """Called for each run that begins."""


async def register_search_attributes(client: Client) -> bool:
    """Make the namespace know our search attributes; False where that is not possible, and runs do without."""
    operator = client.operator_service
    try:
        known = await operator.list_search_attributes(ListSearchAttributesRequest(namespace=client.namespace))
        missing = {name: kind for name, kind in _SEARCH_ATTRIBUTES.items() if name not in known.custom_attributes}
        if missing:
            await operator.add_search_attributes(
                AddSearchAttributesRequest(namespace=client.namespace, search_attributes=missing)
            )
    except RPCError as error:
        _log.warning("search attributes are not registered, runs go on without them: %s", error)
        return False
    return True


def _build_adapters() -> None:
    """Build what Pydantic AI builds when it is used first: in a workflow's task that would take too long."""
    ModelMessagesTypeAdapter.dump_python([])
    # A quarter of a second on an idle machine; values of other types that workflows get are quick.
    converter = _QUICK_CONVERTER.payload_converter
    converter.from_payloads(converter.to_payloads([ModelResponse(parts=[])]), [ModelResponse])


def build_worker(
    client: Client, workshop: Path, settings: ServiceSettings | None = None, *, search_attributes: bool = True
) -> Workers:
    """The Temporal workers that serve this workshop; run them with `async with` or `.run()`.

    Big values go to the workshop's blob store, unless the client has another place for them. Raises UsageError for
    roles that do not fit the workshop, DefinitionError for queues in `workshop.yaml` that cannot be used.
    """
    _build_adapters()
    guard_logging()
    close_to_others(workshop)
    chosen, (providers, separate_files) = settings or ServiceSettings(), own_queues(workshop)
    polled = polled_queues(chosen.task_queue, providers, separate_files=separate_files, only=chosen.only)
    client = _with_quick_converter(client)
    ring = ring_of(client.data_converter)
    blobs = workshop_blobs(workshop, ring, patience=SERVICE_PATIENCE)
    reads = workshop_blobs(workshop, ring, patience=READ_PATIENCE, silence=READ_SILENCE)
    client = with_big_payloads(client, blobs, read_from=reads)
    host = ServiceHost(workshop, blobs, client, chosen.isolation)
    known = answers(lambda one: one.known_turn(host))
    turns = TurnStore(blobs, known, chosen.batch_times, workshop)
    agent = AgentPlugin(build_agent(turns))
    queues = Queues(models=tuple(providers), files=separate_files)
    loaders = answers(lambda one: one.run_loader(host))
    definitions = DefinitionActivities(
        workshop, blobs, search_attributes=search_attributes, queues=queues, note=chosen.note, loaders=loaders
    )
    files = file_activities(host, definitions)
    by_role = activities_by_role(turns.conversations, files, has_files="files" in chosen.only)
    blocks = blocks_of(client)
    interceptors: list[Interceptor] = [TaskQueueInterceptor(), SpanInterceptor(), HeartbeatInterceptor(client, blocks)]
    interceptors += added(lambda one: one.interceptors(host))
    workflow_executor = ThreadPoolExecutor(_WORKFLOW_THREADS, thread_name_prefix="workflow")
    workers = Workers(
        polled,
        [
            Worker(
                client,
                task_queue=one.task_queue,
                workflows=_workflows() if "workflows" in one.roles else [],
                activities=[done for role in one.roles for done in by_role[role]],
                nexus_service_handlers=list(chosen.nexus_handlers) if "workflows" in one.roles else [],
                plugins=[PydanticAIPlugin(), *([agent] if "models" in one.roles else [])],
                interceptors=interceptors,
                workflow_runner=WorkflowRunner(),
                # Threads begin when they are needed. What was given a slot never waits for one.
                activity_executor=ThreadPoolExecutor(
                    chosen.max_concurrent_activities + _QUICK_EFFECTS, thread_name_prefix="activity"
                ),
                workflow_task_executor=workflow_executor,
                max_cached_workflows=chosen.max_cached_workflows,
                tuner=_tuner(chosen),
                max_task_queue_activities_per_second=one.max_per_second,
                graceful_shutdown_timeout=chosen.graceful_shutdown,
                deployment_config=chosen.deployment,
                # A crashed service's cached workflows wait this long before another one takes them over.
                sticky_queue_schedule_to_start_timeout=timedelta(seconds=1),
                # Whoever beats does so at its own pace; a text that is watched should not wait here.
                max_heartbeat_throttle_interval=timedelta(milliseconds=100),
                default_heartbeat_throttle_interval=timedelta(milliseconds=100),
            )
            for one in polled
        ],
    )
    keep_activities(workers.workers, blocks)
    return workers


def _workflows() -> list[type]:
    """Return all workflow classes, those of extensions behind those of the product, and load all that they use."""
    part_makers()
    own: list[type] = [LlmDoRun, LlmDoWorker]
    return own + added(lambda one: one.workflows())


def activities_by_role(
    conversations: Conversations, files: list[Callable[..., Any]], *, has_files: bool
) -> dict[Role, list[Callable[..., Any]]]:
    """Return the activities that each role of a process registers, without those that Pydantic AI registers itself.

    Without files, a process with workflows has stand-ins for all activities that need them.
    """
    absent = [] if has_files else [stand_in(activity) for activity in (*FILE_ACTIVITIES, *activity_refs())]
    own = [conversations.keep_conversation, record_at_desk, notify, *absent]
    return {"workflows": own, "models": [], "files": files}


def _tuner(settings: ServiceSettings) -> WorkerTuner:
    most = settings.max_concurrent_activities
    fixed = FixedSizeSlotSupplier(most)
    slots = ResourceBasedSlotConfig(minimum_slots=min(LEAST_ACTIVITIES, most), maximum_slots=most)
    return WorkerTuner.create_composite(
        workflow_supplier=FixedSizeSlotSupplier(settings.max_concurrent_workflow_tasks),
        activity_supplier=fixed if settings.targets is None else ResourceBasedSlotSupplier(slots, settings.targets),
        local_activity_supplier=FixedSizeSlotSupplier(_QUICK_EFFECTS),
        nexus_supplier=FixedSizeSlotSupplier(1),
    )


def file_activities(host: ServiceHost, definitions: DefinitionActivities) -> list[Callable[..., Any]]:
    """Return the activities that need the files of the workshop, those of `FILE_ACTIVITIES`."""
    workshop, blobs, client = host.workshop, host.blobs, host.client
    files = FileActivities(workshop, blobs)
    shell = ShellActivities(workshop, blobs, isolation=host.isolation)
    attachments = AttachmentActivities(workshop, blobs)
    delegation = DelegationActivities(workshop, blobs)
    external = ExternalActivities(workshop, client)
    return [
        definitions.load_run,
        definitions.load_worker,
        files.read_file,
        files.write_file,
        files.edit_file,
        files.preview_write,
        files.preview_edit,
        files.list_files,
        shell.preview_command,
        shell.run_command,
        attachments.snapshot_attachments,
        attachments.find_files,
        attachments.read_inputs,
        delegation.draft_worker,
        delegation.save_worker,
        delegation.load_template,
        delegation.build_input,
        delegation.check_output,
        LayerActivities(blobs).join_layers,
        PythonToolActivities(workshop, client).call_python_tool,
        external.list_external_tools,
        external.external_capabilities,
        external.call_external_tool,
        *added(lambda one: one.activities(host)),
    ]


def _with_quick_converter(client: Client) -> Client:
    """Return the same connection with our converter; values are encrypted where the environment names keys."""
    config = client.config()
    converter = keyless(encrypting(config["data_converter"], ring_of(config["data_converter"])))
    config["data_converter"] = replace(converter, payload_converter_class=_QUICK_CONVERTER.payload_converter_class)
    key = ring_of(converter).first
    said = "not encrypted" if key is None else f"encrypted with the key '{key.id}' (fingerprint {key.fingerprint})"
    _log.info("values are %s", said)
    return Client(**config)


def build_replayer(workshop: Path | None = None, *, ring: KeyRing | None = None) -> Replayer:
    """Return a replayer of histories with the installed code; it raises for a history that would diverge.

    Histories with big values need the workshop, whose blob store keeps them, and encrypted ones their keys; None:
    those that the environment names. Time does not count: code that gets no processor for 2 s has not diverged, which
    the SDK tells apart in its debug mode only.
    """
    _build_adapters()
    ring = key_ring() if ring is None else ring
    converter = encrypting(_QUICK_CONVERTER, ring)
    if workshop is not None:
        converter = keeping_big_payloads(converter, workshop_blobs(workshop, ring))
    return Replayer(
        workflows=_workflows(),
        plugins=[PydanticAIPlugin()],
        interceptors=[TaskQueueInterceptor()],
        workflow_runner=WorkflowRunner(),
        data_converter=converter,
        debug_mode=True,
    )
