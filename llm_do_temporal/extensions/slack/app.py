"""The app: clicks, forms and mentions of people in Slack become decisions and starts, in Socket Mode.

A thin translation. Who somebody is, Slack says, by the id of the user; who that user is, the workshop's file says.

The board keeps the cards of the channel in step with the questions of all runs. It knows nothing that is not in the
channel or at the server: after a death it reads the channel, and goes on.
"""

from __future__ import annotations

import asyncio
import html
import json
import logging
import re
from base64 import b64encode
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError
from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp
from slack_sdk.web.async_client import AsyncWebClient

from llm_do_temporal.client.question_document import QuestionDocument, answer_words, by_words
from llm_do_temporal.doors.files import sent_files
from llm_do_temporal.doors.principal import Principal
from llm_do_temporal.doors.service import DoorService
from llm_do_temporal.doors.values import Answer, Failure, Run, Start
from llm_do_temporal.errors import ConnectionFailed, LlmDoError, UnknownHere, UsageError
from llm_do_temporal.extensions.slack.workspace import (
    CARD_EVENT,
    END_EVENT,
    READER,
    Bot,
    Card,
    CardMark,
    SlackChannel,
    SlackFailed,
    slack_person,
)
from llm_do_temporal.messages.approvals import DecisionKind, Verdict
from llm_do_temporal.policy.models import cut_words
from llm_do_temporal.policy.notifications import link_to
from llm_do_temporal.redaction.hidden_characters import AS_IT_IS, plain, plain_piece, slack_text, slack_texts

_PAUSE_SECONDS = 1.0
_MOST_ENDS = 20
"""Runs whose end is looked for in one round."""
MOST_FINISHED = 500
"""Runs whose end is told and whose cards are still known; those of older ones nothing can change any more."""
_MOST_CHANGES = 20
"""Changes that the card of a question of a capability names: the files of each are read for it."""


class Board:
    """Cards of one channel."""

    def __init__(self, service: DoorService, channel: SlackChannel, bot: Bot, page: str | None) -> None:
        self._service = service
        self._channel = channel
        self._bot = bot
        self._page = page
        self._cards: dict[tuple[str, str], Card] = {}
        self._hopeless: dict[tuple[str, str], str] = {}
        """Questions that Slack would not take, with their digests."""
        self._is_known = False
        self._turn = asyncio.Lock()
        self._said = ""

    @property
    def told_runs(self) -> list[str]:
        """Runs that are known and whose end is told, in the order of their cards."""
        return list(dict.fromkeys(card.mark.run for card in self._cards.values() if card.mark.told))

    async def look(self) -> None:
        """Find the cards that stand in the channel. Raises SlackFailed."""
        async with self._turn:
            await self._find()

    async def keep(self) -> None:
        """Bring the cards up to date every second until cancelled. What fails is tried again, and said once."""
        while True:
            try:
                await self.round()
                self._said = ""
            except (SlackFailed, LlmDoError) as failed:
                self._is_known = False
                self._say(str(failed))
            await asyncio.sleep(_PAUSE_SECONDS)

    async def round(self) -> None:
        """Post what is new, change what has changed, and tell ends. Raises SlackFailed, LlmDoError."""
        async with self._turn:
            if not self._is_known:
                await self._find()
            waiting = await self._waiting()
            for key, (digest, votes) in waiting.items():
                card = self._cards.get(key)
                if card is None:
                    await self._post(key)
                elif (card.mark.state, card.mark.digest, card.mark.votes) != ("open", digest, votes):
                    await self._refresh(card)
            for card in list(self._cards.values()):
                if card.mark.question and not card.mark.is_final and card.mark.key not in waiting:
                    await self._refresh(card)
            await self._tell_ends({run for run, _ in waiting})
            self._hopeless = {key: digest for key, digest in self._hopeless.items() if key in waiting}
            self._forget(self.told_runs[:-MOST_FINISHED])

    async def refresh(self, key: tuple[str, str]) -> None:
        """Show a question anew, whatever the card shows: somebody has just acted on it. Raises SlackFailed."""
        async with self._turn:
            if (card := self._cards.get(key)) is not None:
                await self._refresh(card, anyway=True)

    async def begin(self, run: str) -> None:
        """Post the card of a run that was started here. Raises SlackFailed, LlmDoError."""
        async with self._turn:
            if (run, "") not in self._cards:
                about = await self._service.run(READER, run)
                await self._add(run_card(about, self._page), CardMark(run=run, state=about.state))

    async def _find(self) -> None:
        await self._take(await self._channel.cards(self._bot))
        self._is_known = True

    async def _waiting(self) -> dict[tuple[str, str], tuple[str, int]]:
        """Return the open questions, oldest first, each with its digest and the number of its votes."""
        inbox = await self._service.client.inbox()
        found = {(one.run, one.id): (one.digest, one.votes) for one in inbox.entries}
        for run in inbox.crowded:
            more = await self._service.questions(READER, run)
            found |= {(run, one.id): (one.digest, len(one.votes)) for one in more}
        return found

    async def _post(self, key: tuple[str, str]) -> None:
        try:
            document = await self._service.document(READER, *key)
        except UnknownHere:
            return
        mark = mark_of(document)
        if mark.state != "open" or self._hopeless.get(key) == mark.digest:
            return
        try:
            await self._add(await self._card_of(document), mark)
        except SlackFailed as failed:
            if not failed.error.startswith(("invalid_", "msg_")):
                raise
            self._hopeless[key] = mark.digest
            self._say(f"{failed}, for {key[1]} of run {key[0]}")

    async def _add(self, message: dict[str, Any], mark: CardMark) -> None:
        """Post a card. Where another process of this door was first, its card stays, and this one goes."""
        ts = await self._channel.post(message)
        self._cards.setdefault(mark.key, Card(ts, mark))
        await self._take(await self._channel.cards(self._bot, since=_minute_before(ts)))

    async def _take(self, found: Collection[Card]) -> None:
        """Know these cards, too: of several about one question the first, and the others are taken back."""
        for card in found:
            known = self._cards.setdefault(card.mark.key, card)
            first, second = sorted((known, card), key=lambda one: one.ts)
            self._cards[card.mark.key] = first
            if second.ts != first.ts:
                await self._channel.delete(second.ts)

    async def _refresh(self, card: Card, *, anyway: bool = False, told: bool | None = None) -> None:
        told = card.mark.told if told is None else told
        try:
            document = await self._service.document(READER, *card.mark.key)
        except LlmDoError:
            return  # it was deleted, or its key is missing now: nothing can be said of it
        mark = mark_of(document, told=told)
        if mark != card.mark or anyway:
            await self._change(card, await self._card_of(document, told=told), mark)

    async def _card_of(self, document: QuestionDocument, *, told: bool = False) -> dict[str, Any]:
        view = document.view
        if view is None:
            return question_card(document, document.call_text, self._page, told=told)
        question = document.question
        try:
            changes = await view.outline(self._service, READER, question, _MOST_CHANGES)
        except LlmDoError as failed:
            self._say(f"{failed}, for {question.id} of run {question.run}")
            changes = "The changes could not be read; the log of this door says why."
        return question_card(document, changes, self._page, told=told)

    async def _change(self, card: Card, message: dict[str, Any], mark: CardMark) -> None:
        try:
            await self._channel.update(card.ts, message)
        except SlackFailed as failed:
            if failed.error not in ("message_not_found", "cant_update_message", "edit_window_closed"):
                raise
        self._cards[mark.key] = Card(card.ts, mark)

    async def _tell_ends(self, asking: Collection[str]) -> None:
        """Tell the thread below the first card of each run that has ended what became of it."""
        first: dict[str, Card] = {}
        done = {*asking, *self.told_runs}
        left = [card for card in self._cards.values() if card.mark.run not in done]
        for card in sorted(left, key=lambda one: (bool(one.mark.question), one.ts)):
            first.setdefault(card.mark.run, card)
        for card in [card for card in left if first[card.mark.run] is card][:_MOST_ENDS]:
            # To the end of the line, so that all have their turn.
            self._cards[card.mark.key] = self._cards.pop(card.mark.key)
            await self._tell_end(card)

    async def _tell_end(self, card: Card) -> None:
        try:
            run = await self._service.run(READER, card.mark.run)
        except UnknownHere:
            self._forget([card.mark.run])  # it was deleted
            return
        except LlmDoError:
            return
        if run.ended_at is None:
            return
        if not await self._channel.has_end(self._bot, card):
            await self._channel.post(end_message(run), thread=card.ts)
        if card.mark.question:
            await self._refresh(card, told=True)
        else:
            mark = CardMark(run=run.run, state=run.state, told=True)
            await self._change(card, run_card(run, self._page, told=True), mark)

    def _forget(self, runs: Collection[str]) -> None:
        """Know the cards of these runs no longer; in the channel they stay as they are."""
        gone = frozenset(runs)
        if gone:
            self._cards = {key: card for key, card in self._cards.items() if card.mark.run not in gone}

    def _say(self, text: str) -> None:
        if text != self._said:
            _log.warning("%s", text)
        self._said = text


def _minute_before(ts: str) -> str:
    seconds, _, rest = ts.partition(".")
    return f"{int(seconds) - 60}.{rest or '0'}" if seconds.isdecimal() else "0"


_LINK = re.compile(r"<([^<>|]+)(?:\|[^<>]*)?>")
_HELP = "Say: start WORKER PROMPT. Files of the message are attached."
_RENEWAL_SECONDS = 30.0
"""Age of an address that cannot be connected to: Slack counts how often it is asked for a new one."""
_log = logging.getLogger(__name__)
Ack = Callable[..., Awaitable[Any]]


class SlackListeners:
    """Bolt's listeners: hear people in Slack, and speak for those whom the workshop's file names."""

    def __init__(self, service: DoorService, workshop: Path, channel: SlackChannel, board: Board, bot: Bot) -> None:
        self._service = service
        self._workshop = workshop
        self._channel = channel
        self._board = board
        self._bot = bot

    def listen(self, app: AsyncApp) -> None:
        """Take what comes in from now on."""
        app.action(APPROVE)(self.approve)
        app.action(REJECT)(self.ask_reason)
        app.action(OPEN)(_nothing)
        app.view(REASON)(self.reject)
        # Slack sends again what is not acknowledged: a start is, once its run is there. The key makes it one run.
        app.event("app_mention", middleware=[self.start])(_nothing)
        app.event("message", middleware=[self.start])(_nothing)
        app.error(_failed)

    async def approve(self, ack: Ack, body: dict[str, Any]) -> None:
        """Approve as whoever has clicked."""
        await ack()
        await self._decide(body, body["actions"][0].get("value"), Answer(decision=DecisionKind.APPROVE))

    async def ask_reason(self, ack: Ack, body: dict[str, Any]) -> None:
        """Ask whoever has clicked for the reason of the rejection."""
        await ack()
        try:
            value = body["actions"][0].get("value")
            await self._person(*_user(body))
            await self._channel.open_modal(str(body.get("trigger_id")), reason_form(read_mark(value), value))
        except LlmDoError as refused:
            await self._tell_refusal(body, refused)

    async def reject(self, ack: Ack, body: dict[str, Any]) -> None:
        """Reject for the reason that was typed."""
        await ack()
        view = body["view"]
        reason = str(view["state"]["values"][REASON][REASON].get("value") or "")
        await self._decide(body, view.get("private_metadata"), Answer(decision=DecisionKind.REJECT, note=reason))

    async def start(self, body: dict[str, Any], next: Ack) -> None:  # noqa: A002 - Bolt calls it so
        """Start a run as whoever has mentioned the app; what is said to nobody, or elsewhere, is left alone."""
        event = cast("dict[str, Any]", body["event"])
        said = re.match(rf"\s*<@{re.escape(self._bot.user_id)}>\s*(.*)", str(event.get("text") or ""), re.DOTALL)
        is_ours = event.get("channel") == self._channel.id and event.get("subtype") in (None, "file_share")
        if said is not None and is_ours and not event.get("bot_id"):
            try:
                await self._begin(body, event, said[1])
            except ConnectionFailed:
                raise
            except LlmDoError as refused:
                await self._tell_refusal(event, refused)
        await next()

    async def _begin(self, body: dict[str, Any], event: dict[str, Any], words: str) -> None:
        user, team = _user(event)
        who = await self._person(user, team or (None if body.get("is_ext_shared_channel") else self._bot.team_id))
        found = re.fullmatch(r"start\s+(\S+)\s*(.*)", _as_typed(words), re.DOTALL)
        if found is None or event.get("thread_ts"):
            raise UsageError(_HELP if found is None else "runs are started in the channel, and not in a thread")
        ts = str(event.get("ts"))
        files = await self._channel.files(ts)
        attached = sent_files((name, b64encode(content).decode()) for name, content in files)
        start = Start.of({"worker": found[1], "prompt": found[2], "attachments": attached})
        run, _ = await self._service.start(who, start, key=f"{self._channel.id} {ts}")
        await self._board.begin(run.run)

    async def _decide(self, body: dict[str, Any], value: object, answer: Answer) -> None:
        try:
            who = await self._person(*_user(body))
            mark = read_mark(value)
            try:
                asked = await self._service.decide(who, mark.run, mark.question, answer, digest=mark.digest)
                if asked.state == "open" and not asked.votes:
                    raise ConnectionFailed("it was sent, but no worker service has answered yet")
            finally:
                await self._board.refresh(mark.key)
        except LlmDoError as refused:
            await self._tell_refusal(body, refused)

    async def _person(self, user: object, team: object) -> Principal:
        return await slack_person(self._workshop, user, is_ours=team == self._bot.team_id)

    async def _tell_refusal(self, source: dict[str, Any], refused: LlmDoError) -> None:
        told = Failure.of(refused)
        user = _user(source)[0]
        text = f"{told.message}\n{told.next_step}" if told.next_step else told.message
        await self._channel.post_ephemeral(str(user), note(text))


async def serve(
    service: DoorService,
    workshop: Path,
    channel: SlackChannel,
    app_token: str,
    page: str | None,
    connected: Callable[[], None],
) -> None:
    """Sign in, call `connected`, and serve until cancelled. Raises SlackFailed where a token or the channel is none."""
    bot = await channel.sign_in()
    board = Board(service, channel, bot, page)
    app = AsyncApp(client=channel.web, name=__name__, logger=quiet_log())
    SlackListeners(service, workshop, channel, board, bot).listen(app)
    await board.look()
    handler = AsyncSocketModeHandler(app, app_token, logger=quiet_log())
    try:
        handler.client.wss_uri = await channel.open_connection(app_token)
        connected()
        async with asyncio.TaskGroup() as group:
            group.create_task(handler.connect_async())
            group.create_task(board.keep())
            group.create_task(_renew(handler))
    finally:
        await handler.close_async()


def web_client(token: str, address: str) -> AsyncWebClient:
    """Return the client of the Web API. It repeats nothing by itself: what is posted twice stands there twice."""
    return AsyncWebClient(token=token, base_url=address, retry_handlers=[], logger=quiet_log())


def quiet_log() -> logging.Logger:
    """Return a log for the SDK: warnings in one line each."""
    log = logging.getLogger("llm_do_temporal.slack_sdk")
    log.setLevel(logging.WARNING)
    if not log.filters:
        log.addFilter(_in_one_line)
    return log


async def _renew(handler: AsyncSocketModeHandler) -> None:
    """Let a connection that cannot be made ask for a new address: the SDK tries a used one for ever."""
    while True:
        await asyncio.sleep(_RENEWAL_SECONDS)
        if not await handler.client.is_connected():
            handler.client.wss_uri = None


def _in_one_line(record: logging.LogRecord) -> bool:
    record.exc_info = None
    return True


async def _nothing(ack: Ack) -> None:
    await ack()


async def _failed(error: Exception) -> None:
    known = isinstance(error, SlackFailed | LlmDoError)
    _log.warning("a message from Slack was not dealt with: %s", error if known else type(error).__name__)


def _user(source: dict[str, Any]) -> tuple[object, object]:
    """Return who has clicked or written, and of which workspace."""
    user = source.get("user")
    if not isinstance(user, dict):
        return user, source.get("user_team") or source.get("team")
    known = cast("dict[str, Any]", user)
    return known.get("id"), known.get("team_id")


def _as_typed(text: str) -> str:
    """Return a message as it was typed: Slack puts addresses between angle brackets, and escapes those of people."""
    return html.unescape(_LINK.sub(r"\1", text)).strip()


APPROVE, REJECT, OPEN = "llm_do_approve", "llm_do_reject", "llm_do_open"
REASON = "llm_do_reason"
MAX_REASON_CHARS = 3_000
"""Most characters of a reason: as many as Slack lets people type into a field."""
_MOST_PIECES = 4
"""Most texts in which one card shows a call, or an answer: about 8,000 characters."""


def read_mark(value: object) -> CardMark:
    """Return the mark of a button or form. Raises UsageError for what is none."""
    try:
        return CardMark.model_validate_json(value if isinstance(value, str) else "")
    except ValidationError:
        raise UsageError("this button is none of this door's") from None


def mark_of(document: QuestionDocument, *, told: bool = False) -> CardMark:
    """Return the mark of a question as it is now."""
    question, votes = document.question, len(document.answers)
    digest = question.request.digest
    return CardMark(run=question.run, question=question.id, digest=digest, state=document.state, votes=votes, told=told)


def question_card(document: QuestionDocument, asked: str, page: str | None, *, told: bool = False) -> dict[str, Any]:
    """Return the card of a question about the call or the changes `asked`; `page` is the address of the web page.

    It has buttons while the question is open.
    """
    question, mark = document.question, mark_of(document, told=told)
    headline, shown = _headline(document), _pieces(asked)
    about = [_section(question.task)] if question.task else []
    blocks = [_section(headline), *about, _section(question.request.summary), *_sections(shown[0])]
    if not shown[1]:
        blocks.append(_section("… This is not all of it. The page and `llm-do-temporal approvals` show the whole."))
    if document.view is not None and document.can("approve"):
        blocks.append(_section(document.view.elsewhere(question.run)))
    blocks += [_section(_vote(vote)) for vote in document.answers[-10:]]
    circumstances = " · ".join((f"run {question.run} {question.id}", question.request.place, *document.facts))
    blocks.append({"type": "context", "elements": [plain(circumstances)]})
    buttons = _buttons(mark, document, page, is_whole=shown[1])
    if buttons:
        blocks.append({"type": "actions", "elements": buttons})
    return _message(f"{headline}: {question.request.summary}", blocks, CARD_EVENT, mark)


def run_card(run: Run, page: str | None, *, told: bool = False) -> dict[str, Any]:
    """Return the card of a run that was started here."""
    headline = f"{run.worker} was started by {by_words(run.started_by)}: {run.state}"
    blocks = [_section(headline), *([_section(run.task)] if run.task else [])]
    blocks.append({"type": "context", "elements": [plain(f"run {run.run}")]})
    if (link := link_to(page, run.run)) is not None:
        blocks.append({"type": "actions", "elements": [_open(link)]})
    return _message(headline, blocks, CARD_EVENT, CardMark(run=run.run, state=run.state, told=told))


def end_message(run: Run) -> dict[str, Any]:
    """Return what the thread of a run is told at its end: state, result or error, and what was spent."""
    headline = f"{run.worker}: {run.state}"
    words = run.output if isinstance(run.output, str) else json.dumps(run.output, ensure_ascii=False, indent=1)
    if run.error is not None:
        words = run.error.message
    pieces, is_whole = _pieces(words if run.output is not None or run.error is not None else "")
    blocks = [_section(headline), *_sections(pieces)]
    if run.truncated is not None:
        blocks.append(_section(f"The result is not whole: {cut_words(run.truncated)}."))
    if not is_whole:
        blocks.append(_section(f"… `llm-do-temporal result {run.run}` prints the whole."))
    blocks.append({"type": "context", "elements": [plain(_spent(run))]})
    return _message(headline, blocks, END_EVENT, CardMark(run=run.run, state=run.state, told=True))


def reason_form(mark: CardMark, value: str) -> dict[str, Any]:
    """Return the form that asks for the reason of a rejection; `value` comes back with it."""
    field = {"type": "plain_text_input", "action_id": REASON, "multiline": True, "max_length": MAX_REASON_CHARS}
    return {
        "type": "modal",
        "callback_id": REASON,
        "private_metadata": value,
        "title": plain("Reject"),
        "submit": plain("Reject"),
        "close": plain("Cancel"),
        "blocks": [
            _section(f"{mark.question} of run {mark.run}"),
            {"type": "input", "block_id": REASON, "label": plain("Reason, which the worker is told"), "element": field},
        ],
    }


def note(text: str) -> dict[str, Any]:
    """Return a few words of the door as a message."""
    return {"text": slack_text(text), "blocks": [_section(text)], **AS_IT_IS}


def _message(text: str, blocks: list[dict[str, Any]], event: str, mark: CardMark) -> dict[str, Any]:
    metadata = {"event_type": event, "event_payload": mark.model_dump()}
    return {"text": slack_text(text), "blocks": blocks, "metadata": metadata, **AS_IT_IS}


def _section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": plain(text or " ")}


def _sections(pieces: list[str]) -> list[dict[str, Any]]:
    return [{"type": "section", "text": plain_piece(piece)} for piece in pieces if piece.strip()]


def _pieces(text: str) -> tuple[list[str], bool]:
    return slack_texts(text, _MOST_PIECES)


def _buttons(mark: CardMark, document: QuestionDocument, page: str | None, *, is_whole: bool) -> list[dict[str, Any]]:
    buttons: list[dict[str, Any]] = []
    value = mark.model_dump_json(include={"run", "question", "digest"})
    if document.can("approve") and document.view is None:
        approve = {"type": "button", "action_id": APPROVE, "text": plain("Approve"), "value": value}
        unseen = {} if is_whole else {"confirm": _confirmation()}
        buttons.append({**approve, "style": "primary", **unseen})
    if document.can("reject"):
        reject = {"type": "button", "action_id": REJECT, "text": plain("Reject …"), "value": value, "style": "danger"}
        buttons.append(reject)
    if (link := link_to(page, mark.run, mark.question)) is not None:
        buttons.append(_open(link))
    return buttons


def _headline(document: QuestionDocument) -> str:
    question, request = document.question, document.question.request
    if document.state == "open":
        return f"{request.worker} asks for approval: {request.tool}"
    call = f"{request.tool} of {request.worker}"
    if document.state == "held":
        return f"{call} is decided, and can still be taken back"
    if document.state == "withdrawn":
        return f"{call} needs no answer any more"
    return f"{document.answer_words}: {call}{f' ({question.undone_words})' if question.again else ''}"


def _vote(vote: Verdict) -> str:
    return f"{answer_words(vote)} at {vote.at:%Y-%m-%d %H:%M:%S} UTC{f': {vote.note}' if vote.note else ''}"


def _spent(run: Run) -> str:
    if run.usage is None:
        return f"run {run.run}"
    tokens = f"{run.usage.input_tokens:,} tokens in, {run.usage.output_tokens:,} out"
    cost = "" if run.usage.cost_usd is None else f"${run.usage.cost_usd:f}"
    return " · ".join(filter(None, (f"run {run.run}", f"{run.usage.requests} requests", tokens, cost)))


def _confirmation() -> dict[str, Any]:
    return {
        "title": plain("Approve what is not shown?"),
        "text": plain("This message shows only the beginning of the call."),
        "confirm": plain("Approve all of it"),
        "deny": plain("Cancel"),
    }


def _open(link: str) -> dict[str, Any]:
    return {"type": "button", "action_id": OPEN, "text": plain("Open"), "url": link}
