"""Attempts by a service that lacks an extension: they fail, and may be tried again by another service."""

from __future__ import annotations

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.exceptions import ApplicationError

from llm_do_temporal.activities.runtime.interceptors import check_extensions
from llm_do_temporal.extension import installed


@pytest.mark.parametrize("name", ["words", "fork", "", "forks "])
def test_an_activity_with_a_header_for_a_missing_extension_is_left_to_another_service(name: str) -> None:
    with pytest.raises(ApplicationError, match="is not installed in this worker service") as raised:
        check_extensions({"traceparent": Payload(), f"llm-do-extension-{name}": Payload()})
    assert (raised.value.type, raised.value.non_retryable) == ("MissingExtension", False)


def test_other_headers_and_those_for_installed_extensions_are_let_through() -> None:
    headers = [f"llm-do-extension-{one.name}" for one in installed()]
    check_extensions(dict.fromkeys([*headers, "traceparent", "llm-do"], Payload()))
