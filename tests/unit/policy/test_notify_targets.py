"""Who may be told what: addresses, secrets by the names of variables, links."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from llm_do_temporal.policy.notifications import NotifyEvent, NotifyTarget, check_target, check_ui_url, link_to


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({}, "either 'url' or 'url_env'"),  # nobody is told
        ({"url": "https://a.example", "url_env": "A"}, "either 'url' or 'url_env'"),  # two addresses
        ({"url": "https://a.example", "secret_env": None}, "'secret_env' is missing"),  # no signature
        ({"url_env": "A", "secret_env": "sk-abc"}, "it is the name of an environment variable"),  # the key itself
        ({"url": "http://a.example"}, "http sends everything readably"),  # to another machine
        ({"url": "http://10.0.0.7/x"}, "http sends everything readably"),
        ({"url": "ftp://a.example"}, "it is an address like https://"),
        ({"url": "a.example/hook"}, "it is an address like https://"),
        ({"url": "https://ada:pw@a.example"}, "no user, password"),
        ({"url": "https://a.example/x#y"}, "no user, password, fragment"),
        ({"url": "https://a.example/x y"}, "no user, password, fragment or space"),
        ({"url": "https://hooks.slack.com/services/T0/B0/x"}, "this address is a secret"),
        ({"url": "https://a.example/?token=ghp0123456789abcdefghijklmnopqrstuvwx"}, "this address is a secret"),
        ({"url": "https://a.example", "events": []}, "at least 1 item"),  # told nothing
        ({"url": "https://a.example", "events": ["run.started"]}, "'run.completed'"),
        ({"url": "https://a.example", "retries": 3}, "Extra inputs"),
    ],
)
def test_a_target_that_cannot_be_told_or_gives_a_secret_away_is_refused(keys: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        NotifyTarget.model_validate({"secret_env": "HOOK_SECRET", **keys})


@pytest.mark.parametrize(
    ("keys", "name"),
    [
        ({"url": "https://a.example:8443/hook?x=1"}, "https://a.example:8443"),
        ({"url": "http://localhost:9/x"}, "http://localhost:9"),
        ({"url": "http://127.0.0.5/"}, "http://127.0.0.5"),
        ({"url": "http://[::1]:80/"}, "http://[::1]:80"),
        ({"url": "http://a.example", "allow_http": True}, "http://a.example"),
        ({"url_env": "HOOK", "secret_env": None, "format": "slack"}, "the address in HOOK"),
    ],
)
def test_a_target_is_told_everything_but_content_unless_it_says_otherwise(keys: dict[str, Any], name: str) -> None:
    target = NotifyTarget.model_validate({"secret_env": "HOOK_SECRET", **keys})
    assert (target.name, target.events, target.content) == (name, tuple(NotifyEvent), False)


def test_an_address_from_a_variable_is_checked_like_any_other() -> None:
    assert check_target("https://hooks.slack.com/services/T0/B0/x", allow_http=False).endswith("/x")
    with pytest.raises(ValueError, match="http sends everything readably"):
        check_target("http://a.example/x", allow_http=False)


@pytest.mark.parametrize(
    ("ui_url", "run", "approval", "link"),
    [
        (None, "r-1", None, None),  # no page is known
        ("https://a.example", "r-1", None, "https://a.example/runs/r-1"),
        ("https://a.example/llm", "r 1/é", "a1", "https://a.example/llm/runs/r%201%2F%C3%A9/approvals/a1"),
    ],
)
def test_links_lead_to_the_page(ui_url: str | None, run: str, approval: str | None, link: str | None) -> None:
    assert link_to(ui_url, run, approval) == link


def test_the_address_of_the_page_has_no_slash_and_no_query() -> None:
    assert check_ui_url("http://127.0.0.1:8400/") == "http://127.0.0.1:8400"
    with pytest.raises(ValueError, match="without a query"):
        check_ui_url("https://a.example/?x=1")
