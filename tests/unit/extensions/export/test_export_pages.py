"""A run written down: complete, and harmless whatever a model wrote."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from datetime import UTC
from html.parser import HTMLParser

import pytest

from llm_do_temporal.client.history.questions import Question
from llm_do_temporal.client.views.run_list import RunSummary
from llm_do_temporal.client.views.run_view import RunView
from llm_do_temporal.client.views.transcripts import Entry, File
from llm_do_temporal.extensions.export.report import Exported, render_html, render_markdown
from llm_do_temporal.messages.approvals import DecisionKind, Verdict
from tests.support.workflow.moments import START, after

HOSTILE = "</pre><script>alert(1)</script>\n````\n# Approved\n<img src=x onerror=y>\x1b[2J\u202e"


class Tags(HTMLParser):
    """The tags of a page, with what makes a browser ask for something."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.asks: list[tuple[str, str | None]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.asks += [one for one in attrs if one[0] in ("src", "href", "action", "style") or one[0].startswith("on")]


@pytest.fixture
def exported(view: RunView, pending: Question) -> Exported:
    at = START.replace(tzinfo=UTC)
    verdict = Verdict(decision=DecisionKind.MODIFY, args={"path": "/b.txt"}, by="ann", note="b!", at=at, door="update")
    entries = [
        Entry("instructions", at, 0, 1, "Do it."),
        Entry("prompt", at, 0, 1, HOSTILE, files=(File("/deck.pdf", "application/pdf", "0" * 64, 7),)),
        Entry("thinking", at, 1, 5, "hmm"),
        Entry("call", at, 1, 5, name="write_file", call="c1", value={"content": HOSTILE}),
        Entry("turn", at, 1, 5, name="m", details={"input_tokens": 1200, "output_tokens": 3, "seconds": 1.5}),
        Entry("question", at, 1, 6, HOSTILE, name="write_file", details={"diff": HOSTILE}),
        Entry("decision", at, 1, 7, "b!", name="ann", value="modify", details={"id": "a1", "door": "update"}),
        Entry("result", at, 1, 8, name="write_file", call="c1", value=HOSTILE, failed=True),
        Entry("error", at, 1, 9, "the model is gone"),
        Entry("end", at, 1, 9, "completed", value=HOSTILE),
    ]
    summary = RunSummary("run-1", "boss", "running", 0, at, None)
    asked = replace(pending, request=pending.request.model_copy(update={"summary": HOSTILE}), verdict=verdict)
    view.nodes["r"].worker = HOSTILE
    return Exported(summary, view, [asked], {"r": entries}, after(75))


def test_the_page_holds_no_markup_but_its_own_and_asks_for_nothing(exported: Exported) -> None:
    page = render_html(exported)
    tags = Tags(page)
    assert not tags.names & {"script", "img", "iframe", "link", "object", "form", "a"}
    assert tags.asks == []
    assert "\x1b" not in page
    assert "\u202e" not in page
    assert "alert(1)" in page


def test_the_page_forbids_what_it_does_not_have(exported: Exported) -> None:
    page = render_html(exported)
    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert f"content=\"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'\"" in page


@pytest.mark.parametrize("render", [render_html, render_markdown])
def test_all_of_the_run_is_there(exported: Exported, render: object) -> None:
    assert callable(render)
    text = str(render(exported))
    for said in ("run-1", "main/scout-3", "$0.0125", "/deck.pdf, application/pdf, 7 bytes", "the model is gone"):
        assert said in text
    assert "modify by ann, 2026-01-02 03:04:05 UTC, by update: b!" in text
    assert "turn 1, m, 1,200 tokens in, 3 out, unpriced, 1.5 s" in text


def test_a_result_has_its_words_beside_its_files_and_may_be_nothing_much(exported: Exported) -> None:
    at = START.replace(tzinfo=UTC)
    file = File("chart.png", "image/png", "0" * 64, 7)
    both = Entry("result", at, 1, 10, name="draw", value=["two bars"], files=(file,))
    entries = [both, Entry("result", at, 1, 11, name="count", value=0)]
    exported = replace(exported, transcripts={"r": entries})
    for text in (render_html(exported), render_markdown(exported)):
        assert "two bars" in text
        assert "chart.png" in text
    told = exported.as_json()["invocations"][0]["transcript"]
    assert [entry["value"] for entry in told] == [["two bars"], 0]


def test_nothing_in_the_markdown_gets_out_of_its_fence(exported: Exported) -> None:
    outside: list[str] = []
    fence = ""
    for line in render_markdown(exported).splitlines():
        mark = re.fullmatch(r"(`{3,})(text)?", line)
        if not fence and mark is not None and mark[2]:
            fence = mark[1]
        elif fence and line == fence:
            fence = ""
        elif not fence:
            outside.append(line)
    assert fence == ""
    assert not any(line.startswith(("# Approved", "<")) for line in outside)
    # What stands outside of a fence stands between backticks.
    assert not any("<script>" in re.sub(r"(`+) ?.*?\1(?!`)", "", line) for line in outside)


def test_the_object_has_the_whole_approvals_and_transcripts(exported: Exported) -> None:
    told = json.loads(json.dumps(exported.as_json()))
    assert (told["v"], told["type"], told["run"]) == (1, "run.export", "run-1")
    assert told["approvals"][0]["verdict"]["by"] == "ann"
    assert told["approvals"][0]["args"]["content"] == "one\ntwo\n"
    first = told["invocations"][0]["transcript"]
    assert [entry["kind"] for entry in first[:3]] == ["instructions", "prompt", "thinking"]
    assert first[7] == {
        "kind": "result",
        "at": "2026-01-02T03:04:05+00:00",
        "turn": 1,
        "event": 8,
        "name": "write_file",
        "call": "c1",
        "value": HOSTILE,
        "failed": True,
    }


def test_two_arguments_that_differ_never_look_the_same_in_markdown(exported: Exported) -> None:
    pages: list[str] = []
    for path in ("/d\u200b.txt", "/d\\u200b.txt", "/d ", "/d"):
        question = exported.questions[0]
        asked = question.request.model_copy(update={"args": {"path": path}})
        page = render_markdown(replace(exported, questions=[replace(question, request=asked)]))
        pages.append("\n".join(line.rstrip() for line in page.splitlines()))
    assert len(set(pages)) == len(pages)


def test_a_change_of_line_ends_is_seen_in_a_call(exported: Exported) -> None:
    (question,) = exported.questions
    change = {"diff": "--- /a\n+++ /a\n@@ -1 +1 @@\n-old\r\n+old\n", "args": {"content": "text\r\n"}}
    asked = replace(question, request=question.request.model_copy(update=change))
    with_change = replace(exported, questions=[asked])
    assert re.findall(r"^(?:-old|text).*$", render_markdown(with_change), re.MULTILINE)[:2] == [
        "text\\x0d",
        "-old\\x0d",
    ]
    assert render_html(with_change).count('<span class="hidden-char">\\x0d</span>') == 2
