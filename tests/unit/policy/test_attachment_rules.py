"""Which files may be handed to a worker: number, suffix and bytes, at and around every limit."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from llm_do_temporal.errors import AttachmentRefusal
from llm_do_temporal.policy.files.attachments import (
    Attachment,
    AttachmentPolicy,
    check_attachment_names,
    check_attachments,
)

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
