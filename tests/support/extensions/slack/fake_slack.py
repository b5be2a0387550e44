"""A Slack on this machine: its Web API over HTTP and Socket Mode over WebSockets, with the limits that it states.

Written after Slack's reference; the real one was never asked. Runs in a thread of its own; tests click and write there.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Self

from aiohttp import WSMsgType, web

from tests.support.extensions.slack.messages import check_form, check_message
from tests.support.patience import PATIENCE_SECONDS

BOT_TOKEN, APP_TOKEN = "xoxb-1-secret-of-the-bot", "xapp-1-secret-of-the-app"
CHANNEL, TEAM, BOT, BOT_USER = "C0CHANNEL", "T0TEAM", "B0BOT", "U0ROBOT"
ADA, BOB, EVE = "U0ADA1", "U0BOB1", "U0EVE1"
Message = dict[str, Any]


class FakeSlack:
    """The server. `refuse` has answers that a method is to give first, each a status, headers and a body."""

    def __init__(self) -> None:
        self.messages: dict[str, Message] = {}
        """Messages by their times, those of threads too."""
        self.ephemerals: list[Message] = []
        self.forms: list[Message] = []
        self.calls: list[tuple[str, Message]] = []
        self.problems: list[str] = []
        """Requests that Slack would not have taken, or that named no token."""
        self.refuse: dict[str, deque[tuple[int, dict[str, str], str]]] = {}
        self.lose: set[str] = set()
        """Methods that do as asked, and whose answers get lost."""
        self.refused_connections = 0
        """Number of connections that are refused from now on; the addresses are used up all the same."""
        self.gives_up = False
        """Whether nothing is waited for any more once all connections have broken off."""
        self.unacknowledged: list[str] = []
        """Envelopes that nobody has answered."""
        self._files: dict[str, bytes] = {}
        self._sockets: list[web.WebSocketResponse] = []
        self._tickets: set[str] = set()
        self._count = 0
        self._changed = threading.Condition()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="slack")
        self.port = 0

    @property
    def environment(self) -> dict[str, str]:
        """Variables by which the door finds this Slack."""
        return {
            "SLACK_BOT_TOKEN": BOT_TOKEN,
            "SLACK_APP_TOKEN": APP_TOKEN,
            "SLACK_API_URL": f"http://127.0.0.1:{self.port}/api/",
        }

    def __enter__(self) -> Self:
        self._thread.start()
        self.in_slack(self._begin())
        return self

    def __exit__(self, *_: object) -> None:
        self.in_slack(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def in_slack(self, work: Any) -> Any:
        """Run a coroutine in the server's thread."""
        done: Future[Any] = asyncio.run_coroutine_threadsafe(work, self._loop)
        return done.result(PATIENCE_SECONDS)

    def until(self, found: Callable[[], Any], what: str) -> Any:
        """Wait until something is so, and return what was found."""

        def found_or_left() -> Any:
            return found() or (self.gives_up and self._sockets and all(one.closed for one in self._sockets))

        with self._changed:
            self._changed.wait_for(found_or_left, PATIENCE_SECONDS)
            value = found()
        said = [shown(one) for one in (*self.messages.values(), *self.ephemerals)]
        assert value, f"never happened: {what}\n{said}\n{[method for method, _ in self.calls][-20:]}"
        return value

    def cards(self, run: str | None = None, question: str | None = None) -> list[Message]:
        """Return the cards in the channel, oldest first; of one run, and of one question or of the run itself (""),
        where these are named. Runs of other tests are asked about here, too."""
        found = [one for _, one in sorted(self.messages.items()) if one.get("metadata") and "thread_ts" not in one]
        marks = [(one, one["metadata"]["event_payload"]) for one in found]
        return [one for one, mark in marks if run in (None, mark["run"]) and question in (None, mark["question"])]

    def card(self, run: str, question: str, *, says: str = "") -> Message:
        """Wait for a card of a question that says this, and return it."""

        def found() -> Message | None:
            return next((one for one in self.cards(run, question) if says in shown(one)), None)

        return self.until(found, f"a card about {question!r} says {says!r}")

    def started(self, says: str, *, after: str = "") -> Message:
        """Wait for the card of a run that says this, later than a message, and return it."""

        def found() -> Message | None:
            return next((one for one in self.cards(None, "") if one["ts"] > after and says in shown(one)), None)

        return self.until(found, f"a run {says!r}")

    def reply(self, card: Message, says: str) -> Message:
        """Wait for a message in the thread below a card that says this."""

        def found() -> Message | None:
            below = [one for one in self.messages.values() if one.get("thread_ts") == card["ts"]]
            return next((one for one in below if says in shown(one)), None)

        return self.until(found, f"a thread says {says!r}")

    def ephemeral(self, says: str) -> Message:
        """Wait until one person is told this."""
        return self.until(lambda: next((one for one in self.ephemerals if says in shown(one)), None), f"told: {says!r}")

    def click(self, user: str, message: Message, action: str, *, team: str = TEAM, **more: Any) -> None:
        """Click a button of a message, and wait until the click is acknowledged."""
        buttons = [one for block in message["blocks"] if block["type"] == "actions" for one in block["elements"]]
        (button,) = [one for one in buttons if one.get("action_id") == action]
        self.press(user, action, button.get("value"), team=team, **more)

    def press(self, user: str, action: str, value: Any, *, team: str = TEAM, **more: Any) -> None:
        """Send the click of a button with this value."""
        pressed = {"type": "button", "action_id": action, "block_id": "b", "value": value, "action_ts": "1.0"}
        self.send(
            "interactive",
            {
                "type": "block_actions",
                "user": {"id": user, "username": "x", "team_id": team},
                "team": {"id": team},
                "api_app_id": "A0",
                "channel": {"id": CHANNEL},
                "trigger_id": f"trigger.{self._next()}",
                "actions": [pressed],
                **more,
            },
        )

    def fill(self, user: str, reason: str | None) -> None:
        """Fill in the form that was opened last, and send it off."""
        form = self.forms[-1]
        state = {"values": {"llm_do_reason": {"llm_do_reason": {"type": "plain_text_input", "value": reason}}}}
        view = {"id": "V0", **form, "state": state}
        self.send("interactive", {"type": "view_submission", "user": {"id": user, "team_id": TEAM}, "view": view})

    def write(self, user: str, text: str, *, files: dict[str, bytes] | None = None, **more: Any) -> str:
        """Write a message that mentions the app, tell the app, and return the time of the message."""
        event = self.put(user, text, files=files)
        self.mention({**event, "team": TEAM, **more})
        return event["ts"]

    def put(self, user: str, text: str, *, files: dict[str, bytes] | None = None) -> Message:
        """Write a message that mentions the app, which is not told yet, and return the event that tells it."""
        ts = self._ts()
        attached = [self.file(name, content) for name, content in (files or {}).items()]
        event = {"type": "app_mention", "user": user, "text": f"<@{BOT_USER}> {text}", "ts": ts, "channel": CHANNEL}
        self.messages[ts] = {**event, "type": "message", "files": attached}
        return event

    def mention(self, event: Message, **more: Any) -> None:
        """Send an event, and wait until it is acknowledged."""
        self.send("events_api", {"type": "event_callback", "team_id": TEAM, "event": event, **more})

    def send(self, kind: str, payload: Any) -> None:
        """Send an envelope to one connection, and wait until it is acknowledged."""
        envelope = self.post_envelope(kind, payload)
        self.until(lambda: envelope not in self.unacknowledged, f"an acknowledgement of {payload}")

    def post_envelope(self, kind: str, payload: Any) -> str:
        """Send an envelope, and return its id."""
        envelope = f"e-{self._next()}"
        with self._changed:
            self.unacknowledged.append(envelope)
        more = {"envelope_id": envelope, "payload": payload, "accepts_response_payload": True}
        self.send_text(json.dumps({"type": kind, **more}))
        return envelope

    def send_text(self, text: str) -> None:
        """Send whatever text to the newest connection."""
        socket = self.connected()
        self.in_slack(socket.send_str(text))

    def connected(self, count: int = 1) -> web.WebSocketResponse:
        """Wait for so many connections, and return the newest."""
        self.until(lambda: len([one for one in self._sockets if not one.closed]) >= count, "the door connects")
        return [one for one in self._sockets if not one.closed][-1]

    def refresh(self) -> None:
        """Announce the end of the newest connection, and wait for the next one.

        The door leaves the old one before it makes a new one: what is sent in between is lost."""
        old = self.connected()
        self.in_slack(old.send_str(json.dumps({"type": "disconnect", "reason": "refresh_requested"})))
        self.until(lambda: old.closed, "the door leaves the connection")
        self.connected()

    def hang_up(self) -> None:
        """Close all connections."""
        for socket in self._sockets:
            self.in_slack(socket.close())
        self._sockets.clear()

    async def _begin(self) -> None:
        app = web.Application(client_max_size=1 << 24)
        app.router.add_route("*", "/api/{method}", self._answer)
        app.router.add_get("/files/{name}", self._download)
        app.router.add_get("/socket/{ticket}", self._connect)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def _end(self) -> None:
        for socket in self._sockets:
            await socket.close()
        await self._runner.cleanup()

    async def _connect(self, request: web.Request) -> web.StreamResponse:
        ticket = request.match_info["ticket"]
        if ticket not in self._tickets:
            return web.Response(status=408)
        self._tickets.remove(ticket)
        if self.refused_connections:
            self.refused_connections -= 1
            return web.Response(status=503)
        socket = web.WebSocketResponse(max_msg_size=1 << 24)
        await socket.prepare(request)
        await socket.send_str(json.dumps({"type": "hello", "num_connections": 1}))
        with self._changed:
            self._sockets.append(socket)
            self._changed.notify_all()
        async for message in socket:
            if message.type is WSMsgType.TEXT:
                with self._changed:
                    name = json.loads(message.data)["envelope_id"]
                    self.unacknowledged = [one for one in self.unacknowledged if one != name]
                    self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()
        return socket

    async def _download(self, request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != f"Bearer {BOT_TOKEN}":
            return web.Response(status=302, headers={"Location": "/login"})
        return web.Response(body=self._files[request.match_info["name"]])

    async def _answer(self, request: web.Request) -> web.Response:
        method = request.match_info["method"]
        is_json = request.content_type == "application/json"
        asked: Message = await request.json() if is_json else {**request.query, **await request.post()}
        token = APP_TOKEN if method == "apps.connections.open" else BOT_TOKEN
        with self._changed:
            self.calls.append((method, asked))
            self._changed.notify_all()
            if self.refuse.get(method):
                status, headers, body = self.refuse[method].popleft()
                return web.Response(status=status, headers={"Content-Type": "application/json", **headers}, text=body)
            if request.headers.get("Authorization") != f"Bearer {token}":
                return web.json_response({"ok": False, "error": "invalid_auth"})
            answer = getattr(self, "_" + method.replace(".", "_").lower())(asked)
            self._changed.notify_all()
        if not answer.get("ok", True) and answer["error"] != "message_not_found":
            self.problems.append(f"{method}: {answer['error']}")
        return web.Response(status=502) if method in self.lose else web.json_response({"ok": True, **answer})

    def _auth_test(self, _asked: Message) -> Message:
        return {"user_id": BOT_USER, "bot_id": BOT, "team_id": TEAM, "url": "https://test.slack.com/"}

    def _apps_connections_open(self, _asked: Message) -> Message:
        ticket = str(self._next())
        self._tickets.add(ticket)
        return {"url": f"ws://127.0.0.1:{self.port}/socket/{ticket}"}

    def _chat_postmessage(self, asked: Message) -> Message:
        if error := _refusal(asked):
            return error
        ts = self._ts()
        self.messages[ts] = {**asked, "type": "message", "ts": ts, "bot_id": BOT, "user": BOT_USER}
        return {"ts": ts, "channel": CHANNEL}

    def _chat_update(self, asked: Message) -> Message:
        if error := _refusal(asked):
            return error
        if asked["ts"] not in self.messages:
            return {"ok": False, "error": "message_not_found"}
        self.messages[asked["ts"]] |= asked
        return {"ts": asked["ts"]}

    def _chat_delete(self, asked: Message) -> Message:
        if self.messages.pop(asked["ts"], None) is None:
            return {"ok": False, "error": "message_not_found"}
        return {}

    def _chat_postephemeral(self, asked: Message) -> Message:
        if error := _refusal(asked):
            return error
        self.ephemerals.append(asked)
        return {}

    def _views_open(self, asked: Message) -> Message:
        if problem := check_form(asked["view"]):
            return {"ok": False, "error": problem}
        self.forms.append(asked["view"])
        return {"view": {"id": "V0"}}

    def _conversations_history(self, asked: Message) -> Message:
        oldest, latest = float(asked.get("oldest", 0)), float(asked.get("latest", "inf"))
        return self._page(asked, [one for one in self._newest() if oldest <= float(one["ts"]) <= latest], threads=False)

    def _conversations_replies(self, asked: Message) -> Message:
        found = [one for one in self._newest() if asked["ts"] in (one["ts"], one.get("thread_ts"))]
        return self._page(asked, found, threads=True)

    def _page(self, asked: Message, found: list[Message], *, threads: bool) -> Message:
        if asked.get("channel") != CHANNEL:
            return {"ok": False, "error": "channel_not_found"}
        found = [one for one in found if threads or "thread_ts" not in one]
        start, limit = int(asked.get("cursor") or 0), int(asked["limit"])
        following = str(start + limit) if start + limit < len(found) else ""
        with_metadata = asked.get("include_all_metadata") == "true"
        part = [one if with_metadata else _without_metadata(one) for one in found[start : start + limit]]
        return {"messages": part, "has_more": bool(following), "response_metadata": {"next_cursor": following}}

    def _newest(self) -> list[Message]:
        return [one for _, one in sorted(self.messages.items(), reverse=True)]

    def file(self, name: str, content: bytes) -> Message:
        """Upload a file, and return what Slack says of it."""
        place = f"f{self._next()}"
        self._files[place] = content
        return {
            "id": place.upper(),
            "name": name,
            "url_private_download": f"http://127.0.0.1:{self.port}/files/{place}",
        }

    def _ts(self) -> str:
        return f"{1_700_000_000 + self._next()}.000100"

    def _next(self) -> int:
        self._count += 1
        return self._count


def shown(message: Message) -> str:
    """Return all that a person reads in a message."""
    texts = [block.get("text") for block in message.get("blocks", [])]
    more = [
        one for block in message.get("blocks", []) for one in block.get("elements", []) if one["type"] == "plain_text"
    ]
    return "\n".join(one["text"] for one in (*texts, *more) if one is not None)


def actions(message: Message) -> list[str]:
    """Return the buttons of a message, by their actions."""
    return [one["action_id"] for block in message["blocks"] if block["type"] == "actions" for one in block["elements"]]


def _refusal(asked: Message) -> Message | None:
    if asked.get("channel") != CHANNEL:
        return {"ok": False, "error": "channel_not_found"}
    problem = check_message(asked)
    return {"ok": False, "error": problem} if problem else None


def _without_metadata(message: Message) -> Message:
    return {name: value for name, value in message.items() if name != "metadata"}
