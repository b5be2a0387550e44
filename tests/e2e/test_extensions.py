"""Capabilities in packages of their own, as the page about them says, in the program as people use it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

from tests.support.people.desk import Desk
from tests.support.people.office import link_of

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "extensions.md").read_text()
(CODE,) = re.findall(r"^```python\n# llm_do_words.py\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
(PAGES,) = re.findall(r"^```python\n# llm_do_words/__init__.py\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
(TEMPLATE,) = re.findall(r"^```html\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
(ENTRY,) = re.findall(r"^```toml\n\[project.entry-points.\"(.*?)\"\]\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def installed(folder: Path, code: str, entries: str = "") -> dict[str, str]:
    """Install a package with the code as a wheel would be; return the variables of a process that finds it."""
    group, of_page = ENTRY
    info = folder / "llm_do_words-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: llm-do-words\nVersion: 1.0\n")
    lines = entries or of_page.replace('"', "")
    (info / "entry_points.txt").write_text(f"[{group}]\n{lines}\n")
    (folder / "llm_do_words.py").write_text(code)
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])}


def program(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "llm_do_temporal.cli", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_the_extension_of_the_page_is_a_command_of_the_program(shop: Desk, tmp_path: Path) -> None:
    shop.type("start", "greeter", "Ada", "--model", "offline:echo", "--id", "greeting")
    environment = shop.environment | {"PYTHONPATH": installed(tmp_path, CODE)["PYTHONPATH"]}
    listed = program(environment, "--help")
    assert "words" in listed.stdout
    assert "Usage: llm-do-temporal words RUN [FLAGS]" in program(environment, "words", "--help").stdout
    counted = program(environment, "words", "greeting", "--workshop", str(shop.workshop))
    assert (counted.stderr, counted.returncode) == ("", 0)
    assert int(counted.stdout) == len(shop.type("result", "greeting").stdout.split())


def test_the_page_of_an_extension_is_one_of_the_web_page(shop: Desk, tmp_path: Path) -> None:
    shop.type("start", "greeter", "Ada", "--model", "offline:echo", "--id", "greeted")
    variables = installed(tmp_path, "")
    (tmp_path / "llm_do_words.py").unlink()
    (tmp_path / "llm_do_words" / "templates").mkdir(parents=True)
    (tmp_path / "llm_do_words" / "__init__.py").write_text(PAGES)
    (tmp_path / "llm_do_words" / "templates" / "words.html").write_text(TEMPLATE)
    shop.environment["PYTHONPATH"] = variables["PYTHONPATH"]
    link = link_of(shop.begin("ui", "--port", "0"))
    words = len(shop.type("result", "greeted").stdout.split())
    base = link.partition("/?")[0]
    assert httpx2.get(f"{base}/words/greeted").status_code == 401
    with httpx2.Client(base_url=base, headers={"sec-fetch-site": "none"}, follow_redirects=True) as visitor:
        assert '<a href="/words"' in visitor.get(link).text
        shown = visitor.get("/words/greeted")
    assert shown.status_code == 200
    assert f"<h1>greeted</h1><p>{words} words</p>" in shown.text


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("code", "entries", "said"),
    [
        ("EXTENSION = (", "", "extension 'words' cannot be loaded: SyntaxError"),
        ("import no_such_module", "", "extension 'words' cannot be loaded: ModuleNotFoundError"),
        ("EXTENSION = object()", "", "extension 'words' names no Extension with that name: llm_do_words:EXTENSION"),
        (CODE.replace('    name = "words"\n', ""), "", "extension 'words' names no Extension with that name"),
        (
            CODE.replace("        return (", "        import no_such_module\n        return ("),
            "",
            "the extension 'words' cannot say what it adds: ModuleNotFoundError",
        ),
        (CODE, "other = llm_do_words:EXTENSION", "extension 'other' names no Extension with that name"),
        (CODE.replace('"words", words', '"start", words'), "", "has a command 'start', which there is already"),
        (
            CODE.replace("EXTENSION = Words()", 'Words.name = "importers"\nEXTENSION = Words()'),
            "importers = llm_do_words:EXTENSION",
            "two extensions are called 'importers'",
        ),
    ],
)
def test_an_extension_that_cannot_be_used_is_one_message_and_exit_code_2(
    tmp_path: Path, code: str, entries: str, said: str
) -> None:
    done = program(installed(tmp_path, code, entries), "--help")
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) <= 2
