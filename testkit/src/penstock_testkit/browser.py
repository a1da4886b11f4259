"""Pictures of web pages, taken by headless Chromium."""

from __future__ import annotations

import base64
import itertools
import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from websockets.sync.client import connect

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = (
    "--headless=new",
    "--remote-debugging-port=0",
    # Chromium's own sandbox rejects root, and the page is ours.
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--no-first-run",
)


class BrowserError(RuntimeError):
    """There is no browser, or the page did not load."""


def chromium() -> str:
    """Return the path of Chromium.

    Raises:
        BrowserError: Chromium is not installed.
    """
    for program in PROGRAMS:
        if path := shutil.which(program):
            return path
    raise BrowserError(
        f"found none of {', '.join(PROGRAMS)} on PATH; "
        "on Debian and Ubuntu: apt-get install chromium fonts-dejavu-core"
    )


def picture(
    url: str,
    *,
    size: tuple[int, int] = (1600, 900),
    dark: bool = False,
    words: Sequence[str] = (),
    local_storage: Mapping[str, Any] | None = None,
    timeout: float = 60,
) -> bytes:
    """Return a PNG of a page, taken when it has stopped changing.

    Args:
        url: the page's URL.
        size: width and height, in pixels.
        dark: prefer dark colours, as a reader's system may.
        words: texts that must appear.
        local_storage: JSON values for the page's local storage, by key.
        timeout: seconds.

    Raises:
        BrowserError: there is no Chromium, or some of `words` did not appear in time.
    """
    with _page(timeout) as ask:
        ask("Page.enable")
        width, height = size
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        ask("Emulation.setDeviceMetricsOverride", **metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        ask("Emulation.setEmulatedMedia", features=[scheme])
        lines = (
            f"localStorage.setItem({json.dumps(key)}, {json.dumps(json.dumps(value))});"
            for key, value in (local_storage or {}).items()
        )
        ask("Page.addScriptToEvaluateOnNewDocument", source="".join(lines))
        ask("Page.navigate", url=url)
        deadline = time.monotonic() + timeout
        before = b""
        while time.monotonic() < deadline:
            time.sleep(1)
            result = ask("Runtime.evaluate", expression="document.body.innerText")
            text = str(result["result"].get("value", ""))
            missing = [word for word in words if word not in text]
            shot = base64.b64decode(ask("Page.captureScreenshot", format="png")["data"])
            if not missing and shot == before:
                return shot
            before = shot
    raise BrowserError(f"{url}: after {timeout:g} s {missing or 'it still changes'}, found {text}")


@contextmanager
def _page(timeout: float) -> Iterator[Callable[..., dict[str, Any]]]:
    """Open an empty page; yield a function that sends a DevTools command and returns its result."""
    # Chromium's last processes may still be writing when the folder is removed.
    with tempfile.TemporaryDirectory(
        prefix="penstock-chromium-", ignore_cleanup_errors=True
    ) as profile:
        browser = subprocess.Popen(
            [chromium(), *OPTIONS, f"--user-data-dir={profile}", "about:blank"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            port = _port_of(Path(profile) / "DevToolsActivePort", timeout)
            request = Request(f"http://127.0.0.1:{port}/json/new?about:blank", method="PUT")
            with urlopen(request, timeout=timeout) as answer:
                page = json.load(answer)["webSocketDebuggerUrl"]
            with connect(page, max_size=None) as link:
                numbers = itertools.count()

                def ask(method: str, **parameters: Any) -> dict[str, Any]:
                    number = next(numbers)
                    link.send(json.dumps({"id": number, "method": method, "params": parameters}))
                    while True:
                        # Events may arrive in between.
                        reply = json.loads(link.recv(timeout))
                        if reply.get("id") == number:
                            break
                    if "error" in reply:
                        raise BrowserError(f"{method}: {reply['error']}")
                    result: dict[str, Any] = reply["result"]
                    return result

                yield ask
        finally:
            browser.terminate()
            browser.wait(30)


def _port_of(file: Path, timeout: float) -> int:
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if file.exists() and (lines := file.read_text().splitlines()):
            return int(lines[0])
        time.sleep(0.1)
    raise BrowserError(f"Chromium did not start in {timeout:g} s")
