"""Which files may be handed to a worker: number, suffix and bytes, at and around every limit."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from llm_do_temporal.errors import AttachmentRefusal
from llm_do_temporal.policy.files.attachments import (
    EVERYTHING,
    TEXT_ONLY,
    Attachment,
    AttachmentPaths,
    AttachmentPolicy,
    AttachmentsAs,
    accepted_files,
    attachment_forms,
    check_attachment_names,
    check_attachments,
    kind_of,
    meant_path,
)
from llm_do_temporal.policy.files.sandbox import Mount, Tree, locate_in_workshop, path_in_tree
from llm_do_temporal.policy.models import Accepts, ModelAlias

SHA256 = "0" * 64


def file(path: str, size: int = 1) -> Attachment:
    return Attachment(path=path, sha256=SHA256, bytes=size, media_type="text/plain")


@pytest.mark.parametrize(
    ("policy", "paths"),
    [
        (AttachmentPolicy(), []),
        (AttachmentPolicy(max_attachments=0), []),
        (AttachmentPolicy(max_attachments=2), ["/a", "/b"]),
        # an empty list of allowed suffixes allows all, an empty one of denied suffixes denies none
        (AttachmentPolicy(), ["/deck.pdf", "/no-suffix", "/.hidden"]),
        (AttachmentPolicy(allowed_suffixes=(".pdf",)), ["/deck.pdf", "/DECK.PDF", "/a.b.Pdf"]),
        (AttachmentPolicy(allowed_suffixes=(".PDF",)), ["/deck.pdf"]),
        (AttachmentPolicy(allowed_suffixes=(".tar.gz",)), ["/a.tar.gz"]),
        (AttachmentPolicy(denied_suffixes=(".exe",)), ["/exe", "/a.exe.txt", "/a.exe/b.txt"]),
    ],
)
def test_files_within_the_policy_pass(policy: AttachmentPolicy, paths: list[str]) -> None:
    check_attachment_names(policy, paths, whose="worker 'reader'")


@pytest.mark.parametrize(
    ("policy", "paths", "message"),
    [
        (
            AttachmentPolicy(max_attachments=0),
            ["/a"],
            "1 file attached, but worker 'reader' accepts at most 0 (max_attachments)",
        ),
        # the same file twice is two files
        (AttachmentPolicy(max_attachments=1), ["/a", "/a"], "2 files attached, but worker 'reader' accepts at most 1"),
        (
            AttachmentPolicy(allowed_suffixes=(".pdf", ".txt")),
            ["/a.pdf", "/b.png"],
            "'/b.png' has a suffix that worker 'reader' does not accept; accepted: .pdf, .txt",
        ),
        (AttachmentPolicy(allowed_suffixes=(".pdf",)), ["/pdf"], "'/pdf' has a suffix"),
        (AttachmentPolicy(allowed_suffixes=(".pdf",)), ["/a.pdf "], "'/a.pdf ' has a suffix"),
        # the folder's name is not the file's
        (AttachmentPolicy(allowed_suffixes=(".pdf",)), ["/a.pdf/b"], "'/a.pdf/b' has a suffix"),
        (
            AttachmentPolicy(denied_suffixes=(".exe",)),
            ["/A.EXE"],
            "'/A.EXE' has a suffix that worker 'reader' denies: .exe",
        ),
        # denied wins where both name it
        (
            AttachmentPolicy(allowed_suffixes=(".exe",), denied_suffixes=(".exe",)),
            ["/a.exe"],
            "'/a.exe' has a suffix that worker 'reader' denies",
        ),
        (AttachmentPolicy(allowed_suffixes=(".gz",), denied_suffixes=(".tar.gz",)), ["/a.tar.gz"], "denies: .tar.gz"),
    ],
)
def test_files_outside_the_policy_are_refused_by_name(policy: AttachmentPolicy, paths: list[str], message: str) -> None:
    with pytest.raises(AttachmentRefusal) as refused:
        check_attachment_names(policy, paths, whose="worker 'reader'")
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("limit", "sizes", "passes"),
    [
        (10, [10], True),
        (10, [11], False),
        # the limit is for all files together
        (10, [5, 5], True),
        (10, [5, 6], False),
        (0, [], True),
        (0, [0], True),
        (0, [1], False),
    ],
)
def test_bytes_count_together_and_the_limit_itself_is_allowed(limit: int, sizes: list[int], passes: bool) -> None:
    policy = AttachmentPolicy(max_total_bytes=limit)
    files = [file(f"/{index}", size) for index, size in enumerate(sizes)]
    if passes:
        check_attachments(policy, files, whose="this worker")
        return
    with pytest.raises(
        AttachmentRefusal, match=rf"{sum(sizes)} bytes attached, but this worker accepts at most {limit}"
    ):
        check_attachments(policy, files, whose="this worker")


def test_looked_up_files_are_judged_by_name_too() -> None:
    policy = AttachmentPolicy(allowed_suffixes=(".pdf",))
    with pytest.raises(AttachmentRefusal, match=r"/a\.txt"):
        check_attachments(policy, [file("/a.txt")], whose="the callee")


@pytest.mark.parametrize("sha256", ["", "0" * 63, "0" * 65, "G" * 64, "A" * 64, "../" + "0" * 61])
def test_an_attachment_has_a_digest_and_nothing_else(sha256: str) -> None:
    with pytest.raises(ValidationError):
        Attachment(path="/a", sha256=sha256, bytes=1, media_type="text/plain")


@pytest.mark.parametrize("suffix", ["", "pdf", "*.pdf", "./pdf", ".a/b"])
def test_a_suffix_starts_with_a_dot_and_holds_no_slash(suffix: str) -> None:
    with pytest.raises(ValidationError, match="a suffix starts with a dot"):
        AttachmentPolicy(allowed_suffixes=(suffix,))


def test_suffixes_are_kept_once_and_in_small_letters() -> None:
    assert AttachmentPolicy(denied_suffixes=(".PDF", ".pdf", ".Txt")).denied_suffixes == (".pdf", ".txt")


@pytest.mark.parametrize("field", ["max_attachments", "max_total_bytes"])
def test_limits_are_not_negative(field: str) -> None:
    with pytest.raises(ValidationError):
        AttachmentPolicy.model_validate({field: -1})


def file_of(media_type: str) -> Attachment:
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
    assert attachment_forms([file_of(media_type)], wanted, accepts, model="m") == (form,)


@pytest.mark.parametrize(
    ("wanted", "accepts", "words"),
    [
        ("auto", {"text", "pdf"}, "'/a' is an image, and model 'm' takes none"),
        ("text", {"text", "image"}, "'/a' is an image and has no text"),
    ],
)
def test_an_image_that_cannot_be_seen_is_refused(wanted: AttachmentsAs, accepts: set[Accepts], words: str) -> None:
    with pytest.raises(AttachmentRefusal, match=words):
        attachment_forms([file_of("image/png")], wanted, accepts, model="m")


MAPPED = AttachmentPaths(path_map={"path/to/deck.txt": "/input/deck.txt"})
BASED = AttachmentPaths(base_path="/input/")


@pytest.mark.parametrize(
    ("paths", "given", "meant"),
    [
        (AttachmentPaths(), "deck.pdf", "deck.pdf"),
        (MAPPED, "path/to/deck.txt", "/input/deck.txt"),
        # one alias, whatever its spelling
        (MAPPED, "./path//to/deck.txt", "/input/deck.txt"),
        (MAPPED, "path/to/other.txt", "path/to/other.txt"),
        (MAPPED, "/path/to/deck.txt", "/path/to/deck.txt"),
        (BASED, "deck.pdf", "/input/deck.pdf"),
        (BASED, "a/deck.pdf", "/input/a/deck.pdf"),
        # absolute ones and named folders are complete
        (BASED, "/deck.pdf", "/deck.pdf"),
        (BASED, "notes:deck.pdf", "notes:deck.pdf"),
        (BASED, "other:deck.pdf", "/input/other:deck.pdf"),
        # nothing is checked here, and nothing gets lost that a check must see
        (BASED, "../deck.pdf", "/input/../deck.pdf"),
        (AttachmentPaths(path_map={"a": "../b"}, base_path="/c"), "a", "../b"),
    ],
)
def test_a_path_is_replaced_or_completed(paths: AttachmentPaths, given: str, meant: str) -> None:
    assert meant_path(paths, given, names=("notes",)) == meant


@pytest.mark.parametrize(
    ("mounts", "file", "seen"),
    [
        ([Mount(at="/", root=".")], "pipeline/deck.pdf", "/pipeline/deck.pdf"),
        ([Mount(at="/", root="files")], "files/deck.pdf", "/deck.pdf"),
        ([Mount(at="/", root="files")], "deck.pdf", None),
        ([Mount(at="/input", root="pipeline")], "pipeline/a/deck.pdf", "/input/a/deck.pdf"),
        # the nearest folder names it
        ([Mount(at="/", root="."), Mount(at="/in", root="pipeline")], "pipeline/deck.pdf", "/in/deck.pdf"),
        # what another folder covers cannot be seen
        ([Mount(at="/", root="."), Mount(at="/docs", root="other")], "docs/deck.pdf", None),
        ([], "deck.pdf", None),
    ],
)
def test_a_file_of_the_workshop_is_found_where_the_tree_shows_it(
    mounts: list[Mount], file: str, seen: str | None
) -> None:
    place = locate_in_workshop(Tree(mounts=tuple(mounts)), file)
    assert (None if place is None else place.path) == seen
    assert path_in_tree(Tree(mounts=tuple(mounts)), file) == (seen or file)
