"""A headless Chromium, driven over a pipe: enough of its protocol to look at a page and to use it.

Messages are JSON objects that end with a NUL, on descriptors 3 (to the browser) and 4 (from it). No
port is opened and no driver is needed.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_FLAGS = (
    "--headless",
    "--no-sandbox",  # tests run as root, and look at our own pages only
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
# What a page says of itself: errors of its scripts, its console, and what the browser refuses.
_COMPLAINTS = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")


class Page:
    """One tab.

    Attributes:
        complaints: all that the page or the browser had to say.
        requests: the addresses that were asked for.
    """

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        attached = browser.call("Target.attachToTarget", targetId=target, flatten=True)
        self._target, self._session = target, attached["sessionId"]
        self.complaints: list[str] = []
        self.requests: list[str] = []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> Any:
        """Ask for something, and take note of what happens meanwhile."""
        try:
            return self._browser.call(method, self._session, **params)
        finally:
            self._note()

    def open(self, path: Path, width: int, *, dark: bool = False, fragment: str = "") -> None:
        """Open a file in a window of a width, and wait until it is loaded."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.navigate", url=path.as_uri() + fragment)
        self._browser.wait_for("Page.loadEventFired", self._session)
        self._note()

    def run(self, expression: str) -> Any:
        """The value of an expression, as JSON has it."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def middle(self, selector: str) -> tuple[float, float]:
        """Where an element is, after it was scrolled into view."""
        self.run(f"document.querySelector({selector!r}).scrollIntoView({{block: 'center'}})")
        box = self.run(
            f"(({{x, y, width, height}}) => [x + width / 2, y + height / 2])"
            f"(document.querySelector({selector!r}).getBoundingClientRect())"
        )
        return box[0], box[1]

    def point(self, selector: str) -> None:
        """Move the pointer to an element."""
        x, y = self.middle(selector)
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def click(self, selector: str) -> None:
        """Click on an element."""
        x, y = self.middle(selector)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def tap(self, selector: str) -> None:
        """Touch an element shortly."""
        x, y = self.middle(selector)
        self.call("Emulation.setTouchEmulationEnabled", enabled=True)
        self.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
        self.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def press(self, key: str) -> None:
        """Press a key."""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key)

    def screenshot(self) -> bytes:
        """The whole page as PNG."""
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        return base64.b64decode(shot["data"])

    def close(self) -> None:
        """Close the tab."""
        self._browser.call("Target.closeTarget", targetId=self._target)

    def _note(self) -> None:
        for event in self._browser.events(self._session):
            if event["method"] in _COMPLAINTS:
                self.complaints.append(json.dumps(event["params"]))
            elif event["method"] == "Network.requestWillBeSent":
                self.requests.append(event["params"]["request"]["url"])


class Browser:
    """A running browser."""

    def __init__(self, to: int, back: int) -> None:
        self._to, self._back = to, back
        self._number, self._rest = 0, b""
        self._events: deque[dict[str, Any]] = deque()

    def call(self, method: str, session: str = "", **params: Any) -> Any:
        """Send a command and wait for its answer; events that come before it are kept."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            self._events.append(answer)

    def wait_for(self, method: str, session: str) -> None:
        """Wait until an event has happened."""
        while not any(
            event.get("method") == method and event.get("sessionId") == session
            for event in self._events
        ):
            self._events.append(self._receive())

    def events(self, session: str) -> list[dict[str, Any]]:
        """What has happened in a tab since it was last asked."""
        mine = [event for event in self._events if event.get("sessionId") == session]
        self._events = deque(e for e in self._events if e.get("sessionId") != session)
        return mine

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            chunk = os.read(self._back, 1 << 16)
            assert chunk, "the browser has ended"
            self._rest += chunk
        message, _, self._rest = self._rest.partition(b"\0")
        message_object: dict[str, Any] = json.loads(message)
        return message_object


@contextmanager
def chromium(profile: Path) -> Iterator[Browser]:
    """Run Chromium with an empty profile; it is gone afterwards.

    Args:
        profile: a new folder for it.
    """
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    assert program, "chromium is missing (Debian's chromium)"
    to_read, to_write = os.pipe()
    back_read, back_write = os.pipe()
    # The browser has its ends of the pipes as 3 and 4; a shell puts them there, and becomes it.
    command = f'exec "$0" "$@" 3<&{to_read} 4>&{back_write}'
    process = subprocess.Popen(
        ["bash", "-c", command, program, *_FLAGS, f"--user-data-dir={profile}"],
        pass_fds=(to_read, back_write),
        stderr=subprocess.DEVNULL,
    )
    os.close(to_read)
    os.close(back_write)
    try:
        yield Browser(to_write, back_read)
    finally:
        process.kill()
        process.wait()
        os.close(to_write)
        os.close(back_read)
