"""Files of a review by their own addresses: lines for a page that is open, bytes as they are, words of the model."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from llm_do_temporal.extensions.review.pages import FOLDED_LINES, MOST_LINES, MOST_OPEN
from llm_do_temporal.policy.layers.layer import folder_node
from llm_do_temporal.storage.blobs import blob_folder, blob_path
from tests.support.extensions.review.review_desk import ReviewDesk, review_desk, review_form
from tests.support.extensions.review.reviewed import Side
from tests.support.people.signed_in import SCRIPT

A1 = "/runs/run-1/approvals/a1"
PNG = b"\x89PNG\r\n\x1a\n\0picture"
SIDES: dict[str, tuple[Side, Side]] = {
    "a.png": (PNG, PNG + b"!"),
    "b.svg": (None, f"<svg>{SCRIPT}</svg>"),
    "c.pdf": (None, b"%PDF-1.4\n\0"),
    "d.bin": (b"\0\1", b"\0\2\3"),
    "e": (None, folder_node()),
}


@pytest.fixture
def desk(tmp_path: Path) -> ReviewDesk:
    return review_desk(tmp_path, SIDES)


async def test_pictures_and_pdfs_are_shown_by_what_they_are_and_others_have_their_sizes(desk: ReviewDesk) -> None:
    page = await (await desk.browser()).open(A1)
    assert f'<img src="{A1}/files/0/old" alt="a.png, before"' in page.html
    assert f'<img src="{A1}/files/0/new" alt="a.png, after"' in page.html
    assert f'<iframe src="{A1}/files/2/new#navpanes=0"' in page.html
    assert "2 bytes before, 3 bytes after" in page.text
    assert SCRIPT not in page.html


async def test_bytes_are_sent_as_what_they_are_and_never_run(desk: ReviewDesk) -> None:
    browser = await desk.browser()
    picture = await browser.client.get(f"{A1}/files/0/old")
    assert (picture.status_code, picture.content, picture.headers["content-type"]) == (200, PNG, "image/png")
    drawing = await browser.client.get(f"{A1}/files/1/new")
    assert drawing.headers["content-type"].startswith("text/plain")
    for answer in (picture, drawing):
        assert answer.headers["content-security-policy"].startswith("sandbox; default-src 'none'")
    other = await browser.client.get(f"{A1}/files/3/new?download")
    assert other.headers["content-disposition"].startswith('attachment; filename="d.bin"')


@pytest.mark.parametrize("place", ["5", "-1", "x", "0/other", "1/old", "4/new", "99999999999"])
async def test_what_is_not_in_the_review_is_not_found(desk: ReviewDesk, place: str) -> None:
    assert (await (await desk.browser()).open(f"{A1}/files/{place}")).status == 404


async def test_of_a_large_review_a_file_is_read_when_it_is_opened(tmp_path: Path) -> None:
    sides: dict[str, tuple[Side, Side]] = {f"{n:03}.txt": ("old\n", f"{SCRIPT}\n") for n in range(MOST_OPEN + 1)}
    desk = review_desk(tmp_path, sides)
    browser = await desk.browser()
    page = await browser.open(A1)
    assert "alert(1)" not in page.html
    assert f'hx-get="{A1}/files/7"' in page.html
    opened = await browser.open(f"{A1}/files/7")
    assert 'name="part" value="7 ' in opened.html
    assert "alert(1)" in opened.text
    assert SCRIPT not in opened.html


async def test_a_long_change_is_folded_and_one_too_long_for_a_page_says_so(tmp_path: Path) -> None:
    long, longer = ("line\n" * (most + 1) for most in (FOLDED_LINES, MOST_LINES))
    desk = review_desk(tmp_path, {"long.txt": (None, long), "longer.txt": (None, longer), "short.txt": (None, "1\n")})
    browser = await desk.browser()
    page = await browser.open(A1)
    assert page.html.count('class="line add"') == 1
    assert {value for name, value in review_form(page).pairs if name == "take"} == {"0", "1", "2"}
    assert (await browser.open(f"{A1}/files/0")).html.count('class="line add"') == FOLDED_LINES + 1
    assert "more than a page can show" in (await browser.open(f"{A1}/files/1")).text


async def test_bytes_that_are_gone_are_told_and_the_rest_is_shown(desk: ReviewDesk) -> None:
    gone = blob_folder(desk.workshop) / "sha256" / blob_path(hashlib.sha256(b"\0\2\3").hexdigest())
    gone.unlink()
    page = await (await desk.browser()).open(A1)
    assert "The lines are not shown: the bytes of 'd.bin' cannot be read" in page.text
    assert "a.png" in page.text
    assert (await (await desk.browser()).open(f"{A1}/files/3/new")).status == 404


async def test_a_review_is_never_decided_together_with_others(desk: ReviewDesk) -> None:
    browser = await desk.browser()
    page = await browser.open("/runs/run-1/approvals")
    assert "A review is looked at, and answered, by itself: 5 changes ." in page.text
    assert not any(form.action == "/review" for form in page.forms)
    inbox = await browser.open("/")
    assert f'href="{A1}">5 changes</a>' in inbox.html
    assert "accept" not in inbox.text
    edit = await browser.open(f"{A1}/edit")
    assert edit.address.endswith(A1)
