"""Variables of ours, and such as are nearly so called."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import llm_do_temporal
from llm_do_temporal.encryption.keys import key_ring
from llm_do_temporal.environment import KNOWN, PREFIX, check_spelling, undo_seconds
from llm_do_temporal.errors import UsageError
from worker_service.settings import BUILD_VARIABLE, DEPLOYMENT_VARIABLE, Settings, read_settings


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("ENCRYPTION_KEY", "ENCRYPTION_KEYS"),
        ("ENCRYPT_KEYS", "ENCRYPTION_KEYS"),
        ("ENCRYTPION_KEYS", "ENCRYPTION_KEYS"),
        ("ENCRYPTION_KEYFILE", "ENCRYPTION_KEY_FILE"),
        ("ENCRYPTION_KEYS_FILE", "ENCRYPTION_KEY_FILE"),
        ("ENCRYPTIONS", "ENCRYPTION"),
        ("ENCYPTION", "ENCRYPTION"),
        ("BLOB_URL", "BLOBS_URL"),
        ("BLOBS_URI", "BLOBS_URL"),
        ("MODELS", "MODEL"),
        ("HEALT_PORT", "HEALTH_PORT"),
        ("TASKQUEUE", "TASK_QUEUE"),
        pytest.param("NEXUS_ENDPOINT", "NEXUS_ENDPOINTS", marks=pytest.mark.extension("nexus")),
    ],
)
def test_what_is_nearly_ours_is_an_error_for_services_and_for_all_who_look_for_keys(
    name: str, meant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = f"{PREFIX}{name} is none that is known; did you mean {PREFIX}{meant}\\?"
    with pytest.raises(UsageError, match=said):
        key_ring({PREFIX + name: "anything"})
    monkeypatch.setenv(PREFIX + name, "")
    with pytest.raises(UsageError, match=said):
        read_settings()


@pytest.mark.parametrize(
    "name",
    [
        "ENCRYPTION_KEYS_OLD",
        "ENCRYPTION_KEY_FILE_OLD",
        "BLOBS",
        "BLOBS_URL_2",
        "MODEL2",
        "API_KEY",
        "LISTEN_AT",
        "UID",
        "GID",
    ],
)
def test_what_is_ours_or_of_others_is_none(name: str) -> None:
    check_spelling([*KNOWN, PREFIX + name, "ENCRYPTION_KEY", "PATH"])


def test_every_variable_that_is_read_is_known() -> None:
    package = Path(llm_do_temporal.__file__).parent
    paths = [*package.rglob("*.py"), *(package.parent / "worker_service").rglob("*.py")]
    named = {name for path in paths for name in re.findall(rf'"({PREFIX}[A-Z_]+)"', path.read_text())}
    aliases = {key: field.validation_alias for key, field in Settings.model_fields.items() if field.validation_alias}
    assert aliases == {"deployment_name": DEPLOYMENT_VARIABLE, "build_id": BUILD_VARIABLE}
    assert named | {PREFIX + key.upper() for key in Settings.model_fields.keys() - aliases} == KNOWN


@pytest.mark.parametrize(("text", "seconds"), [(None, 10), ("", 10), ("0", 0), (" 7 ", 7), ("60", 60)])
def test_decisions_are_held_for_ten_seconds_unless_the_variable_says_otherwise(text: str | None, seconds: int) -> None:
    assert undo_seconds({} if text is None else {"LLM_DO_UNDO_SECONDS": text}) == seconds


@pytest.mark.parametrize("text", ["-1", "61", "1.5", "ten", "9" * 5000, "٣"])
def test_another_time_to_hold_decisions_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"LLM_DO_UNDO_SECONDS is .* number of seconds from 0 to 60"):
        undo_seconds({"LLM_DO_UNDO_SECONDS": text})
