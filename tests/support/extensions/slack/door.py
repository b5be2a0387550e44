"""The Slack door in a process of its own, at a Slack on this machine, used by a person who mentions the app."""

from __future__ import annotations

import re

from tests.support.doors.scenario import DECK, PROMPT, Door, Ended
from tests.support.extensions.slack.fake_slack import ADA, CHANNEL, TEAM, FakeSlack, Message, shown
from tests.support.people.desk import Desk


class SlackDoor(Door):
    """A person in a channel; the door's process is killed, and begins again."""

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self.slack = FakeSlack()
        self.slack.gives_up = True
        self._sent: dict[str, Message] = {}
        """Mentions by their keys."""
        self.slack.__enter__()
        desk.environment |= self.slack.environment
        config = desk.workshop / "workshop.yaml"
        config.write_text(f"{config.read_text()}\nslack: {{channel: {CHANNEL}, people: {{{ADA}: ada}}}}\n")

    def open(self) -> None:
        """Begin the process; what an earlier one has left open is closed."""
        self.slack.hang_up()
        self.process = self.desk.begin("slack")
        self.slack.connected()

    def die(self) -> None:
        """Kill the process; Slack sees the connection go."""
        super().die()
        self.slack.hang_up()

    def start(self) -> str:
        """Mention the app, with a file; Slack tells of it twice, and again where the key was there before."""
        if self.key not in self._sent:
            self._sent[self.key] = self.slack.put(ADA, f"start deck_keeper {PROMPT}", files={"deck.txt": DECK})
        event = self._sent[self.key]
        self.slack.mention({**event, "team": TEAM})
        self.slack.mention({**event, "type": "message", "subtype": "file_share"})
        card = self.slack.started("deck_keeper was started by ada", after=event["ts"])
        return card["metadata"]["event_payload"]["run"]

    def asked(self, run: str) -> str:
        """Wait for the card of the question."""
        return self.slack.card(run, "a1")["metadata"]["event_payload"]["question"]

    def result(self, run: str) -> Ended:
        """Wait for the end in the thread of the run."""
        (card,) = self.slack.cards(run, "")
        text = shown(self.slack.reply(card, "deck_keeper: "))
        state, requests = re.search(r"deck_keeper: (\w+)", text), re.search(r"(\d+) requests", text)
        assert state is not None
        assert requests is not None
        assert len(self.slack.cards(run, "a1")) == 1
        return Ended(state[1], text, requests=int(requests[1]))

    def close(self) -> None:
        self.slack.__exit__()


DOORS = (SlackDoor,)
