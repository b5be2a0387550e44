"""`token`: who may use the doors for programs, and what each of them may do there."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from llm_do_temporal.cli.options import HERE, JsonList, Location
from llm_do_temporal.cli.output import print_json
from llm_do_temporal.cli.tables import print_table
from llm_do_temporal.cli.text import say


def create_token(
    name: str,
    /,
    *,
    person: Annotated[bool, Parameter(negative="")] = False,
    scopes: str = "start,read",
    location: Location = HERE,
) -> int:
    """Make a token, and print it once: nothing can show it again.

    Parameters
    ----------
    name
        Whose token it is; runs and decisions record the name, of a program as `program:NAME`.
    person
        It is a person's: it sees all runs, starts all workers, and decides as that person where its scopes say so.
        Without the flag it is a program's, which starts exported workers, sees what it started, and never decides
        about that.
    scopes
        What it allows, of start, read and decide.
    """
    from llm_do_temporal.doors.principal import TokenFile, read_scopes

    made = TokenFile.of_workshop(location.find_workshop()).create(name, read_scopes(scopes), is_person=person)
    say(f"the token of {'the person' if person else 'the program'} '{name}', shown this once:")
    print(made)
    return 0


def list_tokens(*, as_json: JsonList = False, location: Location = HERE) -> int:
    """List who may use the doors for programs, HTTP and MCP, and what for. Tokens themselves are not kept."""
    from llm_do_temporal.doors.principal import TokenFile

    known = TokenFile.of_workshop(location.find_workshop()).records()
    if as_json:
        print_json([one.model_dump(mode="json", exclude={"sha256"}) for one in known], pretty=True)
    elif known:
        rows = [
            (one.name, "person" if one.is_person else "program", ",".join(one.scopes), f"{one.created_at:%Y-%m-%d}")
            for one in known
        ]
        print_table(("NAME", "KIND", "SCOPES", "MADE"), rows)
    else:
        say("nobody has a token; `llm-do-temporal token create NAME` makes one")
    return 0


def revoke_token(name: str, /, *, location: Location = HERE) -> int:
    """Take a token back: it opens nothing from this moment on.

    Parameters
    ----------
    name
        Whose token it is.
    """
    from llm_do_temporal.doors.principal import TokenFile

    TokenFile.of_workshop(location.find_workshop()).revoke(name)
    say(f"the token of '{name}' opens nothing any more")
    return 0
