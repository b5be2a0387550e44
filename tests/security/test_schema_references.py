"""References of a stranger's schema lead nowhere but into the schema: nothing is fetched, no file is read."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from llm_do_temporal.activities.external import usable_schema
from llm_do_temporal.cli.terminal.ask import fitting_arguments
from llm_do_temporal.definitions.workers.worker_file import check_output_schema
from llm_do_temporal.json_schema import UnusableSchema, check_schema, find_problems
from tests.support.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.timeout(PATIENCE_SECONDS)


@pytest.fixture(scope="module")
def listener() -> Iterator[tuple[str, list[str]]]:
    """An address that notes who asks for something."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"type": "object"}')

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is given
            del format, args

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_address[1]}", asked
    server.shutdown()
    server.server_close()


OUTWARD: dict[str, dict[str, Any]] = {
    "http": {"$ref": "http://HOST/x"},
    "http with fragment": {"$ref": "http://HOST/x#/a"},
    "https": {"$ref": "https://HOST/x"},
    "capitals": {"$ref": "HTTP://HOST/x"},
    "file": {"$ref": "file://FILE"},
    "file of a host": {"$ref": "file://localhostFILE"},
    "absolute path": {"$ref": "FILE"},
    "relative": {"$ref": "secret.json"},
    "upwards": {"$ref": "../secret.json"},
    "two slashes": {"$ref": "//HOST/x"},
    "ftp": {"$ref": "ftp://HOST/x"},
    "data": {"$ref": 'data:application/json,{"const":1}'},
    "urn": {"$ref": "urn:uuid:x"},
    "dynamic": {"$dynamicRef": "http://HOST/x#y"},
    "base by $id": {"$id": "http://HOST/base/", "$ref": "x"},
    "base by $id in a part": {"anyOf": [{"$id": "http://HOST/base/", "properties": {"a": {"$ref": "x"}}}]},
    "file base": {"$id": "file:///", "$ref": "FILE"},
    "in a branch": {"anyOf": [{"$ref": "http://HOST/x"}]},
    "in not": {"not": {"$ref": "http://HOST/x"}},
    "in a property": {"properties": {"a": {"$ref": "http://HOST/x"}}},
    "unevaluated": {"unevaluatedProperties": False, "$ref": "http://HOST/x"},
    "by way of a definition": {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "http://HOST/x"}}},
    "unknown anchor": {"$ref": "#gone"},
    "unknown path": {"$ref": "#/$defs/gone"},
    "older draft": {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "properties": {"a": {"$ref": "http://HOST/"}},
    },
}


def _filled(schema: Any, host: str, file: Path) -> dict[str, Any]:
    return json.loads(json.dumps({"type": "object", **schema}).replace("HOST", host).replace("FILE", str(file)))


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file that a schema could read."""
    path = tmp_path / "secret.json"
    path.write_text('{"const": "SECRET-1234"}')
    return path


@pytest.mark.parametrize("outward", OUTWARD.values(), ids=OUTWARD)
def test_a_reference_out_of_the_schema_is_a_result_and_fetches_nothing(
    outward: Any, listener: tuple[str, list[str]], secret: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, asked = listener
    monkeypatch.chdir(secret.parent)
    schema = _filled(outward, host, secret)
    args, problem = fitting_arguments('{"a": 1}', schema)
    assert args is None
    assert "its schema cannot be used" in problem
    assert "SECRET" not in problem
    with pytest.raises(UnusableSchema):
        find_problems(schema, {"a": 1})
    assert asked == []


@pytest.mark.parametrize("outward", OUTWARD.values(), ids=OUTWARD)
def test_a_reference_out_of_the_schema_is_a_mistake_when_it_is_loaded(
    outward: Any, listener: tuple[str, list[str]], secret: Path
) -> None:
    host, asked = listener
    schema = _filled(outward, host, secret)
    assert "leads nowhere in this schema" in str(check_schema(schema))
    assert check_output_schema(schema)
    usable, left, problem = usable_schema(schema)
    assert left or problem
    assert problem or not find_problems(usable, {"a": 1})
    assert asked == []
