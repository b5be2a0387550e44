"""Names in the answer to a review: one that is not exactly that of a change accepts nothing, whatever file has it."""

from __future__ import annotations

import pytest

from llm_do_temporal.errors import DecisionRefused
from llm_do_temporal.extensions.review.policy.review import ReviewAnswer, named
from llm_do_temporal.policy.layers.layer import Layer, LayerEntry, layer_of
from tests.support.workshops.layered import EDITOR, text_file

PLAIN = ("README.md", "src/a.py", "src/deep/b.py", "src-old/c.py")
ODD = ("*", "**", "all", "~", "-", "--all", "a:b", "src/*", "[s]rc", "{a,b}", "$HOME", "%2e", "a b", "\u202eyp.a")
NOTHING = """
.|..|../|../src/|//|///|./|././|./src|./src/|src|SRC/|Src/a.py|src//a.py|src/./a.py|src/x/../a.py|src/../src/a.py
src\\a.py|src\\\\|/src/a.py|/README.md|/src/|/*|//README.md|./../README.md|README.MD|readme.md|README|README.md.|s/|src-/
src/a|src/a.p|src/a.pyc|src/a.py:1|src/a.py:0000|src/a.py#1|src/a.py?x|file:README.md|file:///README.md|~/README.md
README.md,src/a.py|README.md src/a.py|'README.md'|"README.md"|`README.md`|README.md;|README.md\\n|%52EADME.md|src%2fa.py
src/**|**/*|*.md|*.py|README.*|R?ADME.md|[R]EADME.md|{README.md}|^README|.*|.+|src/*.py|src/a.py/|src/a.py/.|null|true
src/deep/../a.py|src/deep/./b.py|src/deep/b.py/..|$(README.md)|${README.md}|@README.md|-README.md|+README.md|!README.md
"""
INVISIBLE = [
    "README.md ",
    " README.md",
    "README.md\n",
    "\nREADME.md",
    "README.md\t",
    "README.md\0",
    "README.md\u200b",
    "\ufeffREADME.md",
    "README\u2024md",
    "\uff32EADME.md",
    "src\u2215a.py",
    "src\u2044a.py",
    "src/\u0430.py",
    "src/a.p\u0443",
    "src/a\u0301.py",
    "src\u200b/",
    " src/",
    "src /",
    "\u202esrc/a.py",
    "src/a.py\u202c",
    "\x1b[2JREADME.md",
    "README.md\r",
    "README.md\x08",
    "src/\u00ada.py",
    "\u2060",
    "\u3000",
]
NAMES = [one for line in NOTHING.strip().splitlines() for one in line.split("|")] + INVISIBLE


def layer(*paths: str) -> Layer:
    return layer_of({path: LayerEntry(now=text_file("new"), base=None, author=EDITOR) for path in paths})


def accepted(of: Layer, *names: str) -> list[str]:
    return ReviewAnswer(changes="a" * 64, accept=names).paths(of)


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_a_name_that_is_not_that_of_a_change_accepts_nothing(name: str) -> None:
    if name == "src/a.py/":  # a change that is a folder is named so
        assert accepted(layer(*PLAIN), name) == ["src/a.py"]
        return
    with pytest.raises(DecisionRefused):
        accepted(layer(*PLAIN), name)
    with pytest.raises(DecisionRefused):
        accepted(layer(*PLAIN), "README.md", name)


@pytest.mark.parametrize("name", [one for one in NAMES if one != "src/a.py/"], ids=ascii)
def test_among_files_with_odd_names_a_name_accepts_its_own_file_or_nothing(name: str) -> None:
    of = layer(*PLAIN, *ODD)
    try:
        assert accepted(of, name) == [name]
    except DecisionRefused:
        assert name not in ODD or name == "*"


@pytest.mark.parametrize("name", [*ODD, *PLAIN], ids=ascii)
def test_whatever_a_file_is_called_it_is_accepted_alone(name: str) -> None:
    of = layer(*PLAIN, *ODD)
    assert accepted(of, named(name)) == accepted(of, f"./{name}") == [name]
