"""`run_worker` in a script of somebody who knows nothing of Temporal."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.support.patience import COMMAND_SECONDS
from tests.support.people.desk import Desk

SCRIPT = """
import sys
import llm_do_temporal

assert not {"temporalio", "pydantic", "pydantic_ai"} & set(sys.modules), "the import is not light"

import asyncio, json
from llm_do_temporal import run_worker


async def main():
    result = await run_worker("greeter", "hello")
    print(json.dumps([result.output, result.usage.requests, result.run]))
    assert "pydantic_ai" not in sys.modules, "agents are loaded by the worker service"


asyncio.run(main())
"""
FAILING = """
import asyncio
from llm_do_temporal import run_worker
from llm_do_temporal.errors import LlmDoError

try:
    asyncio.run(run_worker("nobody", "hello"))
except LlmDoError as error:
    print(error.code, error.exit_code)
"""


def run(desk: Desk, script: str, folder: Path) -> str:
    """Run a script in a folder, and return what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=folder,
        env=desk.environment,
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_script_in_a_workshop_gets_the_result_and_the_run_is_there_for_commands(shop: Desk) -> None:
    output, requests, run_id = json.loads(run(shop, SCRIPT, shop.workshop))
    assert output.startswith("Hello")
    assert requests == 1
    assert json.loads(shop.type("result", run_id, "-o", "json").stdout)["output"] == output


def test_a_mistake_is_an_error_of_ours_before_anything_is_started(desk: Desk) -> None:
    assert run(desk, FAILING, desk.workshop) == "WorkerNotFound 8\n"
    assert not (desk.workshop / ".llm-do").exists()


TEMPLATE = """
import json
from llm_do_temporal import TemplateCall

call = TemplateCall(allow_templates=["./templates/*.yaml"])
fragments = [{"path": "PROCEDURE.txt"}]
print(call.run(template="templates/said.yaml", input="hello", fragments=fragments, params={"tone": "dry"}))
"""


def test_a_template_is_started_by_a_script_and_by_the_command(shop: Desk) -> None:
    (shop.workshop / "templates").mkdir(exist_ok=True)
    text = "system: Say it again.\nprompt: In a $tone voice\nmodel: offline:echo\n"
    (shop.workshop / "templates/said.yaml").write_text(text, encoding="utf-8")
    (shop.workshop / "PROCEDURE.txt").write_text("Slowly.", encoding="utf-8")
    said = run(shop, TEMPLATE, shop.workshop).strip()
    assert said == "In a dry voice\n\nhello\n\nExtra context, the file PROCEDURE.txt:\nSlowly."
    started = shop.type("start", "templates/said.yaml", "hello", "--param", "tone=dry", "-o", "json").stdout
    done = json.loads(started.splitlines()[-1])
    assert done["output"] == "In a dry voice\n\nhello"
    (shown,) = json.loads(shop.type("show", done["run"], "--json").stdout)["invocations"]
    assert (shown["worker"], shown["template"]["name"]) == ("said", "templates/said.yaml")
    assert (shown["template"]["params"], shown["template"]["input"]) == ({"tone": "dry"}, "hello")
    refused = shop.type("start", "templates/said.yaml", "hello", "--param", "size=1", code=2)
    assert "it has no parameter 'size'; it needs 'tone'" in refused.stderr
