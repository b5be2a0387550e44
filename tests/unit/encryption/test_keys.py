"""Where keys come from, and what is said of those that are none."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import pytest

from llm_do_temporal.encryption.keys import ENCRYPTION_VARIABLE, KEY_FILE_VARIABLE, KEYS_VARIABLE, Key, key_ring
from llm_do_temporal.errors import KeyMismatch, UsageError


def entry(key_id: str, byte: int = 1, size: int = 32) -> str:
    return f"{key_id}:{base64.b64encode(bytes([byte]) * size).decode()}"


def ids(environment: dict[str, str]) -> list[str]:
    return [key.id for key in key_ring(environment).keys]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("  \n", []),
        (entry("a"), ["a"]),
        (f"{entry('a')},{entry('b')}", ["a", "b"]),
        (f"  {entry('2026-11')}\n\n{entry('2026-10')} # the old one\n", ["2026-11", "2026-10"]),
        # The alphabet for addresses, too.
        (f"a:{base64.urlsafe_b64encode(bytes([255]) * 32).decode()}", ["a"]),
    ],
)
def test_keys_of_a_variable_are_in_its_order(text: str, found: list[str]) -> None:
    assert ids({KEYS_VARIABLE: text}) == found


def test_without_a_variable_there_is_no_key() -> None:
    assert key_ring({}).first is None


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "is 'required', and there is no key: LLM_DO_ENCRYPTION_KEYS and LLM_DO_ENCRYPTION_KEY_FILE are empty or"),
        ({KEYS_VARIABLE: "", KEY_FILE_VARIABLE: ""}, "there is no key"),
        ({KEYS_VARIABLE: " \n"}, "there is no key"),
        ({KEYS_VARIABLE: "# none yet"}, "holds no key"),
        ({KEY_FILE_VARIABLE: "/dev/null"}, "'?/dev/null'? holds no key"),
    ],
)
def test_where_a_key_is_required_none_is_an_error(given: dict[str, str], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        key_ring({ENCRYPTION_VARIABLE: "required", **given})


def test_where_a_key_is_required_one_is_enough(tmp_path: Path) -> None:
    assert ids({ENCRYPTION_VARIABLE: "required", KEYS_VARIABLE: entry("a")}) == ["a"]
    (tmp_path / "keys").write_text(entry("b"))
    assert ids({ENCRYPTION_VARIABLE: " required", KEY_FILE_VARIABLE: str(tmp_path / "keys")}) == ["b"]
    assert ids({ENCRYPTION_VARIABLE: ""}) == []


@pytest.mark.parametrize("value", ["yes", "Required", "off", entry("a")])
def test_whether_a_key_is_required_is_said_in_one_way_and_what_stands_there_is_not_repeated(value: str) -> None:
    with pytest.raises(UsageError, match="can be 'required' or empty, and is something else") as caught:
        key_ring({ENCRYPTION_VARIABLE: value, KEYS_VARIABLE: entry("a")})
    assert value not in f"{caught.value}{caught.value.next_step}"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("#nothing", "holds no key"),
        ("c2VjcmV0c2VjcmV0", "entry 1 is not `id:key`"),
        (f"{entry('a')} c2VjcmV0c2VjcmV0", "entry 2 is not `id:key`"),
        (entry("a/b"), "entry 1 is not `id:key`"),
        (entry("x" * 33), "entry 1 is not `id:key`"),
        ("a:c2VjcmV0c2VjcmV0", "the key 'a' is not 32 bytes in base64"),
        (entry("a", size=33), "the key 'a' is not 32 bytes in base64"),
        ("a:c2VjcmV0c2VjcmV0!", "the key 'a' is not 32 bytes in base64"),
        (f"{entry('a')},{entry('b')},{entry('a')}", "the key 'a' stands there twice"),
    ],
)
def test_what_is_no_key_is_an_error_that_does_not_repeat_it(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says) as caught:
        key_ring({KEYS_VARIABLE: text})
    assert "c2Vj" not in f"{caught.value}{caught.value.next_step}"
    assert "AQEB" not in f"{caught.value}{caught.value.next_step}"


def test_a_key_does_not_show_itself() -> None:
    shown = repr(Key("a", b"secretsecretsecretsecretsecretse"))
    assert "secretsecret" not in shown
    assert "'a'" in shown


def test_keys_with_one_id_are_told_apart_by_their_fingerprints() -> None:
    keys = key_ring({KEYS_VARIABLE: f"{entry('a')},{entry('a', 2)}"}).find("a")
    assert [key.fingerprint for key in keys] == ["542e426d", "9b47f1a4"]


def test_each_purpose_has_a_key_of_its_own() -> None:
    key = Key("a", b"x" * 32)
    assert len({key.secret, key.for_payloads, key.for_blobs, key.for_names}) == 4


def test_a_key_that_is_not_there_is_an_error_that_names_it_and_those_that_are() -> None:
    with pytest.raises(KeyMismatch, match=r"the key 'c', which .* \(it has: 'a', 'b'\)") as caught:
        key_ring({KEYS_VARIABLE: f"{entry('a')},{entry('b')}"}).find("c")
    assert KEYS_VARIABLE in (caught.value.next_step or "")


def test_an_id_from_outside_is_shown_as_text() -> None:
    with pytest.raises(KeyMismatch) as caught:
        key_ring({}).find("a\n\x1b[31m" + "x" * 1000)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 300


def test_a_file_is_read_again_when_it_has_changed(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(entry("a"))
    ring = key_ring({KEY_FILE_VARIABLE: str(file)})
    assert [key.id for key in ring.keys] == ["a"]
    file.write_text(f"{entry('b', 2)}\n{entry('a')}\n")
    assert [key.id for key in ring.keys] == ["b", "a"]


@pytest.mark.parametrize("left", ["", "half a li", None])
def test_a_file_that_is_broken_later_leaves_the_keys_as_they_were(
    tmp_path: Path, left: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "keys"
    file.write_text(entry("a"))
    ring = key_ring({KEY_FILE_VARIABLE: str(file)})
    file.unlink()
    if left is not None:
        file.write_text(left)
    # Every value asks for the keys; what is wrong is said once.
    assert [[key.id for key in ring.keys] for _ in range(3)] == [["a"]] * 3
    assert caplog.text.count("the encryption keys stay as they were") == 1
    # Of another size: within one tick of its clock a file system may give a new file all else that the old one had.
    file.write_text(f"{entry('b')}\n")
    assert [key.id for key in ring.keys] == ["b"]


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        key_ring({KEY_FILE_VARIABLE: str(tmp_path / "none")})
    (tmp_path / "binary").write_bytes(os.urandom(8) + b"\xff")
    with pytest.raises(UsageError, match="it is not text"):
        key_ring({KEY_FILE_VARIABLE: str(tmp_path / "binary")})


def test_a_variable_and_a_file_are_one_too_many(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="both set"):
        key_ring({KEYS_VARIABLE: entry("a"), KEY_FILE_VARIABLE: str(tmp_path)})
