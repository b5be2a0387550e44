"""The scripted provider, seen through the client the product uses: Pydantic AI's OpenAI chat model."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest
from openai import AsyncOpenAI
from pydantic import BaseModel, Field
from pydantic_ai import Agent, BinaryContent, UnexpectedModelBehavior, UserContent
from pydantic_ai.exceptions import (
    ModelAPIError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelHTTPError,
    ModelRateLimitError,
    ModelServerError,
)
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, ToolReturnPart
from pydantic_ai.models import infer_model
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from tests.support.providers.provider import (
    Answer,
    Delayed,
    Drop,
    Failure,
    FakeProvider,
    Garbage,
    Gate,
    Gated,
    Text,
    Usage,
    by_function,
    fixed,
    pitch_decks,
    rate_limited,
    tool_call,
    unauthorized,
)

ROOT = Path(__file__).parents[3]
PDF = b"%PDF-1.4\n% a deck about nothing \xff\xfe\n%%EOF\n"


class City(BaseModel):
    name: str
    people: int


class Score(BaseModel):
    dimension: Literal["problem", "team", "timing"]
    score: int = Field(ge=1, le=5)
    evidence: str


class Evaluation(BaseModel):
    summary: str
    scores: list[Score] = Field(min_length=3, max_length=3)
    verdict: Literal["go", "watch", "pass"]
    red_flags: list[str] = Field(max_length=3)


CLIENTS: list[AsyncOpenAI] = []


@pytest.fixture(autouse=True)
async def close_clients() -> AsyncIterator[None]:
    yield
    while CLIENTS:
        await CLIENTS.pop().close()


def client_of(provider: FakeProvider) -> AsyncOpenAI:
    CLIENTS.append(AsyncOpenAI(base_url=provider.url, api_key="test-key", max_retries=0))
    return CLIENTS[-1]


def model_of(provider: FakeProvider) -> OpenAIChatModel:
    return OpenAIChatModel("scripted", provider=OpenAIProvider(openai_client=client_of(provider)))


async def ask(provider: FakeProvider, prompt: str | Sequence[UserContent] = "hello") -> str:
    result = await Agent(model_of(provider)).run(prompt)
    return result.output


async def test_text_arrives_with_the_usage_the_answer_names() -> None:
    with FakeProvider(fixed(Text("Good morning.", Usage(11, 7)))) as provider:
        result = await Agent(model_of(provider), instructions="Be brief.").run("hello")
    assert result.output == "Good morning."
    assert (result.usage.input_tokens, result.usage.output_tokens) == (11, 7)
    (request,) = provider.requests
    assert [m["content"] for m in request.body["messages"]] == ["Be brief.", "hello"]
    assert "test-key" not in json.dumps(request.headers)
    assert request.headers["content-type"] == "application/json"


async def test_it_stands_in_for_openai_by_environment_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeProvider(fixed(Text("here"))) as provider:
        monkeypatch.setenv("OPENAI_BASE_URL", provider.url)
        monkeypatch.setenv("OPENAI_API_KEY", "test-key")
        model = infer_model("openai-chat:any-name")
        assert isinstance(model, OpenAIChatModel)
        CLIENTS.append(model.client)
        result = await Agent(model).run("where?")
    assert result.output == "here"
    assert provider.requests[0].body["model"] == "any-name"


async def test_every_answer_reports_usage_even_when_the_script_names_none() -> None:
    with FakeProvider(fixed(Text("one two three"))) as provider:
        result = await Agent(model_of(provider)).run("hello")
    assert result.usage.input_tokens > 0
    assert result.usage.output_tokens > 0


async def test_a_tool_call_is_made_and_its_result_comes_back() -> None:
    with FakeProvider(fixed(tool_call("population", city="Bonn"), Text("It has 330000."))) as provider:
        agent = Agent(model_of(provider))

        @agent.tool_plain
        def population(city: str) -> int:
            return 330_000 if city == "Bonn" else 0

        result = await agent.run("How many people?")
    assert result.output == "It has 330000."
    first, second = provider.requests
    assert [tool["function"]["name"] for tool in first.body["tools"]] == ["population"]
    assert [m["role"] for m in second.body["messages"]] == ["user", "assistant", "tool"]
    assert second.body["messages"][-1]["content"] == "330000"


async def test_structured_output_is_a_call_of_final_result() -> None:
    with FakeProvider(fixed(tool_call("final_result", name="Bonn", people=330_000))) as provider:
        result = await Agent(model_of(provider), output_type=City).run("Which city?")
    assert result.output == City(name="Bonn", people=330_000)


async def test_the_evaluator_script_proves_which_pdf_bytes_arrived() -> None:
    with FakeProvider(pitch_decks()) as provider:
        agent = Agent(model_of(provider), output_type=Evaluation)
        result = await agent.run(["Evaluate this.", BinaryContent(PDF, media_type="application/pdf")])
    assert hashlib.sha256(PDF).hexdigest() in result.output.summary
    assert [score.dimension for score in result.output.scores] == ["problem", "team", "timing"]
    (part,) = [p for p in provider.requests[0].body["messages"][-1]["content"] if p["type"] == "file"]
    assert base64.b64decode(part["file"]["file_data"].partition(",")[2]) == PDF


async def test_a_rate_limit_says_how_long_to_wait() -> None:
    with FakeProvider(fixed(rate_limited(17))) as provider, pytest.raises(ModelRateLimitError) as caught:
        await ask(provider)
    assert caught.value.retry_after == 17
    assert caught.value.provider_error_code == "rate_limit_exceeded"


@pytest.mark.parametrize(
    ("failure", "error", "status"),
    [
        (Failure(500), ModelServerError, 500),
        (unauthorized(), ModelAuthenticationError, 401),
        (Failure(400, "The prompt is no good."), ModelHTTPError, 400),
    ],
)
async def test_status_errors_arrive_as_the_errors_of_a_real_provider(
    failure: Failure, error: type[ModelHTTPError], status: int
) -> None:
    with FakeProvider(fixed(failure)) as provider, pytest.raises(error) as caught:
        await ask(provider)
    assert isinstance(caught.value, ModelHTTPError)
    assert caught.value.status_code == status
    assert failure.message in str(caught.value.body)


async def test_a_dropped_connection_is_a_connection_error() -> None:
    with FakeProvider(fixed(Drop())) as provider, pytest.raises(ModelConnectionError):
        await ask(provider)


async def test_a_stream_that_is_dropped_fails_after_its_first_words() -> None:
    words: list[str] = []
    with FakeProvider(fixed(Drop(Text("one two three four five six")))) as provider, pytest.raises(ModelAPIError):
        async with Agent(model_of(provider)).run_stream("count") as stream:
            words.extend([word async for word in stream.stream_text(delta=True, debounce_by=None)])
    assert "six" not in "".join(words)


async def test_garbage_is_unexpected_behaviour_of_the_model() -> None:
    with FakeProvider(fixed(Garbage())) as provider, pytest.raises((UnexpectedModelBehavior, ModelAPIError)):
        await ask(provider)


async def test_streamed_text_comes_in_pieces_and_with_usage() -> None:
    with FakeProvider(fixed(Text("one two three", Usage(5, 3)))) as provider:
        async with Agent(model_of(provider)).run_stream("count") as stream:
            pieces = [piece async for piece in stream.stream_text(delta=True, debounce_by=None)]
            usage = stream.usage
    assert pieces == ["one ", "two ", "three"]
    assert (usage.input_tokens, usage.output_tokens) == (5, 3)
    assert provider.requests[0].body["stream"] is True


async def test_a_paused_stream_goes_on_when_its_gate_opens() -> None:
    gate = Gate()
    pieces: list[str] = []
    with FakeProvider(fixed(Text("one two three four", pause=gate))) as provider:
        async with Agent(model_of(provider)).run_stream("count") as stream:
            async for piece in stream.stream_text(delta=True, debounce_by=None):
                pieces.append(piece)
                gate.open()
    gate.wait_until_reached()
    assert "".join(pieces) == "one two three four"


async def test_streamed_tool_calls_are_put_together_again() -> None:
    with FakeProvider(fixed(tool_call("final_result", name="Bonn", people=330_000))) as provider:
        async with Agent(model_of(provider), output_type=City).run_stream("Which city?") as stream:
            output = await stream.get_output()
    assert output == City(name="Bonn", people=330_000)


async def test_faults_come_first_and_do_not_use_up_the_script() -> None:
    with FakeProvider(fixed(Text("at last")), faults=[Failure(500), Delayed(0.01, rate_limited(1))]) as provider:
        with pytest.raises(ModelServerError):
            await ask(provider)
        with pytest.raises(ModelRateLimitError):
            await ask(provider)
        assert await ask(provider) == "at last"
    assert [request.number for request in provider.requests] == [1, 2, 3]


async def test_a_gated_answer_waits_for_its_gate() -> None:
    gate = Gate()
    with FakeProvider(fixed(Text("now")), faults=[Gated(gate)]) as provider:
        pending = asyncio.create_task(ask(provider))
        await asyncio.to_thread(gate.wait_until_reached)
        assert not pending.done()
        gate.open()
        assert await pending == "now"


@pytest.mark.parametrize("waiting", [Gated(Gate()), Delayed(3600)])
async def test_closing_breaks_off_answers_that_wait(waiting: Answer) -> None:
    with FakeProvider(fixed(waiting)) as provider:
        pending = asyncio.create_task(ask(provider))
        await asyncio.to_thread(provider.wait_for_requests, 1)
    with pytest.raises(ModelConnectionError):
        await pending


async def test_a_conversation_with_an_unanswered_call_is_refused_like_openai_does() -> None:
    body: dict[str, Any] = {
        "model": "scripted",
        "messages": [
            {"role": "user", "content": "hello"},
            {"role": "assistant", "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f"}}]},
        ],
    }
    with FakeProvider(fixed(Text("never said"))) as provider, pytest.raises(Exception, match="no response: c1"):
        await client_of(provider).chat.completions.create(**body)


async def test_a_script_that_runs_out_or_fails_says_so_in_its_answer() -> None:
    def broken(_request: dict[str, Any]) -> Answer:
        raise LookupError("nothing fits")

    with FakeProvider(fixed()) as provider, pytest.raises(ModelHTTPError, match="has 0 answers, this is request 1"):
        await ask(provider)
    with FakeProvider(by_function(broken)) as provider, pytest.raises(ModelHTTPError, match="nothing fits"):
        await ask(provider)


@pytest.mark.parametrize("generic", [True, False])
async def test_the_pitch_deck_script_evaluates_every_deck_and_saves_each_result(generic: bool) -> None:
    evaluated: list[str] = []
    written: dict[str, str] = {}
    with FakeProvider(pitch_decks()) as provider:
        agent = Agent(model_of(provider))

        @agent.tool_plain
        def list_files(path: str = ".", pattern: str = "**/*") -> list[str]:
            assert (path, pattern) == ("/pipeline", "*.pdf")
            return ["/pipeline/aero.pdf", "/pipeline/bolt.pdf"]

        @agent.tool_plain
        def write_file(path: str, content: str) -> str:
            written[path] = content
            return "written"

        def evaluate(deck: str) -> str:
            evaluated.append(deck)
            return json.dumps({"verdict": "go"}) if "aero" in deck else "Rejected by ann: not this one"

        def worker_call(worker_name: str, input_data: str, attachments: list[str]) -> str:
            assert worker_name == "pitch_evaluator"
            assert input_data
            return evaluate(attachments[0])

        def pitch_evaluator(input: str, attachments: list[str]) -> str:  # noqa: A002  (the tool's own parameter)
            assert input
            return evaluate(attachments[0])

        if generic:
            agent.tool_plain(worker_call)
        else:
            agent.tool_plain(pitch_evaluator)
        result = await agent.run("Evaluate the pipeline.")
    assert sorted(evaluated) == ["/pipeline/aero.pdf", "/pipeline/bolt.pdf"]
    assert list(written) == ["/evaluations/aero.md"]
    assert "- aero.pdf: go" in result.output
    assert "- bolt.pdf: not evaluated" in result.output
    assert count_calls(result.all_messages()) == [1, 2, 1]


def count_calls(messages: Sequence[ModelRequest | ModelResponse]) -> list[int]:
    """Tool results of each request that has any: calls that belong together were made in one answer."""
    returns = [sum(isinstance(part, ToolReturnPart) for part in m.parts) for m in messages if m.kind == "request"]
    return [count for count in returns if count]


async def test_ids_are_the_same_in_every_run_of_a_script() -> None:
    async def run() -> tuple[str | None, str | None]:
        with FakeProvider(fixed(tool_call("final_result", name="Bonn", people=1))) as provider:
            result = await Agent(model_of(provider), output_type=City).run("Which city?")
        response = result.all_messages()[1]
        assert isinstance(response, ModelResponse)
        assert not any(isinstance(part, TextPart) for part in response.parts)
        return response.provider_response_id, response.tool_calls[0].tool_call_id

    assert await run() == await run()


def test_as_a_process_it_prints_its_url_and_logs_each_request_at_once(tmp_path: Path) -> None:
    log = tmp_path / "requests.jsonl"
    command = [sys.executable, "-m", "tests.support.providers.provider", "--log", str(log), "--fault", "429:3"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        try:
            body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}]}).encode()
            with urllib.request.urlopen(f"{url}/models") as response:
                assert json.load(response)["data"][0]["object"] == "model"
            with pytest.raises(urllib.error.HTTPError) as caught:
                urllib.request.urlopen(f"{url}/chat/completions", body)
            assert caught.value.headers["Retry-After"] == "3"
            caught.value.close()
            (line,) = log.read_text().splitlines()
            assert json.loads(line)["body"]["messages"][0]["content"] == "hi"
        finally:
            process.send_signal(signal.SIGTERM)
    assert process.returncode == 0
