"""Content keys are a contract: golden digests, and what goes into a key and what does not."""

from __future__ import annotations

from llm_do_temporal.policy.files.attachments import Attachment
from llm_do_temporal.policy.identity import call_key, delegation_key, ending_key, read_key, said_key, turn_key

GOLDEN = [
    "c229837ff1538086a23db8a8806df17918b362298b754c62d324b0cfac250fa6",
    "0b1808fbffd29c9afbc653e2bd45e5fa8949d1c71a9e957b112e6fe5fe5be786",
    "d0d276916be4d99e8f0511398fb2843c3886ed2f7f00ecb26cac26e171e4e924",
    "d5a4237c9b5037b1fd4e0ebd11e98dd33bc49b44397c53f83cfa05150a2d34aa",
    "0cbe9c93718db87c5b3d54bd50adf46de75d272d5195c0e68d4e1504734d8c74",
]
"""Keys of version 1; another one is another version."""
GOLDEN_READ = "282136c8142ee2c616390a233409b471ef5afac3dd6d5b3b7393c90cf5663fe2"
FILE = Attachment(path="/a.txt", sha256="a" * 64, bytes=1, media_type="text/plain")


def test_golden_keys() -> None:
    said = said_key("", [{"kind": "request", "parts": []}])
    turn = turn_key("offline:echo", {"temperature": 0}, {"instructions": "Do it."}, said)
    call = call_key(turn, "write_file", {"path": "/a", "content": "b"}, 1)
    assert [said, turn, call, ending_key(turn), delegation_key("reader", "d" * 64, "m", "go", None, (FILE,))] == GOLDEN
    assert read_key("read_file", {"path": "/a", "layer": None}) == GOLDEN_READ


def test_a_call_of_a_turn_without_key_has_none() -> None:
    assert call_key("", "write_file", {}, 1) == ""
    assert ending_key("") == ""


def test_each_part_of_a_delegation_counts() -> None:
    keys = {
        delegation_key("reader", "d", "m", "go", None, ()),
        delegation_key("other", "d", "m", "go", None, ()),
        delegation_key("reader", "e", "m", "go", None, ()),
        delegation_key("reader", "d", "n", "go", None, ()),
        delegation_key("reader", "d", "m", "stop", None, ()),
        delegation_key("reader", "d", "m", "go", {}, ()),
        delegation_key("reader", "d", "m", "go", None, (FILE,)),
        delegation_key("reader", "d", "m", "go", None, (FILE.model_copy(update={"sha256": "b" * 64}),)),
        delegation_key("reader", "d", "m", "go", None, (FILE.model_copy(update={"path": "/b.txt"}),)),
    }
    assert len(keys) == 9


def test_the_order_of_arguments_does_not_count_but_the_number_of_equal_calls_does() -> None:
    one, other = {"a": 1, "b": {"c": 2, "d": 3}}, {"b": {"d": 3, "c": 2}, "a": 1}
    assert call_key("t", "tool", one, 1) == call_key("t", "tool", other, 1)
    assert call_key("t", "tool", one, 1) != call_key("t", "tool", one, 2)


def test_what_a_request_carries_for_others_does_not_count_for_what_it_reads() -> None:
    plain = {"path": "/a", "offset": 0}
    assert read_key("read_file", plain) == read_key("read_file", {**plain, "layer": {}, "content_key": "k", "fork": {}})
    assert read_key("read_file", plain) != read_key("list_files", plain)
    assert read_key("read_file", plain) != read_key("read_file", {**plain, "offset": 1})
