"""In which form a model gets a file: the table of media types, wishes and eyes."""

from __future__ import annotations

import pytest

from llm_do_temporal.errors import AttachmentRefusal
from llm_do_temporal.policy.files.attachment_forms import (
    EVERYTHING,
    TEXT_ONLY,
    AttachmentsAs,
    accepted_files,
    attachment_forms,
    kind_of,
)
from llm_do_temporal.policy.files.attachments import Attachment
from llm_do_temporal.policy.models.ids import Accepts, ModelAlias


def file(media_type: str) -> Attachment:
    return Attachment(path="/a", sha256="0" * 64, bytes=1, media_type=media_type)


@pytest.mark.parametrize(
    ("alias", "model", "accepted"),
    [
        (None, "openai:gpt-5", EVERYTHING),
        (None, "openai-chat:gpt-5", EVERYTHING),
        (None, "gateway/anthropic:claude", EVERYTHING),
        (None, "offline:echo", EVERYTHING),
        (None, "test:anything:at-all", EVERYTHING),
        # of others nothing is known
        (None, "ollama:llama3", TEXT_ONLY),
        # another server that speaks the protocol is not that provider
        (ModelAlias(model="openai-chat:llama3", base_url="http://x/v1"), "local", TEXT_ONLY),
        # the alias knows best
        (ModelAlias(model="openai-chat:llava", base_url="http://x/v1", accepts=("text", "image")), "local", None),
        (ModelAlias(model="openai:gpt-5", settings={"seed": 1}), "local", EVERYTHING),
    ],
)
def test_what_a_model_takes(alias: ModelAlias | None, model: str, accepted: frozenset[Accepts] | None) -> None:
    aliases: dict[str, str | ModelAlias] = {} if alias is None else {"local": alias}
    assert accepted_files(aliases, model) == (frozenset({"text", "image"}) if accepted is None else accepted)


@pytest.mark.parametrize(
    ("media_type", "kind"),
    [
        ("text/csv", "text"),
        ("application/json", "text"),
        ("image/svg+xml", "text"),
        ("application/pdf", "pdf"),
        ("image/png", "image"),
        ("application/zip", None),
    ],
)
def test_what_sort_of_file_it_is(media_type: str, kind: str | None) -> None:
    assert kind_of(media_type) == kind


@pytest.mark.parametrize(
    ("media_type", "wanted", "accepts", "form"),
    [
        ("text/plain", "auto", {"pdf"}, "text"),
        ("text/plain", "native", {"text"}, "text"),
        ("application/pdf", "auto", {"text", "pdf"}, "native"),
        ("application/pdf", "auto", {"text"}, "text"),
        ("application/pdf", "text", {"text", "pdf"}, "text"),
        ("application/pdf", "native", {"text"}, "native"),
        ("image/png", "auto", {"text", "image"}, "native"),
        ("image/png", "native", {"text"}, "native"),
        ("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "auto", {"text", "pdf"}, "native"),
        # of which nothing is known
        ("application/zip", "auto", {"text", "pdf"}, "native"),
        ("application/zip", "auto", {"text"}, "text"),
        ("application/zip", "text", {"text", "pdf"}, "text"),
    ],
)
def test_the_form_follows_from_type_wish_and_model(
    media_type: str, wanted: AttachmentsAs, accepts: set[Accepts], form: str
) -> None:
    assert attachment_forms([file(media_type)], wanted, accepts, model="m") == (form,)


@pytest.mark.parametrize(
    ("wanted", "accepts", "words"),
    [
        ("auto", {"text", "pdf"}, "'/a' is an image, and model 'm' takes none"),
        ("text", {"text", "image"}, "'/a' is an image and has no text"),
    ],
)
def test_an_image_that_cannot_be_seen_is_refused(wanted: AttachmentsAs, accepts: set[Accepts], words: str) -> None:
    with pytest.raises(AttachmentRefusal, match=words):
        attachment_forms([file("image/png")], wanted, accepts, model="m")
