"""Where blobs are kept: what `workshop.yaml` and the environment may say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import obstore
import pytest
from obstore.store import AzureStore, GCSStore, S3Store

from llm_do_temporal.definitions.keys.files import BlobSettings
from llm_do_temporal.errors import DefinitionError, UsageError
from llm_do_temporal.storage.blobs import LocalBlobStore
from llm_do_temporal.storage.places import BLOBS_VARIABLE, blob_settings, blobs_elsewhere, workshop_blobs


def workshop(folder: Path, blobs: str = "") -> Path:
    (folder / "workshop.yaml").write_text(f"name: test\n{blobs}\n")
    return folder


@pytest.mark.parametrize(
    "blobs",
    [
        {"url": "s3://bucket"},
        {"url": "s3://bucket/some/prefix", "endpoint": "https://minio:9000", "region": "eu-central-1"},
        {"url": "gs://bucket/prefix"},
        {"url": "az://container/prefix", "endpoint": "http://127.0.0.1:10000/devstoreaccount1"},
        {"url": "abfss://container@account.dfs.core.windows.net/prefix"},
        {"url": "file:///mnt/blobs"},
    ],
    ids=lambda blobs: blobs["url"],
)
def test_the_file_names_a_store(tmp_path: Path, blobs: dict[str, str]) -> None:
    lines = "".join(f"\n  {key}: {value}" for key, value in blobs.items())
    assert blob_settings(workshop(tmp_path, f"blobs:{lines}")) == BlobSettings(**blobs)


@pytest.mark.parametrize(
    ("blobs", "kind", "config"),
    [
        ({"url": "gs://b/some/prefix"}, GCSStore, {"bucket": "b"}),
        (
            {"url": "gs://b/some/prefix", "endpoint": "http://127.0.0.1:4443"},
            GCSStore,
            {"bucket": "b", "base_url": "http://127.0.0.1:4443"},
        ),
        ({"url": "az://c/some/prefix"}, AzureStore, {"container_name": "c"}),
        (
            {"url": "az://c/some/prefix", "endpoint": "http://127.0.0.1:10000/account"},
            AzureStore,
            {"container_name": "c", "endpoint": "http://127.0.0.1:10000/account"},
        ),
        (
            {"url": "abfss://c@account.dfs.core.windows.net/some/prefix"},
            AzureStore,
            {"container_name": "c", "account_name": "account"},
        ),
        (
            {"url": "s3://b/some/prefix", "endpoint": "https://minio:9000", "region": "eu-central-1"},
            S3Store,
            {"bucket": "b", "endpoint": "https://minio:9000", "region": "eu-central-1"},
        ),
    ],
    ids=str,
)
def test_the_store_that_is_made_is_the_one_that_was_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, blobs: dict[str, str], kind: type, config: dict[str, str]
) -> None:
    """No store is asked for anything."""
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "a2V5")
    made: list[Any] = []
    from_url = obstore.store.from_url

    def noted(*args: Any, **keys: Any) -> Any:
        made.append(from_url(*args, **keys))

    monkeypatch.setattr(obstore.store, "from_url", noted)
    workshop_blobs(workshop(tmp_path, f"blobs: {json.dumps(blobs)}"))
    assert [(type(one), one.prefix, one.config) for one in made] == [(kind, "some/prefix", config)]


@pytest.mark.parametrize(
    ("blobs", "said"),
    [
        ("{url: bucket}", "names no store that is known; it begins with one of: s3://"),
        ("{url: 'ftp://bucket'}", "names no store that is known"),
        ("{url: 's3:///prefix'}", "names no bucket"),
        ("{url: 's3://key:s3cr3t@bucket'}", "an address holds no credentials"),
        ("{url: 's3://s3cr3t@bucket'}", "an address holds no credentials"),
        ("{url: 'ftp://key:s3cr3t@bucket'}", "an address holds no credentials"),
        ("{url: 'az://container?sig=s3cr3t'}", "leave them out"),
        ("{url: 's3://bucket', endpoint: 'https://key:s3cr3t@minio'}", "an address holds no credentials"),
        ("{url: 's3://bucket', endpoint: 'minio:9000'}", "is not like https://HOST:PORT"),
        ("{url: 'gs://bucket', region: here}", "only s3:// has a region"),
        ("{url: 'file:///blobs', endpoint: 'http://minio'}", "a folder has no endpoint"),
        ("{url: 'file://host/blobs'}", "is not like file:///FOLDER"),
        ("{url: 's3://bucket', secret_access_key: s3cr3t}", "secret_access_key"),
        ("{}", "url"),
    ],
)
def test_what_cannot_be_used_is_an_error_with_its_line_and_without_secrets(
    tmp_path: Path, blobs: str, said: str
) -> None:
    with pytest.raises(DefinitionError, match=r"^workshop\.yaml:2: ") as told:
        workshop_blobs(workshop(tmp_path, f"blobs: {blobs}"))
    assert said in str(told.value)
    assert "s3cr3t" not in str(told.value)


def test_without_a_word_blobs_are_in_the_workshop(tmp_path: Path) -> None:
    assert blob_settings(workshop(tmp_path)) is None
    sha256 = workshop_blobs(tmp_path).put_bytes(b"text")
    assert [path.name for path in (tmp_path / ".llm-do" / "blobs").rglob(sha256)] == [sha256]


def test_the_variable_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workshop(tmp_path, "blobs: {url: 's3://bucket', region: here}")
    monkeypatch.setenv(BLOBS_VARIABLE, "s3://bucket")
    assert blob_settings(tmp_path) == BlobSettings(url="s3://bucket", region="here")
    monkeypatch.setenv(BLOBS_VARIABLE, (tmp_path / "else where").as_uri())
    blobs = workshop_blobs(tmp_path)
    assert isinstance(blobs, LocalBlobStore)
    sha256 = blobs.put_bytes(b"text")
    assert (tmp_path / "else where" / "sha256" / sha256[:2] / sha256).read_bytes() == b"text"


@pytest.mark.parametrize(
    ("url", "elsewhere"),
    [
        ("", False),
        ("{workshop}/.llm-do/blobs", False),
        ("{workshop}/../blobs", True),
        ("{workshop}/mounted/blobs", True),
        ("file:///mnt/blobs", True),
        ("s3://bucket/prefix", True),
    ],
)
def test_blobs_are_elsewhere_where_they_are_not_below_the_workshop(
    url: str, elsewhere: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "mounted").symlink_to(tmp_path)
    address = url.replace("{workshop}", folder.as_uri())
    monkeypatch.setenv(BLOBS_VARIABLE, address)
    assert blobs_elsewhere(workshop(folder)) == (address if elsewhere else None)


def test_a_variable_that_cannot_be_used_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(BLOBS_VARIABLE, "s3://key:s3cr3t@bucket")
    with pytest.raises(UsageError, match=r"^LLM_DO_BLOBS_URL cannot be used: an address holds no credentials") as told:
        workshop_blobs(workshop(tmp_path))
    assert "s3cr3t" not in str(told.value)
