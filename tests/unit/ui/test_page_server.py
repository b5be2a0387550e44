"""Where the page is served, and that nothing is served to strangers."""

from __future__ import annotations

import json
import socket
import stat
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from llm_do_temporal.errors import UsageError
from llm_do_temporal.ui import page_server
from llm_do_temporal.ui.access import Admission
from llm_do_temporal.ui.page_server import PageOptions, PageServer


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    path = tmp_path / "tokens"
    path.write_text(f"ada: {'a' * 20}\n")
    return path


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_on_this_machine_the_first_link_carries_a_token(host: str) -> None:
    page = PageServer(PageOptions(host=host, port=0))
    page.stop()
    assert len(parse_qs(urlsplit(page.link).query)["token"][0]) >= 40
    assert page.link.startswith(page.address + "/?token=")


def test_a_link_does_not_carry_a_token_of_a_file(tokens: Path) -> None:
    page = PageServer(PageOptions(port=0, admission=Admission(tokens)))
    page.stop()
    assert page.link == f"{page.address}/"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.com", ""])
def test_beyond_this_machine_somebody_must_say_who_people_are(host: str) -> None:
    with pytest.raises(UsageError, match="nothing says who they are") as refused:
        PageServer(PageOptions(host=host, port=0))
    assert "--token-file" in str(refused.value.next_step)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"admission": Admission(trusted_header="X-User")}, "need each other"),
        ({"admission": Admission(trusted_proxies=("10.0.0.5",))}, "need each other"),
        ({"admission": Admission(None, "X-User", ("proxy",))}, "'proxy' is not an IP address"),
        ({"host": "0.0.0.0", "admission": Admission(None, "X-User", ("10.0.0.5",))}, "which names are its own"),
        ({"port": 70_000}, "70000 is not a port"),
    ],
)
def test_options_that_cannot_be_used_are_explained(options: dict[str, object], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        PageServer(PageOptions(**{"port": 0, **options}))  # pyright: ignore[reportArgumentType]


def test_two_ways_to_know_people_are_one_too_many(tokens: Path) -> None:
    options = PageOptions(port=0, admission=Admission(tokens, "X-User", ("10.0.0.5",)))
    with pytest.raises(UsageError, match="choose one"):
        PageServer(options)


def test_a_port_that_was_asked_for_is_not_replaced() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"port {port}"):
            PageServer(PageOptions(port=port))


def test_a_page_for_every_address_goes_by_the_name_it_was_given(tokens: Path) -> None:
    options = PageOptions(host="0.0.0.0", port=0, admission=Admission(tokens), allowed_hosts=("approvals.example.com",))
    page = PageServer(options)
    page.stop()
    assert page.address.startswith("http://approvals.example.com:")


def started(workshop: Path, **more: object) -> PageServer:
    page = PageServer(PageOptions(workshop=workshop, **more))  # pyright: ignore[reportArgumentType]
    page.keep()
    page.stop()
    return page


def port_of(page: PageServer) -> int:
    return urlsplit(page.link).port or 0


def test_after_a_restart_the_page_has_its_port_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as usual:
        monkeypatch.setattr(page_server, "DEFAULT_PORT", usual.getsockname()[1])
        first = port_of(started(tmp_path))
    assert first != page_server.DEFAULT_PORT
    assert port_of(started(tmp_path)) == first, "the usual port is free now, and links name the other one"
    with socket.create_server(("127.0.0.1", first)):
        second = port_of(started(tmp_path))
    assert second == page_server.DEFAULT_PORT
    assert port_of(started(tmp_path)) == first, "the port that others had for a while is not forgotten"
    given = port_of(started(tmp_path, port=0))
    kept = tmp_path / ".llm-do" / "page.json"
    assert json.loads(kept.read_text())["ports"] == [first, second]
    assert given not in (first, second)
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600


def test_only_a_few_ports_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[socket.socket] = []
    try:
        for _ in range(7):
            page = started(tmp_path)
            taken.append(socket.create_server(("127.0.0.1", port_of(page))))
            monkeypatch.setattr(page_server, "DEFAULT_PORT", port_of(page))
    finally:
        for one in taken:
            one.close()
    ports = json.loads((tmp_path / ".llm-do" / "page.json").read_text())["ports"]
    assert len(ports) == 4
    assert port_of(started(tmp_path)) == ports[0]


def test_a_workshop_that_cannot_be_written_has_a_page_all_the_same(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / ".llm-do").write_text("no folder")
    assert "token=" in started(tmp_path).link
    assert "sign in again after a restart" in caplog.text
