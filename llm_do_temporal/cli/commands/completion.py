"""`completion`: what a shell needs to complete our commands and flags."""

from __future__ import annotations

from typing import Literal

from llm_do_temporal.cli.text import PROGRAM


def completion(shell: Literal["bash", "zsh", "fish"], /) -> None:
    """Print the script with which a shell completes commands and flags.

    Parameters
    ----------
    shell
        Which shell is to run it, from its start file.
    """
    from llm_do_temporal.cli.app import app

    print(app.generate_completion(shell=shell))
    if shell == "zsh":
        # The script only defines what completes us, for a file of zsh's own folders.
        print(f"compdef _cyclopts_{PROGRAM} {PROGRAM}")
