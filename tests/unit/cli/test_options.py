from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from llm_do_temporal.cli.commands.start import LimitFlags, read_params
from llm_do_temporal.cli.options import Location, check_timeout, read_json, read_json_object
from llm_do_temporal.errors import UsageError, WorkshopNotFound
from llm_do_temporal.policy.budget import Limits


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("LLM_DO_WORKSHOP", raising=False)
    folder = tmp_path / "shop"
    (folder / "workers").mkdir(parents=True)
    (folder / "workshop.yaml").write_text("name: shop\n")
    return folder


def test_the_workshop_is_searched_upwards(workshop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(workshop / "workers")
    assert Location().find_workshop() == workshop


def test_the_workshop_that_is_named_wins(workshop: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert Location(workshop=Path("shop")).find_workshop() == workshop


def test_the_environment_can_name_the_workshop(workshop: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LLM_DO_WORKSHOP", str(workshop))
    assert Location().find_workshop() == workshop


def test_a_folder_that_was_named_and_is_no_workshop_is_an_error(workshop: Path) -> None:
    with pytest.raises(WorkshopNotFound, match=r"there is no workshop\.yaml in") as told:
        Location(workshop=workshop / "workers").local_workshop()
    assert "`llm-do-temporal init` makes a workshop" in (told.value.next_step or "")


def test_no_workshop_anywhere_is_fine_where_none_is_needed(
    workshop: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert workshop.parent == tmp_path
    monkeypatch.chdir(tmp_path)
    assert Location().local_workshop() is None
    with pytest.raises(WorkshopNotFound, match=r"no workshop\.yaml"):
        Location().find_workshop()


def test_a_command_to_copy_is_about_the_same_place_and_holds_no_key() -> None:
    location = Location(workshop=Path("my shop"), address="h:1", namespace="n", api_key="secret", tls=True)
    assert location.command("watch r1") == (
        "llm-do-temporal watch r1 --workshop 'my shop' --address h:1 --namespace n --tls"
    )


def test_a_command_to_copy_has_no_flags_that_nobody_gave() -> None:
    assert Location().command("watch r1") == "llm-do-temporal watch r1"


def test_connection_flags_reach_the_client() -> None:
    connection = Location(address="h:1", tls=False, tls_server_name="name", profile="p").connection()
    assert (connection.address, connection.tls, connection.tls_server_name, connection.profile) == (
        "h:1",
        False,
        "name",
        "p",
    )


def test_json_is_read_from_the_argument_or_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "input.json"
    file.write_text('{"a": [1]}')
    assert read_json('{"a": [1]}', "--input") == {"a": [1]}
    assert read_json(f"@{file}", "--input") == {"a": [1]}
    for encoding in ("utf-8-sig", "utf-16", "utf-32"):
        file.write_text('{"a": [1]}', encoding=encoding)
        assert read_json(f"@{file}", "--input") == {"a": [1]}


@pytest.mark.parametrize("text", ["{", "nope", "", "[" * 100_000, '"\\ud800"', "NaN"])
def test_text_that_is_not_json_names_the_option(text: str) -> None:
    with pytest.raises(UsageError, match="the value of --input is not JSON"):
        read_json(text, "--input")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"missing.json' given with --args cannot be read"):
        read_json(f"@{tmp_path}/missing.json", "--args")
    binary = tmp_path / "binary"
    binary.write_bytes('{"a":\n"\xfc"}'.encode("latin-1"))
    with pytest.raises(UsageError, match=r"it is not UTF-8 text \(line 2 has the byte 0xfc\)") as raised:
        read_json(f"@{binary}", "--args")
    assert "iconv" in str(raised.value.next_step)


def test_a_file_that_is_not_json_is_named_and_its_option_is_not_suggested_again(tmp_path: Path) -> None:
    file = tmp_path / "two.json"
    file.write_text("{}{}")
    with pytest.raises(UsageError, match=r"the file '.*two.json' given with --input is not JSON: Extra data") as raised:
        read_json(f"@{file}", "--input")
    assert "@FILE" not in str(raised.value.next_step)


@pytest.mark.parametrize("text", ['{"a": 1, "a": 2}', '[{"b": {"a": null, "\\u0061": 1}}]'])
def test_a_key_that_is_there_twice_is_named(text: str) -> None:
    with pytest.raises(UsageError, match='the value of --args is not JSON: an object has the key "a" twice'):
        read_json(text, "--args")


def test_arguments_must_be_an_object() -> None:
    with pytest.raises(UsageError, match="not a JSON object"):
        read_json_object("[1]", "--args")


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), float("inf")])
def test_a_timeout_is_above_zero(seconds: float) -> None:
    with pytest.raises(UsageError, match="--timeout"):
        check_timeout(seconds)


def test_limits_of_a_run_are_flags() -> None:
    flags = LimitFlags(max_turns=3, max_cost=Decimal("2.50"), max_time="30m")
    assert flags.limits() == Limits(turns=3, cost=Decimal("2.50"), time=1800)
    assert LimitFlags().limits() == Limits()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (LimitFlags(max_turns=0), "--max-turns 0: it should be greater than or equal to 1"),
        (LimitFlags(max_tool_calls=-1), "--max-tool-calls -1: it should be"),
        (LimitFlags(max_cost=Decimal("NaN")), "--max-cost NaN: it should be"),
        (LimitFlags(max_cost=Decimal("1e999999999")), "--max-cost .*: it should be less than or equal to 1000000000"),
        (LimitFlags(max_cost=Decimal("1e-999999999")), "--max-cost .*: it has more than 20 places"),
        (LimitFlags(max_tokens=10**13), "--max-tokens .*: it should be less than or equal to 1000000000000"),
        (LimitFlags(max_time="99999999999999999999d"), "--max-time .* is too long; a time is at most 3660 days"),
        (LimitFlags(max_time="3x"), "--max-time 3x: '3x' is not a time; write it like 90s, 30m, 2h or 3d"),
    ],
)
def test_a_limit_that_cannot_be_used_is_named(flags: LimitFlags, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        flags.limits()


def test_values_for_parameters_are_what_stands_behind_the_first_equals_sign() -> None:
    assert read_params(("tone=dry", "sum=1+1=2", "empty=")) == {"tone": "dry", "sum": "1+1=2", "empty": ""}


@pytest.mark.parametrize(
    ("given", "words"),
    [(("tone",), "'tone' is no value for a parameter"), (("=x",), "'=x'"), (("a=1", "a=2"), "twice")],
)
def test_what_is_no_value_for_a_parameter_is_refused(given: tuple[str, ...], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        read_params(given)
