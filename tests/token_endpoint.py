"""An HTTP server in place of those where the clouds' libraries get tokens and keys."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import parse_qs, urlsplit

GOOGLE = "/computeMetadata/v1/"
TOKENS = ("/token", "/identity", "/keys")
KEYS = ("AKIDEXAMPLE", "Zz9secret")


class TokenEndpoint:
    """Answers as the metadata servers of Google, Azure's App Service and AWS's containers.

    A context manager.

    Args:
        token: the token that it gives.
        seconds: how long a token is valid.
        status: the HTTP status of its answers about tokens.
    """

    def __init__(self, token: str, *, seconds: int = 3600, status: int = 200) -> None:
        self.token, self.seconds, self.status = token, seconds, status
        self.asked: list[tuple[str, dict[str, list[str]], dict[str, str]]] = []
        """The requests for tokens: path, parameters, headers."""
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                endpoint._answer(self)

            def log_message(self, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    def __enter__(self) -> TokenEndpoint:
        Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def environ(self) -> dict[str, str]:
        """The variables that lead the libraries here, and to no file of this user."""
        place = f"127.0.0.1:{self._server.server_port}"
        return {
            "GCE_METADATA_HOST": place,
            "GCE_METADATA_IP": place,
            "IDENTITY_ENDPOINT": f"http://{place}/identity",
            "IDENTITY_HEADER": "ours",
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"http://{place}/keys",
            **no_files(),
        }

    def _answer(self, handler: BaseHTTPRequestHandler) -> None:
        path, query = urlsplit(handler.path)[2:4]
        status, body = 200, b"shop"
        if path.endswith(TOKENS):
            self.asked.append((path, parse_qs(query), dict(handler.headers)))
            status, body = self.status, json.dumps(self._token_of(path)).encode()
        elif path.endswith("/default/"):
            body = json.dumps({"email": "reader@shop.iam.gserviceaccount.com"}).encode()
        elif path.endswith("universe-domain"):
            body = b"googleapis.com"
        handler.send_response(status)
        handler.send_header("Metadata-Flavor", "Google")
        handler.send_header("Content-Type", "application/json" if b"{" in body else "text/plain")
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    def _token_of(self, path: str) -> dict[str, object]:
        if self.status != 200:
            return {"error": "denied", "message": "no such identity"}
        if path.startswith(GOOGLE):
            return {"access_token": self.token, "expires_in": self.seconds, "token_type": "Bearer"}
        if path == "/keys":
            expires = datetime.now(UTC) + timedelta(seconds=self.seconds)
            keys = {"AccessKeyId": KEYS[0], "SecretAccessKey": KEYS[1], "Token": self.token}
            return {**keys, "Expiration": f"{expires:%Y-%m-%dT%H:%M:%SZ}"}
        expires_on = str(int(time.time()) + self.seconds)
        answer = {"access_token": self.token, "expires_on": expires_on, "token_type": "Bearer"}
        return {**answer, "resource": self.asked[-1][1]["resource"][0]}


def no_files() -> dict[str, str]:
    """Return variables by which the libraries find no file of this user."""
    return {
        "AWS_CONFIG_FILE": "/nowhere",
        "AWS_SHARED_CREDENTIALS_FILE": "/nowhere",
        "CLOUDSDK_CONFIG": "/nowhere",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
