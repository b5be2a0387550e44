"""What a model is told when an invocation begins."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

import pytest
from pydantic_ai.messages import DocumentUrl, ImageUrl

from llm_do_temporal.policy.files.attachments import Attachment
from llm_do_temporal.workflows.invocation.conversation import opening

DIGEST = "ab" * 32


def attached(path: str, media_type: str) -> Attachment:
    return Attachment(path=path, sha256=DIGEST, bytes=7, media_type=media_type)


@pytest.mark.parametrize(
    ("prompt", "given", "expected"),
    [
        ("Evaluate it.", None, "Evaluate it."),
        ("", "Evaluate it.", "Evaluate it."),
        ("", {"deck": "ä.pdf"}, '{\n  "deck": "ä.pdf"\n}'),
        ("Evaluate it.", [1], "Evaluate it.\n\n[\n  1\n]"),
        # false is something, nothing is not
        ("", False, "false"),
        ("", 0, "0"),
        # providers refuse an empty message
        ("", None, "Begin."),
        (" \n", None, "Begin."),
    ],
)
def test_prompt_and_input_are_one_text_and_never_an_empty_one(prompt: str, given: Any, expected: str) -> None:
    assert opening(prompt, given, (), ()) == expected


def test_attachments_are_named_and_referred_to_by_their_digest() -> None:
    content = opening(
        "Look.", None, [attached("/a b.pdf", "application/pdf"), attached("/c.png", "image/png")], ("native", "native")
    )
    assert isinstance(content, list)
    text, named, document, named_too, image = content
    assert text == "Look."
    assert named == "Attached file: /a b.pdf (application/pdf, 7 bytes)"
    assert named_too == "Attached file: /c.png (image/png, 7 bytes)"
    assert isinstance(document, DocumentUrl)
    assert document.url == f"llmdo-blob:sha256/{DIGEST}#/a%20b.pdf"
    assert document.media_type == "application/pdf"
    assert isinstance(image, ImageUrl)
    assert image.media_type == "image/png"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("/nl\nx.txt", "/nl\\x0ax.txt"),
        ("/a\u2028\u202eb.txt", "/a\\u2028\\u202eb.txt"),
        ("/c\x1b[2J.txt", "/c\\x1b[2J.txt"),
    ],
)
def test_a_name_of_a_file_adds_no_line_to_the_prompt(name: str, told: str) -> None:
    content = opening("Look.", None, [attached(name, "application/pdf")], ("native",))
    assert isinstance(content, list)
    _, named, document = content
    assert named == f"Attached file: {told} (application/pdf, 7 bytes)"
    assert isinstance(document, DocumentUrl)
    assert unquote(document.url.partition("#")[2]) == told
