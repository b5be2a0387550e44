"""Titles of requests: what a person reads first, made of what a model chose."""

from __future__ import annotations

import pytest

from llm_do_temporal.ui.content.titles import TITLE_CHARS, group_title, request_title, tells_more


@pytest.mark.parametrize(
    ("tool", "summary", "args", "title"),
    [
        ("write_file", "write_file /a.txt (1 bytes)", {}, "Write the file /a.txt (1 bytes)"),
        ("edit_file", "edit_file /a.txt (1 bytes)", {}, "Change the file /a.txt (1 bytes)"),
        ("shell", "shell git push origin", {}, "Run the command git push origin"),
        ("greeter", "call greeter: hello", {"input": "hello"}, "Call the worker greeter: hello"),
        ("worker_create", "create worker x (its text)", {}, "Create the worker x (its text)"),
        ("worker_call", "share /a.pdf (9 bytes) with reader", {}, "Share the file /a.pdf (9 bytes) with reader"),
        ("submit", "review 2: 1 change (1 added)", {}, "Review 2: 1 change (1 added)"),
        ("limit", "main has spent 2 turns; go on?", {}, "main has spent 2 turns; go on?"),
        ("shell", "may have happened: shell make", {}, "Repeat what may have happened: shell make"),
        ("send_mail", "send_mail {}", {"to": "ann@x.org", "subject": "Hi"}, "Send mail to ann@x.org, subject: Hi"),
        ("create-issue", "create-issue of hub", {"title": "x", "in": "y"}, "Create issue (title: x, in y)"),
        ("pay", "pay", {}, "Pay"),
        # Tools that are called like a verb of ours are not taken for it.
        ("shell", 'shell {"a":1}', {"a": "1"}, "Shell (a: 1)"),
        ("call", 'call {"who":"x"}', {"who": "x"}, "Call (who: x)"),
        ("write_file", "write_file of disk", {"path": "/x"}, "Write file (path: /x)"),
        ("share", "share of disk", {"path": "/x"}, "Share (path: /x)"),
    ],
)
def test_a_title_says_what_is_wanted(tool: str, summary: str, args: dict[str, str], title: str) -> None:
    assert request_title(tool, summary, args) == title


def test_a_title_does_not_hide_that_there_is_more() -> None:
    """Attack: the argument that matters is the fourth one, stands behind a long one, or there was no room for it."""
    many = {"a": "x", "b": "x", "c": "x", "to": "x"}
    assert request_title("send", "send {}", many) == "Send (a: x, b: x, c: x, …)"
    assert request_title("send", "send {}", {"to": "x" * 400}) == f"Send to {'x' * 48}…"
    assert request_title("send", "send {}", {"to": "ann"}, is_whole=False) == "Send to ann, …"
    assert len(request_title("send", "send {}", {"n" * 300: "x" * 300})) == TITLE_CHARS + 1
    assert request_title("_", "_ {}", {"a": ""}) == "_ (a: )"


def test_the_technical_line_is_left_out_only_where_the_title_has_it() -> None:
    assert not tells_more("Write the file /a.txt (1 bytes)", "write_file /a.txt (1 bytes)")
    assert not tells_more("Pay", "pay")
    assert tells_more("Send mail to ann@x.org", 'send_mail {"to":"ann@x.org"}')


def test_a_group_has_a_title_like_its_questions() -> None:
    assert group_title("write_file *.md in /notes") == "Write files: *.md in /notes"
    assert group_title("shell git push") == "Run commands: git push"
    assert group_title("send_mail") == "send_mail"
