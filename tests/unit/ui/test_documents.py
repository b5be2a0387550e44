"""Files and words as people read them: nothing acts, nothing is fetched, and no word of a hostile text is left out."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from llm_do_temporal.client import Question
from llm_do_temporal.messages.approvals import RequestApprovalInput
from llm_do_temporal.ui.content import documents
from llm_do_temporal.ui.content.documents import (
    MAX_COLOURED_LINE,
    MAX_ROWS,
    as_read,
    blocks_of,
    coloured,
    coloured_lines,
    document_of,
    language_of,
    markdown_html,
)
from llm_do_temporal.ui.content.question_parts import Part, parts_of, shown_part, shown_parts
from tests.support.patience import PATIENCE_SECONDS

DIFF = "--- /a.py\n+++ /a.py\n@@ -3,4 +3,5 @@\n import os\n-x = 1\n-y = 2\n+x = 'two'\n # end\n+z\n"
SCRIPT = "<script>alert(1)</script>"


def text_of(shown: str) -> str:
    return html.unescape(re.sub(r"<[^>]*>", "", shown))


@pytest.mark.parametrize(
    ("markdown", "shown"),
    [
        ("# Title\n\ntext", '<div class="md-heading h1">Title</div>'),
        ("a **b** `c`", "<p>a <strong>b</strong> <code>c</code></p>"),
        ("3. x\n4. y", '<span class="md-number">3.</span> x'),
        ("|a|b|\n|-|-:|\n|1|2|", "<td>1</td>\n<td>2</td>"),
        ("```python\nx = 1\n```", '<div class="md-info">python</div>'),
        ("[a](https://x.example 'why')", '<span class="md-url">(https://x.example “why”)</span>'),
        ("![map](https://x.example/a.png)", '<span class="md-image">picture: map</span>'),
        ("<https://x.example>", '<span class="md-link">https://x.example</span></p>'),
    ],
)
def test_markdown_is_read(markdown: str, shown: str) -> None:
    assert shown in markdown_html(markdown)


@pytest.mark.parametrize(
    "hostile",
    [
        "[x](javascript:alert(1))",
        "[x](https://evil.example)",
        "<javascript:alert(1)>",
        "<script>alert(1)</script>",
        '<img src=x onerror="alert(1)">',
        "<a href='https://evil.example'>x</a>",
        "![x](https://evil.example/pixel.png)",
        "<style>body{display:none}</style>",
        "```<script>\nx\n```",
        "|a|\n|:-:|\n|<b onclick=x>|",
        "<iframe src='/'></iframe>\n\n<form action=/>",
        "# <h1 style='x'>",
    ],
)
def test_nothing_in_markdown_acts_or_is_fetched(hostile: str) -> None:
    shown = str(markdown_html(hostile))
    tags = {tag.lower() for tag in re.findall(r"<\s*([a-zA-Z0-9]+)", shown)}
    assert tags <= {"p", "div", "span", "pre", "code", "table", "thead", "tbody", "tr", "th", "td"}
    assert set(re.findall(r"<[a-z]+ ([a-z]+)=", shown)) <= {"class"}


@pytest.mark.parametrize(
    "hidden",
    [
        "text\n\n[hidden]: https://evil.example 'rm the lot'\n",
        "[text][ref]\n\n[ref]: javascript:alert(1)\n",
        "|a|b|\n|-|-|\n|1|2|three is left out|\n",
        "<!-- a comment -->\n\ntext",
        "&#114;&#109; entities",
        "> " * 60 + "deep",
        "[![alt](https://a.example/x 'title')](https://b.example)",
        "\\*not\\* a_b_c",
        "a\u202eb\u200bc",
    ],
)
def test_no_word_of_a_text_is_left_out(hidden: str) -> None:
    document = document_of("/a.md", hidden)
    words = re.findall(r"[^\W_]+", hidden)
    assert [word for word in words if word not in text_of(document.read or document.source)] == []


def test_the_source_alone_is_shown_where_reading_would_leave_a_word_out() -> None:
    assert document_of("/a.md", "# fine").read is not None
    assert document_of("/a.md", "|a|b|\n|-|-|\n|1|2|three is left out|\n").read is None
    assert document_of("/a.json", '{"a": 1, "a": 2}').read is None
    assert document_of("/a.json", '{"a": "\\u0041"}').read is None


def test_hidden_characters_are_written_out_in_every_form() -> None:
    for path in ("/a.md", "/a.csv", "/a.json", "/a.py", "/a.txt"):
        document = document_of(path, '["a,\u202eb"]\n["c,d"]')
        for shown in (document.source, *([document.read] if document.read else [])):
            assert "\u202e" not in shown
            assert "\\u202e" in shown


def test_a_table_has_all_cells_and_json_one_value_on_a_line() -> None:
    table = document_of("/a.csv", 'name;n\n"<b>;x";2\nshort\n').read
    assert table is not None
    assert "<th>name</th><th>n</th>" in table
    assert "<td>&lt;b&gt;;x</td><td>2</td>" in table
    assert "<td>short</td><td></td>" in table
    laid_out = document_of("/a.json", '{"a":[1,2]}').read
    assert laid_out is not None
    assert text_of(laid_out) == '{\n  "a": [\n    1,\n    2\n  ]\n}'
    assert document_of("/a.csv", "a,b\n" * (MAX_ROWS + 1)).read is None
    assert document_of("/a.csv", 'a,"b\n').read is None
    assert document_of("/a.json", "[" * 100_000).read is None


@pytest.mark.sampled(15)
@pytest.mark.parametrize("language", ["python", "json", "yaml", "bash", "html", "markdown", "sql", "ini", "css", "xml"])
@pytest.mark.parametrize("hostile", ["", "\n\n", "'" * 500, "a\r\nb\rc", "<script>&\u202e\n\t'''", "{{{{[[[[((((" * 99])
def test_colours_change_no_character(language: str, hostile: str) -> None:
    shown = coloured(hostile, language)
    assert text_of(shown) == text_of(coloured(hostile, None))
    assert "<script" not in shown
    assert len(coloured_lines(hostile, language)) == hostile.replace("\r\n", "\n").count("\n") + 1


def test_colours_are_classes_and_too_long_a_line_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "_SECONDS", PATIENCE_SECONDS)  # a busy machine takes long to load a language
    assert coloured("import os", language_of("/x/a.PY")) == (
        '<span class="tok-kn">import</span><span class="tok-w"> </span><span class="tok-nn">os</span>'
    )
    assert "<span" not in coloured("import " + "x" * MAX_COLOURED_LINE, "python")
    assert language_of("/a.exe") is None


def test_a_difference_has_two_sides_with_the_numbers_of_its_lines() -> None:
    names, more_names, hunk, same, changed, after, added, *rest = blocks_of(DIFF.rstrip("\n"), "python")
    assert [block.heading for block in (names, more_names, hunk)] == ["--- /a.py", "+++ /a.py", "@@ -3,4 +3,5 @@"]
    assert same.is_same
    assert [(line.number, text_of(line.html)) for line in same.new] == [(3, " import os")]
    assert [(line.number, text_of(line.html)) for line in changed.old] == [(4, "-x = 1"), (5, "-y = 2")]
    assert [(line.number, text_of(line.html)) for line in changed.new] == [(4, "+x = 'two'")]
    assert (after.is_same, after.old[0].number, after.new[0].number) == (True, 6, 5)
    assert (added.old, [text_of(line.html) for line in added.new], rest) == ([], ["+z"], [])


@pytest.mark.parametrize(
    "diff",
    [
        "@@ line 3001 @@\n-old\n+new",
        "-two\n (left out)",
        "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b",
        "--- /a\n+++ /a\n@@ -1,2 +1,2 @@\n--- sql comment\n+++ more\n x",
        "",
    ],
)
def test_nothing_of_a_difference_is_left_out(diff: str) -> None:
    shown: list[str] = []
    for block in blocks_of(diff, None):
        shown += [str(block.heading)] if block.heading is not None else []
        shown += [text_of(line.html) for line in block.old]
        shown += [text_of(line.html) for line in block.new if not block.is_same and line.kind != "note"]
    assert [line.strip() for line in shown] == [line.strip() for line in diff.split("\n")]


def write_of(content: str, path: str) -> RequestApprovalInput:
    return RequestApprovalInput(
        invocation="r/main",
        key="1",
        worker="w",
        path="main",
        tool="write_file",
        args={"path": path, "content": content},
        capabilities=(),
        summary="s",
    )


QUESTION = Question("a1", "r", write_of("", "/a.md"), datetime(2026, 1, 2, tzinfo=UTC))


def test_what_changes_comes_first_and_the_whole_text_need_not_be_opened_then() -> None:
    request = write_of("# x\n" * 99, "/a.md")
    changing = replace(QUESTION, request=request.model_copy(update={"diff": DIFF}))
    first, path, content = shown_parts(parts_of(changing), request)
    assert first.blocks
    assert (path.part.label, path.is_told) == ("path", False)
    assert (content.part.label, content.is_told) == ("content", True)
    (_, alone) = shown_parts(parts_of(replace(QUESTION, request=request)), request)
    assert not alone.is_told
    assert alone.document.read is not None
    assert shown_part(Part("content", "text", "# x")).document.read is None


def test_a_change_of_line_ends_is_seen() -> None:
    diff = "--- /a.csv\n+++ /a.csv\n@@ -1,2 +1,2 @@\n-a;b\r\n-c;d\r\n+a;b\n+c;d"
    (block,) = shown_part(Part("Changes", "diff", diff), "/a.csv").blocks[3:]
    assert [text_of(line.html) for line in (*block.old, *block.new)] == ["-a;b\\x0d", "-c;d\\x0d", "+a;b", "+c;d"]
    python = "x = 1\r\n\r\ny = 2"
    assert text_of(shown_part(Part("content", "text", python), "/a.py").document.source) == "x = 1\\x0d\n\\x0d\ny = 2"
    assert text_of(shown_part(Part("input", "text", python)).document.source) == "x = 1\\x0d\n\\x0d\ny = 2"
    assert text_of(document_of("/a.py", python).source) == "x = 1\n\ny = 2"


def test_markdown_is_read_and_its_source_is_kept() -> None:
    shown = as_read("# Verdict\n\n| deck | score |\n|---|---|\n| a | 3 |")
    assert shown.read is not None
    assert "<td>3</td>" in shown.read
    assert "# Verdict" in shown.source


def test_a_plain_text_is_shown_as_it_is_with_its_line_ends() -> None:
    assert as_read("one\ntwo\n\nthree").read is None
    assert as_read("one\ntwo").source == "one\ntwo"


def test_json_has_lines_and_colours() -> None:
    shown = as_read({"score": 3})
    assert shown.read is None
    assert "\n" in shown.source


def test_what_a_model_writes_is_text() -> None:
    for hostile in (
        SCRIPT,
        f"# T\n\n{SCRIPT}",
        {"html": SCRIPT},
        "[x](javascript:alert(1)) ![y](http://evil.example/p.png)",
    ):
        shown = as_read(hostile)
        for page in (shown.source, shown.read or ""):
            assert "<script" not in page
            assert "<a " not in page
            assert "<img" not in page
    assert "\\u202e" in as_read("safe\u202etxt").source
