from __future__ import annotations

from pathlib import Path

from llm_do_temporal.cli.commands.serve import service_environment
from llm_do_temporal.cli.options import Location


def test_connection_flags_become_the_variables_every_temporal_client_reads(tmp_path: Path) -> None:
    cert, key, authority = (str(tmp_path / name) for name in ("c.pem", "k.pem", "ca.pem"))
    for file in (cert, key, authority):
        Path(file).write_text("")
    location = Location(
        address="h:1",
        namespace="n",
        api_key="k",
        tls=True,
        tls_cert_path=cert,
        tls_key_path=key,
        tls_ca_path=authority,
        tls_server_name="s",
    )
    assert service_environment(location, tmp_path) == {
        "TEMPORAL_ADDRESS": "h:1",
        "TEMPORAL_NAMESPACE": "n",
        "TEMPORAL_API_KEY": "k",
        "TEMPORAL_TLS": "true",
        "TEMPORAL_TLS_CLIENT_CERT_PATH": cert,
        "TEMPORAL_TLS_CLIENT_KEY_PATH": key,
        "TEMPORAL_TLS_SERVER_CA_CERT_PATH": authority,
        "TEMPORAL_TLS_SERVER_NAME": "s",
    }


def test_flags_that_nobody_gave_leave_the_environment_alone(tmp_path: Path) -> None:
    assert service_environment(Location(address="h:1"), tmp_path) == {"TEMPORAL_ADDRESS": "h:1"}
