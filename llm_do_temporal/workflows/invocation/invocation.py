"""Invocation of a worker: the agent loop, in whichever workflow it runs."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from itertools import chain
from typing import Any

from pydantic import TypeAdapter
from pydantic_ai import ModelRetry, RunContext, RunUsage, StructuredDict, Tool, ToolFailed, UsageLimits
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelResponse
from pydantic_ai.native_tools import NATIVE_TOOL_TYPES, AbstractNativeTool
from pydantic_ai.toolsets import FunctionToolset
from pydantic_core import SchemaValidator, core_schema
from temporalio import workflow

from llm_do_temporal.activities.models.conversations import origin_of, turn_key_of
from llm_do_temporal.errors import LlmDoError
from llm_do_temporal.messages.activities import KEEP_CONVERSATION
from llm_do_temporal.messages.budget import Saved, Usage
from llm_do_temporal.messages.conversation import ContinuedInvocation, KeepConversationInput
from llm_do_temporal.messages.definitions import DelegateTool
from llm_do_temporal.messages.layers import LayerState
from llm_do_temporal.messages.runs import InvocationResult, InvokeWorkerInput
from llm_do_temporal.policy.identity import ending_key
from llm_do_temporal.policy.layers.layer import CarriedLayer
from llm_do_temporal.policy.models import CutReason, cut_reason
from llm_do_temporal.workflows.invocation.agent import AGENT, HIDDEN
from llm_do_temporal.workflows.invocation.budget import BudgetGuard, BudgetLease, within
from llm_do_temporal.workflows.invocation.conversation import Conversation, check_size, earlier_messages, first_message
from llm_do_temporal.workflows.invocation.desk_client import DeskClient
from llm_do_temporal.workflows.invocation.model_fallback import FallbackChain
from llm_do_temporal.workflows.invocation.output import TOOL_RETRIES, Slips, failed_if_used_up
from llm_do_temporal.workflows.runtime.activities import run_activity
from llm_do_temporal.workflows.runtime.children import DeskLink
from llm_do_temporal.workflows.runtime.failures import AGENT_ERRORS, explain_agent
from llm_do_temporal.workflows.runtime.spans import invocation_span, tell_result
from llm_do_temporal.workflows.tools.delegate import Delegator
from llm_do_temporal.workflows.tools.delegation import WorkerCreate, delegation_tools
from llm_do_temporal.workflows.tools.external import OUTPUT_TOOL, check_tool_names, external_tools, list_external
from llm_do_temporal.workflows.tools.filesystem import file_tools, unusable
from llm_do_temporal.workflows.tools.gate import Gate, for_model
from llm_do_temporal.workflows.tools.gated_tool import GatedTool
from llm_do_temporal.workflows.tools.parts import PartHost, parts_of
from llm_do_temporal.workflows.tools.python import Errands, Functions, ToolDispatch, python_tools
from llm_do_temporal.workflows.tools.shell import shell_tools
from llm_do_temporal.workflows.tools.working_layer import WorkingLayer

_OBJECT = SchemaValidator(core_schema.dict_schema(core_schema.str_schema()))
"""Validator of arguments that accepts every object: the gate checks the rest, with messages of its own."""


_RUN_USAGE = TypeAdapter(RunUsage)


class Invocation:
    """Runs the agent; its tools run here, in workflow code, behind the gate."""

    def __init__(
        self, invocation: InvokeWorkerInput, link: DeskLink, go_on: Callable[[InvokeWorkerInput], Awaitable[None]]
    ) -> None:
        """`link` is the way to the desk of the run.

        `go_on` continues the workflow as new, with the invocation as it is then; it returns where that cannot be done
        yet.
        """
        self.input = invocation
        self._go_on = go_on
        before = invocation.continued or ContinuedInvocation(base=(), usage={})
        self.models = FallbackChain(invocation)
        self.desk = DeskClient(invocation, self.models, before.asked, link)
        self.lease = BudgetLease(invocation, before.spending, link.report)
        self.guard = BudgetGuard(invocation, self.lease, self.desk)
        self.conversation = Conversation(
            before.base, invocation.worker.max_context_tokens or invocation.settings.max_context_tokens
        )
        hosts: list[PartHost] = []

        def host(name: str) -> PartHost:
            hosts.append(PartHost(self.desk, self._offer_made, before.parts.get(name)))
            return hosts[-1]

        self.parts = parts_of(invocation, host)
        self._layer = _layer_of(invocation, lambda: self.conversation.number, is_needed=self.parts.needs_layer)
        for one in hosts:
            one.layer = self._layer
        self._gate = Gate(
            invocation.settings,
            self.desk,
            self.lease.begin_call,
            tree=invocation.tree,
            worker=invocation.asker,
            parts=self.parts,
        )
        self._dispatch = ToolDispatch(self._gate)
        self._spent = _RUN_USAGE.validate_python(before.usage)
        self._tool_calls = before.tool_calls
        self._saved = before.saved
        """Turns of its own that were reused; None: none."""
        self._turn_key = ""
        """Content key of the newest turn."""
        self._cut: CutReason | None = None
        """Reason why the newest answer was cut; None: it was not."""
        self._slips = Slips()
        self._below = before.below
        self._delegator = Delegator(
            invocation,
            link,
            {made.name: made for made in before.created},
            Counter(before.delegations),
            self.lease.begin_invocation,
            self._layer,
            self.parts,
        )
        self.errands = Errands(invocation, self._dispatch, self.desk, self._delegator, Counter(before.occurrences))
        self._functions = Functions(invocation, self._dispatch, self.errands)
        self._external = before.external

    async def run(self) -> InvocationResult:
        """Return the worker's output, and the usage of this invocation with all below it. Raises LlmDoError."""
        with invocation_span(self.input) as span:
            # Nothing may be awaited in a `finally` here: see LlmDoRun.
            try:
                if self.guard.is_needed:
                    result = await within(self._run_agent(), self.guard)
                    # The question at a limit needs no answer once the work is done.
                    await self.desk.withdraw_all()
                else:
                    result = await self._run_agent()
                await self.lease.close()
            except (asyncio.CancelledError, LlmDoError) as error:
                await self.desk.withdraw_all()
                await self.lease.close()
                if isinstance(error, LlmDoError) and workflow.cancellation_reason() is not None:
                    raise asyncio.CancelledError from error
                raise
            tell_result(span, result.output, result.usage)
        return result

    async def _run_agent(self) -> InvocationResult:
        invocation, worker = self.input, self.input.worker
        schema = worker.output_schema
        toolset = await self._toolset()
        try:
            continued = self.conversation.base
            said = None if continued else first_message(invocation)
            history: list[ModelMessage] | None = [earlier_messages()] if continued else None
            run_id = workflow.info().run_id
            while True:
                result = await AGENT.run(
                    said,
                    message_history=history,
                    model=self.models.serving_id,
                    model_settings=self.models.settings,
                    instructions=worker.instructions,
                    toolsets=[toolset] if toolset.tools else None,
                    output_type=StructuredDict(schema, name=schema.get("title")) if schema else str,
                    usage=self._spent,
                    usage_limits=UsageLimits(request_limit=None),
                    run_id=run_id,
                )
                if not self.parts.has_end:
                    break
                known = (await self.parts.advice(ending_key(self._turn_key))).known
                words = await self.parts.before_end() if known is None else str(known.content)
                if not words:
                    break
                # No two parts of a conversation may have the same id.
                said, history, run_id = words, result.all_messages(), f"{run_id}+"
        except AGENT_ERRORS as error:
            raise explain_agent(error, cut_off=self._cut == "length") from error
        layer, before = None if self._layer is None else self._layer.carried, invocation.layer
        is_own = before is None and not invocation.settings.aside
        left = None if is_own or layer == (before or CarriedLayer()) else layer
        return InvocationResult(output=result.output, usage=self.usage, layer=left, truncated=self._cut)

    def _offer_made(self, made: DelegateTool) -> None:
        """Offer a worker that this invocation has made, and people have accepted."""
        creation = self._dispatch.tools.get(WorkerCreate.name)
        if isinstance(creation, WorkerCreate):
            creation.offer(made)

    def count_tool_calls(self, response: ModelResponse) -> None:
        """Add the tool calls of an answer; giving the structured output is none.

        Raises ModelFailed where the model is cut within its calls again and again.
        """
        self._gate.has_accepted = False
        self._turn_key = turn_key_of(response.metadata)
        self._gate.begin_answer(self._turn_key)
        origin = origin_of(response.metadata)
        if origin is not None:
            self._saved = origin.saved.plus(self._saved)
        self._cut = cut_reason(response.finish_reason)
        self._tool_calls += sum(call.tool_name != OUTPUT_TOOL for call in response.tool_calls)
        self._slips.take(response)

    def check_slips(self) -> None:
        """Raise ModelFailed before a turn where the model does nothing but wrong calls."""
        self._slips.check(has_accepted=self._gate.has_accepted)

    @property
    def usage(self) -> Usage:
        """Return the usage of this invocation and those below it so far."""
        spent = self._spent
        own = Saved() if self._saved is None else self._saved
        below = self._below.saved
        return Usage(
            requests=spent.requests - own.requests,
            tool_calls=self._tool_calls,
            input_tokens=spent.input_tokens,
            output_tokens=spent.output_tokens,
            estimated=spent.unmeasured_requests,
            cost_usd=self.lease.state.tree_cost,
            unpriced=self.lease.state.tree_unpriced,
            costs=self.lease.state.tree_costs,
            saved=below if self._saved is None else self._saved.plus(below),
        )

    def server_side_tool(self, kind: str) -> AbstractNativeTool | None:
        """Return the server-side tool of this kind, where the worker has it."""
        chosen = next((tool for tool in self.input.worker.server_side_tools if tool.tool_type == kind), None)
        return None if chosen is None else NATIVE_TOOL_TYPES[kind](**chosen.options)

    async def go_on_as_new(self, messages: Sequence[ModelMessage], usage: RunUsage) -> None:
        """Continue this workflow as new, with its conversation in the blob store. Called between two turns."""
        number, base = self.conversation.number, self.conversation.base
        if not number or self.desk.is_waiting:
            return
        unsent = self.conversation.unsent(list(messages))
        check_size(unsent)
        said = ModelMessagesTypeAdapter.dump_python(unsent, mode="json")
        request = KeepConversationInput(number=number, base=base, messages=said)
        kept = await run_activity(KEEP_CONVERSATION, request, summary="keep the conversation")
        continued = ContinuedInvocation(
            base=kept.base,
            usage=_RUN_USAGE.dump_python(usage, mode="json"),
            tool_calls=self._tool_calls,
            saved=self._saved,
            below=self._below,
            asked=self.desk.asked,
            created=tuple(self._delegator.created.values()),
            delegations=self._delegator.calls,
            occurrences=self.errands.occurrences,
            spending=self.lease.state,
            external=self._external,
            layer=None if self._layer is None else self._layer.state,
            parts=self.parts.states(),
        )
        await self._go_on(self.input.model_copy(update={"continued": continued}))

    async def _toolset(self) -> FunctionToolset[object]:
        invocation = self.input
        offered = FunctionToolset[object](id="worker")
        dispatch = self._dispatch

        def offer(tool: GatedTool) -> None:
            # Also while the agent runs: the model sees the tool from its next turn on.
            if tool.name not in dispatch.tools:
                dispatch.tools[tool.name] = tool
                offered.add_tool(self._offered(tool))

        own: dict[str, list[GatedTool]] = {
            "filesystem": file_tools(invocation.tree, self._layer) if invocation.worker.filesystem else [],
            "shell": shell_tools(invocation, self.desk, self._layer),
            **{f"extension {name}": tools for name, tools in self.parts.tools().items()},
            "delegation": delegation_tools(self._delegator, offer),
            "custom": python_tools(self._functions),
        }
        if self._external is None:
            self._external = await list_external(self.errands)
        external = external_tools(self.errands, self._external)
        check_tool_names(own, external)
        for tool in (*chain.from_iterable(own.values()), *external):
            offer(tool)
        return offered

    def _offered(self, tool: GatedTool) -> Tool[object]:
        async def call(context: RunContext[object], /, **args: Any) -> Any:
            try:
                outcome = await self._gate.call(tool, args, context.tool_call_id)
            except ModelRetry as error:
                failed_if_used_up(context, error.message)
                raise
            spent = outcome.usage
            self.lease.add_below(spent)
            self._below = self._below.plus(spent)
            self._tool_calls += spent.tool_calls
            context.usage.incr(
                RunUsage(
                    requests=spent.requests,
                    input_tokens=spent.input_tokens,
                    output_tokens=spent.output_tokens,
                    unmeasured_requests=spent.estimated,
                )
            )
            if outcome.failure is not None:
                raise ToolFailed(for_model(outcome.failure))
            return outcome.value

        offered: Tool[object] = Tool.from_schema(call, tool.name, tool.description, tool.schema, takes_ctx=True)
        offered.function_schema.validator = _OBJECT
        offered.metadata = {"temporal": False, HIDDEN: unusable(tool.name, self.input.tree)}
        offered.max_retries = TOOL_RETRIES
        return offered


def _layer_of(invocation: InvokeWorkerInput, turn: Callable[[], int], *, is_needed: bool) -> WorkingLayer | None:
    """Return the layer that the invocation works on: its caller's, or one of its own; None: it works on the files."""
    if invocation.layer is None and not invocation.settings.aside and not is_needed:
        return None
    before = None if invocation.continued is None else invocation.continued.layer
    return WorkingLayer(before or LayerState(carried=invocation.layer or CarriedLayer()), invocation, turn)
