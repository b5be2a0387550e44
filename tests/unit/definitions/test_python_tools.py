"""Functions of `tools.py` as tools: where they are found, what is pinned of them, and what is wrong with them."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from llm_do_temporal.errors import DefinitionError
from llm_do_temporal.messages.definitions import PythonTool, PythonToolset
from llm_do_temporal.policy.approvals import Ruling
from tests.support.patience import PATIENCE_SECONDS
from tests.support.workshops.workshop_folder import WorkshopFolder

SLUGIFY = '''\
def slugify(text: str, limit: int = 10) -> str:
    """Make a slug."""
    return text
'''
ORCHESTRATE = """\
from llm_do_temporal.tools import IdempotencyKey, ToolContext, tool_context

@tool_context
async def orchestrate(task: str, context: ToolContext, key: IdempotencyKey) -> str:
    return task
"""


def load(workshop: WorkshopFolder, custom: str = "{slugify: {}}") -> PythonToolset:
    workshop.write("workers/main.worker", f"toolsets:\n  custom: {custom}\n---\nDo it.")
    toolset = workshop.load("main").python
    assert toolset is not None
    return toolset


def only(workshop: WorkshopFolder, custom: str = "{slugify: {}}") -> PythonTool:
    (tool,) = load(workshop, custom).tools
    return tool


def test_a_function_is_pinned_with_its_signature(workshop: WorkshopFolder) -> None:
    workshop.write("tools.py", SLUGIFY)
    toolset = load(workshop)
    (tool,) = toolset.tools
    assert (tool.name, tool.description, tool.kind, tool.idempotent) == ("slugify", "Make a slug.", "plain", False)
    assert (tool.source, tool.sha256) == ("tools.py", hashlib.sha256(SLUGIFY.encode()).hexdigest())
    assert tool.parameters == {
        "type": "object",
        "properties": {"text": {"type": "string"}, "limit": {"type": "integer", "default": 10}},
        "required": ["text"],
        "additionalProperties": False,
    }
    assert (tool.ruling, tool.capabilities) == (None, ("python.call",))
    assert toolset.sources == {}


def test_a_function_with_a_context_is_pinned_with_the_text_of_its_file(workshop: WorkshopFolder) -> None:
    workshop.write("tools.py", ORCHESTRATE)
    toolset = load(workshop, "{orchestrate: {}}")
    (tool,) = toolset.tools
    assert tool.kind == "context"
    assert set(tool.parameters["properties"]) == {"task"}
    assert toolset.sources == {tool.sha256: ORCHESTRATE}


def test_what_the_worker_says_of_a_tool_is_pinned(workshop: WorkshopFolder) -> None:
    workshop.write("tools.py", SLUGIFY)
    tool = only(workshop, "{slugify: {needs_approval: true, capabilities: [net.send], description: Better.}}")
    assert (tool.ruling, tool.capabilities) == (Ruling.NEEDS_APPROVAL, ("net.send",))
    assert tool.description == "Better."


def test_the_nearest_file_that_has_the_function_is_used(workshop: WorkshopFolder) -> None:
    sources: list[str] = []
    for path in ("tools.py", "workers/tools.py", "workers/main/tools.py"):
        workshop.write(path, SLUGIFY)
        sources.append(only(workshop).source)
    workshop.write("workers/main/tools.py", "def other() -> None: ...\n")
    sources.append(only(workshop).source)
    assert sources == ["tools.py", "workers/tools.py", "workers/main/tools.py", "workers/tools.py"]


def test_an_edited_file_is_read_anew(workshop: WorkshopFolder) -> None:
    workshop.write("tools.py", SLUGIFY)
    before = only(workshop)
    workshop.write("tools.py", SLUGIFY.replace("limit", "longest"))
    after = only(workshop)
    assert "longest" in after.parameters["properties"]
    assert before.sha256 != after.sha256


def test_a_worker_that_asks_for_none_has_none(workshop: WorkshopFolder) -> None:
    for custom in ("", "{}", "{slugify: {enabled: false}}", "{enabled: false, slugify: {}}"):
        workshop.write("workers/main.worker", f"toolsets:\n  custom: {custom}\n---\nDo it.")
        assert workshop.load("main").python is None


@pytest.mark.parametrize(
    ("custom", "words"),
    [
        ("{gone: {}}", "there is no function 'gone' in 'tools.py'"),
        ("{LIMIT: {}}", "'LIMIT' is not a function"),
        ("{read_file: {}}", "tool name 'read_file' is reserved"),
        ("{two words: {}}", "'two words' cannot be the name of a tool"),
        ("{slugify: {pre_approved: true, blocked: true}}", "'pre_approved' and 'blocked' exclude each other"),
        ("{slugify: {capabilities: []}}", "'toolsets.custom.slugify.capabilities'"),
        ("{slugify: {capabilities: [Net]}}", "'toolsets.custom.slugify.capabilities'"),
        ("{slugify: {ask: true}}", "allowed: blocked, capabilities, description, enabled, needs_approval, pre_appr"),
        ("{slugify: {}}\n  delegation: {slugify: {}}", "'slugify' stands in both 'toolsets.delegation' and"),
    ],
)
def test_what_is_wrong_in_the_worker_file_is_named_there(workshop: WorkshopFolder, custom: str, words: str) -> None:
    workshop.write("tools.py", f"LIMIT = 3\n{SLUGIFY}")
    workshop.write("workers/main.worker", f"toolsets:\n  custom: {custom}\n---\nDo it.")
    found = [line for line in workshop.said() if words in line]
    assert found, workshop.said()
    assert "workers/main.worker:2: " in found[0] or "tools.py: " in found[0]
    with pytest.raises(DefinitionError):
        workshop.load("main")


def test_a_missing_file_is_named_with_where_it_may_stand(workshop: WorkshopFolder) -> None:
    workshop.write("workers/main.worker", "toolsets:\n  custom:\n    slugify: {}\n---\nDo it.")
    (problem,) = workshop.problems()
    assert str(problem) == "workers/main.worker:3: there is no tools.py with 'slugify'"
    assert problem.next_step == "Write it to 'workers/main/tools.py' or 'workers/tools.py' or 'tools.py'."


@pytest.mark.parametrize(
    ("source", "line", "words"),
    [
        ("def slugify(*texts: str): ...", 1, "'slugify' takes '*texts: str'"),
        ("def slugify(**texts): ...", 1, "'slugify' takes '**texts'"),
        ("def slugify(text, /): ...", 1, "'slugify' takes 'text'"),
        ("\n\ndef slugify(text: Nothing): ...", 3, "name 'Nothing' is not defined"),
        ("from __future__ import annotations\ndef slugify(text: Nothing): ...", 2, "annotations of 'slugify' cannot"),
        ("def slugify(text: type(open)): ...", 1, "the arguments of 'slugify' cannot be described"),
        ("from typing import Callable\ndef slugify(f: Callable[[], int]): ...", 2, "has no JSON Schema"),
        ("def slugify():\n    yield 1", 1, "'slugify' is a generator"),
        ("x = 1 / 0", 1, "ZeroDivisionError: division by zero"),
        ("def slugify(:", 1, "SyntaxError"),
        ("from llm_do_temporal.tools import *\ndef slugify(ctx: ToolContext): ...", 2, "mark it with @tool_context"),
        (
            "from llm_do_temporal.tools import *\n@tool_context\ndef slugify(ctx): ...",
            2,
            "such a function is `async def`",
        ),
        ("from llm_do_temporal.tools import *\n@tool_context\nasync def slugify(): ...", 2, "takes exactly one `ctx"),
        (
            "from llm_do_temporal.tools import *\n@tool_context\n@idempotent\nasync def slugify(ctx): ...",
            2,
            "marked with @tool_context and @idempotent",
        ),
        (
            "from llm_do_temporal.tools import *\nimport neighbour\n@tool_context\nasync def slugify(ctx): ...",
            2,
            "it imports 'neighbour' of the workshop",
        ),
        (
            f"from llm_do_temporal.tools import *\n@tool_context\nasync def slugify(ctx): ...\nX = '{'x' * 262144}'",
            2,
            "with a @tool_context function it may have 262144",
        ),
    ],
)
def test_what_is_wrong_in_the_python_is_named_there(
    workshop: WorkshopFolder, source: str, line: int, words: str
) -> None:
    workshop.write("neighbour.py", "x = 1\n")
    workshop.write("tools.py", source + "\n")
    workshop.write("workers/main.worker", "toolsets:\n  custom: {slugify: {}}\n---\nDo it.")
    (problem,) = workshop.problems()
    assert (problem.file, problem.line) == ("tools.py", line)
    assert words in problem.message
    assert problem.message.endswith("(for the tool 'slugify' of worker 'main')")


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("raise KeyboardInterrupt", "KeyboardInterrupt: "),
        ("raise GeneratorExit('now')", "GeneratorExit: now"),
        ("raise type('Own', (BaseException,), {})('mine')", "Own: mine"),
        (
            "class Odd(Exception):\n    def __str__(self): raise SystemExit\nraise Odd",
            "Odd: its message cannot be read",
        ),
        ("def __getattr__(name): raise KeyboardInterrupt(name)", "KeyboardInterrupt: slugify"),
        ("class Odd(type):\n    def __getattr__(cls, name): raise SystemExit(name)\nslugify = Odd('a', (), {})()", ""),
    ],
)
def test_whatever_a_file_raises_in_the_worker_service_is_named(
    workshop: WorkshopFolder, source: str, words: str
) -> None:
    """There it is loaded in a thread; in the main thread KeyboardInterrupt is the person who presses Ctrl-C."""
    path = workshop.write("tools.py", source + "\n")
    workshop.write("workers/main.worker", "toolsets:\n  custom: {slugify: {}}\n---\nDo it.")
    with ThreadPoolExecutor(1) as executor:
        (problem,) = executor.submit(workshop.problems).result()
    assert words in problem.message
    assert problem.message.endswith("(for the tool 'slugify' of worker 'main')")
    for name in [name for name, module in sys.modules.items() if vars(module).get("__file__") == str(path)]:
        del sys.modules[name]  # others that look at all modules would meet its `__getattr__`


def test_ctrl_c_while_a_file_is_loaded_is_no_mistake_of_the_file(workshop: WorkshopFolder) -> None:
    workshop.write("tools.py", "raise KeyboardInterrupt\n")
    workshop.write("workers/main.worker", "toolsets:\n  custom: {slugify: {}}\n---\nDo it.")
    with pytest.raises(KeyboardInterrupt):
        workshop.problems()


def test_a_file_that_lowers_a_limit_when_it_is_loaded_harms_nobody(workshop: WorkshopFolder) -> None:
    before = sys.getrecursionlimit()
    workshop.write("tools.py", f"import sys\nsys.setrecursionlimit(200)\nsys.stdout.close()\n{SLUGIFY}")
    assert only(workshop).name == "slugify"
    assert sys.getrecursionlimit() == before
    print("The standard output is open.")


def test_a_file_that_leads_out_of_the_workshop_is_refused(workshop: WorkshopFolder) -> None:
    (workshop.root / "tools.py").symlink_to(workshop.write("../outside.py", SLUGIFY))
    with pytest.raises(DefinitionError, match=r"'tools\.py' is a link that leads out of the workshop"):
        load(workshop)


def test_a_rule_for_a_capability_of_a_tool_is_no_typing_error(workshop: WorkshopFolder) -> None:
    rules = "approvals: {rules: {net: blocked, nte.send: blocked, file.move: blocked, text.cut: blocked}}"
    created = "creation_defaults: {toolsets: {custom: {slugify: {capabilities: [file.move]}}}}"
    workshop.write("workshop.yaml", f"{rules}\n{created}\n")
    workshop.write("tools.py", SLUGIFY)
    template = "system: Cut.\ntoolsets: {custom: {slugify: {capabilities: [text.cut]}}}\n"
    workshop.write("templates/cut.yaml", template)
    workshop.write("workers/boss.worker", "toolsets: {delegation: {templates: {lock: templates/cut.yaml}}}\n---\nx")
    load(workshop, "{slugify: {capabilities: [net.send]}}")
    (problem,) = workshop.problems()
    assert "'nte.send'" in problem.message


def test_what_authors_import_loads_no_framework() -> None:
    code = (
        "import sys, llm_do_temporal.tools\n"
        "heavy = {'temporalio', 'pydantic_ai', 'pydantic'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=PATIENCE_SECONDS)
