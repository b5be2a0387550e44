"""Settings under which git runs no program that a repository names, for commands of workers and our own."""

from __future__ import annotations

_SETTINGS = {
    "core.askPass": "",
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "credential.helper": "",
    "diff.external": "",
    "log.showSignature": "false",
    "protocol.ext.allow": "never",
    "protocol.file.allow": "never",
    "safe.bareRepository": "explicit",
}
"""Settings that override those of a repository, so that git runs no program that a repository names."""
GIT_HABITS = {
    "GIT_ASKPASS": "false",
    "GIT_EDITOR": "false",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_PAGER": "cat",
    "GIT_PROXY_COMMAND": "",
    "GIT_SEQUENCE_EDITOR": "false",
    "GIT_SSH_COMMAND": "ssh",
    "GIT_TERMINAL_PROMPT": "0",
    "PAGER": "cat",
}
"""Variables for git without a terminal; for each of them a repository could also name a program."""


def git_settings() -> dict[str, str]:
    """Return the variables that hold the settings."""
    settings = {"GIT_CONFIG_COUNT": str(len(_SETTINGS))}
    for number, (key, value) in enumerate(_SETTINGS.items()):
        settings |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return settings
