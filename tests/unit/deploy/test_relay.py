"""Relay of the faults: what it passes on, and what it does not while it is cut."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from tests.cluster.faults.relay import Relay, ports_of
from tests.support.patience import PATIENCE_SECONDS

SILENCE_SECONDS = 0.2


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(PATIENCE_SECONDS)
        yield listening


@pytest.fixture
def relay(server: socket.socket) -> Iterator[Relay]:
    relay = Relay(server.getsockname())
    yield relay
    relay.close()


def connect(relay: Relay) -> socket.socket:
    return socket.create_connection(("127.0.0.1", relay.port), PATIENCE_SECONDS)


def hears(line: socket.socket) -> bytes:
    """What arrives, or nothing after a moment."""
    line.settimeout(SILENCE_SECONDS)
    try:
        return line.recv(100)
    except TimeoutError:
        return b""
    finally:
        line.settimeout(PATIENCE_SECONDS)


def test_a_relay_passes_on_in_both_directions(relay: Relay, server: socket.socket) -> None:
    with connect(relay) as client:
        there, _ = server.accept()
        with there:
            client.sendall(b"question")
            assert there.recv(100) == b"question"
            there.sendall(b"answer")
            assert client.recv(100) == b"answer"
            client.close()
            assert there.recv(100) == b""


def test_what_is_sent_while_it_is_cut_arrives_when_it_is_mended(relay: Relay, server: socket.socket) -> None:
    with connect(relay) as client:
        there, _ = server.accept()
        with there:
            relay.cut()
            client.sendall(b"question")
            there.sendall(b"answer")
            assert hears(client) == hears(there) == b""
            relay.mend()
            assert (client.recv(100), there.recv(100)) == (b"answer", b"question")


def test_a_connection_that_is_made_while_it_is_cut_hears_nothing(relay: Relay, server: socket.socket) -> None:
    relay.cut()
    with connect(relay) as client:
        client.sendall(b"question")
        assert hears(client) == b""
        relay.mend()
        there, _ = server.accept()
        with there:
            assert there.recv(100) == b"question"


def test_it_is_cut_for_some_and_not_for_others(relay: Relay, server: socket.socket) -> None:
    with connect(relay) as one, server.accept()[0] as to_one, connect(relay) as other, server.accept()[0] as to_other:
        mine = one.getsockname()[1]
        relay.cut(lambda port: port == mine)
        one.sendall(b"question")
        other.sendall(b"question")
        assert to_other.recv(100) == b"question"
        assert hears(to_one) == b""
        relay.mend()
        assert to_one.recv(100) == b"question"


def test_a_port_is_known_by_its_process(server: socket.socket) -> None:
    with socket.create_connection(server.getsockname()) as client:
        assert ports_of(os.getpid())(client.getsockname()[1])
        assert not ports_of(None)(client.getsockname()[1])
