"""TLS is verified, and a token goes to nobody else: with a real TLS server, which is no slurmrestd."""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from slurmkit.errors import MissingRequirement, Refused, SlurmError, UsageError
from slurmkit.slurm.process import NEVER
from slurmkit.slurm.rest.client import Rest
from slurmkit.slurm.rest.server import Server, checked
from slurmkit.slurm.rest.token import Token
from tests.unit.slurm.rest.conftest import StandingClock, meta, token

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate that signs itself, for 127.0.0.1, with its key behind it."""
    file = tmp_path_factory.mktemp("tls") / "server.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test",
         "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", file, "-out", f"{file}.crt"],
        check=True,
        capture_output=True,
    )  # fmt: skip
    file.write_text(file.read_text() + Path(f"{file}.crt").read_text())
    return file


class Handler(BaseHTTPRequestHandler):
    asked = 0

    def do_GET(self) -> None:
        type(self).asked += 1
        body = json.dumps({"meta": meta("v0.0.45", (26, 5, 5)), "errors": []}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Nothing: pytest shows what goes wrong."""


class Quiet(HTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away at the sight of the certificate is what is tested."""


@pytest.fixture
def port(certificate: Path) -> Iterator[int]:
    Handler.asked = 0
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with Quiet(("127.0.0.1", 0), Handler) as http:
        http.socket = context.wrap_socket(http.socket, server_side=True)
        thread = threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield int(http.server_address[1])
        http.shutdown()
        thread.join()


def client(server: Server) -> Rest:
    return Rest(server, lambda: Token(token(), "alice"), clock=StandingClock(), retry=NEVER, timeout=5)


def test_a_certificate_of_a_known_authority_is_trusted(port: int, certificate: Path) -> None:
    rest = client(Server(f"https://127.0.0.1:{port}", ca_file=Path(f"{certificate}.crt")))
    assert rest.version() == (26, 5, 5)


def test_a_certificate_of_nobody_is_not_and_the_token_is_not_sent(port: int) -> None:
    with pytest.raises(Refused, match="the certificate of slurmrestd is not trusted") as caught:
        client(Server(f"https://127.0.0.1:{port}")).version()
    assert "ca_file" in str(caught.value.hint)
    assert Handler.asked == 0


def test_a_certificate_for_another_name_is_not_trusted(port: int, certificate: Path) -> None:
    with pytest.raises(Refused, match="not trusted"):
        client(Server(f"https://localhost:{port}", ca_file=Path(f"{certificate}.crt"))).version()
    assert Handler.asked == 0


def test_a_file_of_authorities_that_is_none_is_said(port: int, tmp_path: Path) -> None:
    for file in (tmp_path / "absent", tmp_path):
        with pytest.raises(SlurmError, match="file of certificate authorities cannot be used"):
            client(Server(f"https://127.0.0.1:{port}", ca_file=file)).version()


@pytest.mark.parametrize(
    "url",
    [
        "https://h:1",
        "https://h/prefix",
        "http://localhost:6820",
        "http://127.0.0.1",
        "http://[::1]:1",
        "unix:/s",
    ],
)
def test_an_address_to_which_a_token_may_go(url: str) -> None:
    assert checked(Server(url)).url == url


@pytest.mark.parametrize(
    "url",
    ["", "h:6820", "ftp://h", "https://user:secret@h", "https://h?x=1", "unix:relative", "http://h:6820",
     "http://localhost.evil", "http://127.0.0.1.evil"],
)  # fmt: skip
def test_an_address_to_which_none_may(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        checked(Server(url))
    assert "secret" not in str(caught.value)


def test_clear_text_has_to_be_allowed_by_name() -> None:
    assert checked(Server("http://inside:6820", allow_http=True))


def test_a_proxy_of_the_environment_gets_no_token(
    port: int, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert client(Server(f"https://127.0.0.1:{port}", ca_file=Path(f"{certificate}.crt"))).version()


def test_without_httpx2_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx2", None)
    with pytest.raises(MissingRequirement) as caught:
        client(Server("https://h")).version()
    assert str(caught.value).splitlines()[-1] == "  try: pip install 'slurmkit-hpc[rest]'"
