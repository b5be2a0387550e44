"""Who else can log in to a machine."""

from __future__ import annotations

import pwd

from llm_do_temporal.client.embedded.accounts import named, other_logins


def account(name: str, uid: int, shell: str = "/bin/bash") -> pwd.struct_passwd:
    return pwd.struct_passwd((name, "x", uid, uid, "", f"/home/{name}", shell))


def test_people_count_and_the_system_and_oneself_do_not() -> None:
    listed = [
        account("root", 0),
        account("www", 33, "/usr/sbin/nologin"),
        account("ada", 1000),
        account("eve", 1002, "/usr/bin/zsh"),
        account("bob", 1001),
        account("gone", 1003, "/bin/false"),
        account("nobody", 65534),
    ]
    assert other_logins(listed, uid=1000) == ["bob", "eve"]
    assert other_logins(listed[:3], uid=1000) == []


def test_many_are_counted_and_some_named() -> None:
    assert named([f"user{number}" for number in range(7)]) == "user0, user1, user2, user3, user4 and 2 more"
