"""Blobs in object storage: S3 and what speaks like it, Google Cloud Storage, Azure Blob Storage.

Owns how the store's answers become ours. Opened by `storage.places`. Must not be called from workflow code.
"""

from __future__ import annotations

import logging
import re
import tempfile
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

import obstore
from obstore.exceptions import BaseError

from llm_do_temporal.encryption.keys import HEAD_BYTES, Seal, Sealer
from llm_do_temporal.errors import BlobsUnreachable, EffectFailed
from llm_do_temporal.storage.blobs import (
    CHUNK_BYTES,
    Readable,
    SealedChunks,
    StoredBlob,
    blob_path,
    chunks_of,
    damaged,
    is_digest,
    missing,
)

if TYPE_CHECKING:
    from obstore.store import ClientConfig, ObjectStore

_log = logging.getLogger(__name__)
_IN_MEMORY_BYTES = 8 * CHUNK_BYTES
"""Longest stream that waits in memory until its digest is known; a longer one waits in a temporary file."""
_CONNECT_TIMEOUT = timedelta(seconds=5)
_MAX_BACKOFF = timedelta(seconds=2)
QUICK_BACKOFF = timedelta(seconds=0.25)
"""Longest pause between two tries where `silence` is given."""
_MAX_RETRIES = 1000
"""More tries than any patience has time for: the time ends retrying."""
_STATUS = re.compile(r"status code: (\d{3})[^:]*")
"""Status in an error's text; behind it comes the answer, which may repeat the request, signatures included."""
_REFUSALS = ("401", "403")


class ObjectBlobStore:
    """Blobs as objects `sha256/ab/<digest>` below a prefix; the methods raise BlobsUnreachable where it is down.

    An object appears whole or not at all. Putting a blob again writes it again: that keeps it from being
    removed as an old one, and heals a damaged one.
    """

    def __init__(
        self,
        url: str,
        config: dict[str, Any],
        seal: Seal,
        *,
        patience: timedelta,
        silence: timedelta | None = None,
    ) -> None:
        """`config` is obstore's; `patience` is how long each call keeps trying. Raises BlobsUnreachable.

        `silence` is how long one try may hear nothing; it would cut off what takes long to put. Credentials are found
        by the provider's own variables.
        """
        self._url = url
        self._seal = seal
        client_options: ClientConfig = {
            "allow_http": config.pop("allow_http", False),
            "connect_timeout": silence or _CONNECT_TIMEOUT,
        }
        if silence is not None:
            client_options["read_timeout"] = silence
        with self._asked():
            self._objects: ObjectStore = obstore.store.from_url(
                url,
                config=cast("Any", config),
                client_options=client_options,
                retry_config={
                    "max_retries": _MAX_RETRIES,
                    "retry_timeout": patience,
                    "backoff": {"max_backoff": _MAX_BACKOFF if silence is None else QUICK_BACKOFF},
                },
            )

    def put_bytes(self, data: bytes) -> str:
        """Keep the bytes and return their digest."""
        return self._put([data], self._seal.sealer())[0]

    def put_stream(self, reader: Readable, max_bytes: int) -> tuple[str, int]:
        """See BlobStore."""
        return self._put(chunks_of(reader, max_bytes), self._seal.sealer())

    def read(self, sha256: str) -> bytes:
        """See BlobStore. Raises KeyMismatch, too."""
        path = _path(sha256)
        with self._asked(sha256):
            stored = bytes(obstore.get(self._objects, path).bytes())
        data = self._seal.opened(sha256, stored)
        if data is None:
            raise damaged(sha256)
        return data

    def size(self, sha256: str) -> int:
        """See BlobStore."""
        path = _path(sha256)
        with self._asked(sha256):
            stored = obstore.head(self._objects, path)["size"]
            # Of nothing there is no range.
            head = obstore.get_range(self._objects, path, start=0, length=HEAD_BYTES) if stored else b""
        return self._seal.size(bytes(head), stored)

    def stored(self) -> list[StoredBlob]:
        """Every blob that is there; when it was put is told by the store's clock."""
        with self._asked():
            return [
                StoredBlob(name, one["size"], one["last_modified"].timestamp())
                for chunk in obstore.list(self._objects, "sha256", chunk_size=1000)
                for one in chunk
                if is_digest(name := one["path"].rpartition("/")[2])
            ]

    def discard(self, sha256: str, *, put_before: float) -> bool:
        """Remove the blob, unless it was put at `put_before` or later; return whether it was removed.

        Object storage cannot do both at once: a blob is lost if it is put in the milliseconds between. So only
        blobs may be removed that were put long ago and that no run needs.
        """
        path = _path(sha256)
        try:
            with self._asked(sha256):
                if obstore.head(self._objects, path)["last_modified"].timestamp() >= put_before:
                    return False
                obstore.delete(self._objects, path)
        except EffectFailed:
            return False
        return True

    def discard_unfinished(self, *, begun_before: float) -> None:
        """Do nothing: an object that was not written to its end does not exist."""

    def _put(self, chunks: Iterable[bytes], sealer: Sealer) -> tuple[str, int]:
        sealed = SealedChunks(chunks, sealer)
        with tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES) as waiting:
            for piece in sealed:
                waiting.write(piece)
            waiting.seek(0)
            sha256, size = sealed.passed
            with self._asked():
                # In one request, as parts of one that breaks off would stay behind and cost money.
                obstore.put(self._objects, _path(sha256), waiting.read(), use_multipart=False)
        return sha256, size

    @contextmanager
    def _asked(self, sha256: str | None = None) -> Generator[None]:
        """Turn errors of the store into ours; `sha256` is the blob that is read, None where none is."""
        try:
            yield
        except (FileNotFoundError, BaseError) as error:
            if sha256 is not None and isinstance(error, FileNotFoundError):
                raise missing(sha256) from None
            raise self._unreachable(error) from None

    def _unreachable(self, error: Exception) -> BlobsUnreachable:
        reason = (str(error).splitlines() or [""])[0]
        answered = _STATUS.search(reason)
        if isinstance(error, FileNotFoundError):
            what, next_step = "does not exist", "Make the bucket, or name another one."
        elif answered is not None and answered[1] in _REFUSALS:
            what, next_step = "refuses access", "Check the credentials in this environment."
        else:
            what, next_step = "does not answer", "Check its address, or try again later."
        _log.warning("the blob store '%s' %s: %s", self._url, what, reason[: answered.end() if answered else None])
        return BlobsUnreachable(f"the blob store '{self._url}' {what}", next_step=next_step)


def _path(sha256: str) -> str:
    return f"sha256/{blob_path(sha256)}"
