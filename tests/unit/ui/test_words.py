"""Words of models as people read them."""

from __future__ import annotations

from llm_do_temporal.ui.content.documents.words import as_read

SCRIPT = "<script>alert(1)</script>"


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
        for html in (shown.source, shown.read or ""):
            assert "<script" not in html
            assert "<a " not in html
            assert "<img" not in html
    assert "\\u202e" in as_read("safe\u202etxt").source
