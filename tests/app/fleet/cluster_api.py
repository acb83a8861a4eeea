"""A server that speaks the part of Kubernetes' API that is used: HTTPS, tokens, EndpointSlices."""

import datetime
import ipaddress
import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def endpoint_slice(
    service: str,
    *addresses: str,
    kind: str = "IPv4",
    port: int = 30000,
    conditions: dict[str, bool] | None = None,
) -> dict[str, Any]:
    """One slice as the API gives it, with fields that nobody here reads."""
    told = {"ready": True, "serving": True, "terminating": False} | (conditions or {})
    return {
        "metadata": {"name": f"{service}-x", "labels": {"kubernetes.io/service-name": service}},
        "addressType": kind,
        "endpoints": [
            {"addresses": [each], "conditions": told, "nodeName": "node-1"} for each in addresses
        ],
        "ports": [{"name": "http", "port": port, "protocol": "TCP"}],
    }


class ClusterApiServer:
    """Runs in a thread; `folder` is what a pod finds as its service account."""

    token = "a-token"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.token_file = folder / "token"
        self.token_file.write_text(self.token)
        self.slices: list[dict[str, Any]] = []
        self.status = 200
        self.paths: list[str] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.socket = _tls(folder).wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    @property
    def environment(self) -> dict[str, str]:
        """What the cluster tells a pod."""
        port = str(self._server.server_address[1])
        return {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": port}

    def __enter__(self) -> "ClusterApiServer":
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, target: str, authorization: str | None) -> tuple[int, dict[str, Any]]:
        """Status and body."""
        parts = urlsplit(target)
        self.paths.append(parts.path)
        if authorization != f"Bearer {self.token}":
            return 403, {"kind": "Status", "reason": "Forbidden"}
        if self.status != 200:
            return self.status, {"kind": "Status"}
        key, _, value = parse_qs(parts.query)["labelSelector"][0].partition("=")
        chosen = [part for part in self.slices if _label(part, key, value)]
        return 200, {"kind": "EndpointSliceList", "items": chosen}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        api = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, body = api.answer(self.path, self.headers.get("authorization"))
                raw = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)

            def log_message(self, *_: object) -> None:
                pass

        return Handler


def _label(part: dict[str, Any], key: str, value: str) -> bool:
    labels = part.get("metadata", {}).get("labels")
    return labels is None or labels.get(key) == value


def _tls(folder: Path) -> ssl.SSLContext:
    """A certificate for 127.0.0.1 that signs itself; `ca.crt` is the same."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kubernetes")])
    today = datetime.datetime.now(datetime.UTC)
    day = datetime.timedelta(days=1)
    alternative = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(today - day)
        .not_valid_after(today + day)
        .add_extension(x509.SubjectAlternativeName([alternative]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = folder / "server.key"
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    ca = folder / "ca.crt"
    ca.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(ca, private)
    return context
