"""Words of a turn while a model writes them: each is said once, whatever becomes of the turn."""

from __future__ import annotations

import re

from llm_do_temporal.client.views.run_view import event_time
from llm_do_temporal.messages.conversation import LiveText

ANEW = "\n\n(The model was asked again; its answer begins anew.)\n\n"
_WHOLE_WORDS = re.compile(r".*[^\x21-\x7e]", re.DOTALL)
"""Text up to the end of its last whole word. A key has no such end within itself, and is not said in pieces."""


class LiveWords:
    """Words of the turn under way of one invocation. It knows a turn by the time of its event, in milliseconds."""

    def __init__(self) -> None:
        self._turn = ""
        self._attempt = 0
        self._said = ""

    @property
    def is_open(self) -> bool:
        """Whether a turn is under way."""
        return bool(self._turn)

    def begin(self, turn: str) -> str:
        """Begin a turn, and return what is to be said about the one before, where it came to nothing."""
        broken, self._turn, self._attempt, self._said = bool(self._said), turn, 0, ""
        return ANEW if broken else ""

    def take(self, tail: LiveText | None) -> str:
        """Return the words of the turn that were not said yet, as far as the tail has them whole."""
        if tail is None or tail.asked_at is None or event_time(tail.asked_at) != self._turn:
            return ""
        before = ""
        if tail.attempt != self._attempt:
            before, self._attempt, self._said = ANEW if self._said else "", tail.attempt, ""
        unsaid = tail.said - len(self._said)
        if tail.part != "text" or not 0 < unsaid <= tail.part_chars:
            return before
        found = _WHOLE_WORDS.match(tail.text[-unsaid:])
        words = "" if found is None else found.group()
        self._said += words
        return before + words

    def end(self, text: str) -> str:
        """End the turn with its text, and return what of it was not said; all of it where something else was said."""
        said, self._turn, self._said = self._said, "", ""
        return text.removeprefix(said) if text.startswith(said) else f"{ANEW}{text}"
