"""`blobs:` of `workshop.yaml`: the address of a blob store, and its checks."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit

from pydantic import field_validator, model_validator

from llm_do_temporal.messages.base import Strict

ENDPOINT_KEYS = {"s3": "endpoint", "az": "endpoint", "abfs": "endpoint", "abfss": "endpoint", "gs": "base_url"}
_SCHEMES = (*ENDPOINT_KEYS, "file")
_CREDENTIALS = "credentials are taken from the provider's own variables, such as AWS_ACCESS_KEY_ID"


class BlobSettings(Strict):
    """`blobs:` of `workshop.yaml`."""

    url: str
    """`s3://BUCKET/PREFIX`, `gs://…`, `az://CONTAINER/…`, `abfss://…`, or `file:///FOLDER`."""
    endpoint: str | None = None
    """Address of a store that speaks the provider's protocol."""
    region: str | None = None
    """Region of S3."""

    @field_validator("url")
    @classmethod
    def _is_place(cls, url: str) -> str:
        parts = _split(url)
        if parts.scheme not in _SCHEMES:
            raise ValueError(
                f"'{url}' names no store that is known; it begins with one of: {'://, '.join(_SCHEMES)}://"
            )
        if parts.scheme == "file" and (parts.netloc or not parts.path.startswith("/")):
            raise ValueError(f"'{url}' is not like file:///FOLDER")
        if parts.scheme != "file" and not parts.hostname:
            raise ValueError(f"'{url}' names no bucket; it is like {parts.scheme}://BUCKET/PREFIX")
        return url

    @field_validator("endpoint")
    @classmethod
    def _is_address(cls, endpoint: str | None) -> str | None:
        if endpoint is not None and (_split(endpoint).scheme not in ("http", "https") or not _split(endpoint).hostname):
            raise ValueError(f"'{endpoint}' is not like https://HOST:PORT")
        return endpoint

    @model_validator(mode="after")
    def _fits(self) -> BlobSettings:
        if self.endpoint is not None and self.scheme == "file":
            raise ValueError("a folder has no endpoint; take it out")
        if self.region is not None and self.scheme != "s3":
            raise ValueError("only s3:// has a region; take it out")
        return self

    @property
    def scheme(self) -> str:
        """Scheme of the address, which tells the kind of store."""
        return urlsplit(self.url).scheme


def _split(url: str) -> SplitResult:
    parts = urlsplit(url)
    # In an address of Azure's own kind the container stands before the '@'.
    if parts.password is not None or (parts.username is not None and parts.scheme not in ("abfs", "abfss")):
        raise ValueError(f"an address holds no credentials; {_CREDENTIALS}")
    if parts.query or parts.fragment:
        raise ValueError("'?' and '#' have no meaning in the address of a blob store; leave them out")
    return parts
