"""Screenshots of web pages, if the machine has Chromium."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from penstock_testkit.browser import BrowserError, chromium, picture

PAGE = b"<body></body><script>document.body.innerText = localStorage.getItem('word')</script>"


class Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(PAGE)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def _browser() -> None:
    try:
        chromium()
    except BrowserError as error:
        pytest.skip(str(error))


@pytest.mark.usefixtures("_browser")
def test_a_picture_is_taken_once_the_words_appear(url: str) -> None:
    shot = picture(url, size=(320, 200), words=["penstock"], local_storage={"word": "penstock"})
    assert shot.startswith(b"\x89PNG")
    assert [int.from_bytes(shot[at : at + 4]) for at in (16, 20)] == [320, 200]


@pytest.mark.usefixtures("_browser")
def test_a_page_without_the_words_is_an_error(url: str) -> None:
    with pytest.raises(BrowserError, match=r"\['sluice'\], found \"penstock\""):
        picture(url, words=["sluice"], local_storage={"word": "penstock"}, timeout=10)


def test_a_missing_browser_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(BrowserError, match="apt-get install chromium"):
        chromium()
