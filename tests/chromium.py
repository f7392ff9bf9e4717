"""Chromium through its DevTools protocol over a pipe: JSON messages that end in NUL."""

from __future__ import annotations

import base64
import itertools
import json
import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
]


class Browser:
    def __init__(self, profile: Path, more_flags: Sequence[str] = ()) -> None:
        taken, self._write = os.pipe()
        self._read, given = os.pipe()
        assert CHROMIUM is not None
        command = [CHROMIUM, *FLAGS, *more_flags, f"--user-data-dir={profile}", "about:blank"]
        # It reads from file descriptor 3 and writes to 4.
        self.process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{taken} 4>&{given}', "bash", *command],
            pass_fds=(taken, given),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(taken)
        os.close(given)
        self._numbers = itertools.count(1)
        self._session: dict[str, str] = {}
        self._tab = ""
        self._received = b""
        self.events: list[dict[str, Any]] = []

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        question = {"id": number, "method": method, "params": parameters, **self._session}
        os.write(self._write, json.dumps(question).encode() + b"\0")
        while True:
            message = self._next_message()
            if message.get("id") == number:
                assert "error" not in message, message
                result: dict[str, Any] = message["result"]
                return result
            # Until the page's question is answered, the tab answers nothing.
            assert message["method"] != "Page.javascriptDialogOpening", message["params"]["message"]
            self.events.append(message)

    def _next_message(self) -> dict[str, Any]:
        while b"\0" not in self._received:
            piece = os.read(self._read, 1 << 16)
            assert piece, "Chromium has gone"
            self._received += piece
        one, _, self._received = self._received.partition(b"\0")
        message: dict[str, Any] = json.loads(one)
        return message

    def open(
        self,
        address: str,
        width: int = 1366,
        height: int = 768,
        touch: bool = False,
        dark: bool = False,
    ) -> None:
        """A new tab of this size in place of the one before, once the page in it is complete."""
        self._session, before = {}, self._tab
        self._tab = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=self._tab, flatten=True)["sessionId"]
        self._session = {"sessionId": session}
        for domain in ("Log", "Runtime", "Page"):
            self.call(f"{domain}.enable")
        scale = 2 if touch else 1
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=touch,
        )
        self.call("Emulation.setTouchEmulationEnabled", enabled=touch)
        scheme = "dark" if dark else "light"
        self.call(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": scheme}],
        )
        self.call("Page.navigate", url=address)
        self.wait_for("location.protocol !== 'about:' && document.readyState === 'complete'")
        if before:
            session, self._session = self._session, {}
            self.call("Target.closeTarget", targetId=before)
            self._session = session

    def reload(self) -> None:
        """The page anew, in the same tab: another tab may not see yet what this one stored."""
        self.ask("document.isOld = true")
        self.call("Page.reload")
        self.wait_for("!document.isOld && document.readyState === 'complete'")

    def ask(self, expression: str) -> Any:
        answer = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait_for(self, condition: str) -> None:
        for _ in range(500):
            if self.ask(condition):
                return
            time.sleep(0.05)
        raise AssertionError(f"never came true: {condition}")

    def _place(self, selector: str, x: float, y: float) -> tuple[float, float]:
        """Of a place in an element, given as a share of its width and height."""
        left, top, width, height = self.ask(
            f"(r => [r.x, r.y, r.width, r.height])(document.querySelector({selector!r}).getBoundingClientRect())"
        )
        return left + x * width, top + y * height

    def point_at(self, selector: str, x: float = 0.5, y: float = 0.5) -> None:
        left, top = self._place(selector, x, y)
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=left, y=top)

    def click(self, selector: str, x: float = 0.5, y: float = 0.5) -> None:
        left, top = self._place(selector, x, y)
        for kind in ("mousePressed", "mouseReleased"):
            self.call(
                "Input.dispatchMouseEvent", type=kind, x=left, y=top, button="left", clickCount=1
            )

    def tap(self, selector: str) -> None:
        self.swipe(selector, 0.5, 0.5)

    def swipe(self, selector: str, start: float, end: float) -> None:
        """A finger moves sideways over an element, between two shares of its width."""
        (x0, y0), (x1, _) = self._place(selector, start, 0.5), self._place(selector, end, 0.5)
        self.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x0, "y": y0}])
        for share in (0.25, 0.5, 0.75, 1.0) if x1 != x0 else ():
            point = {"x": x0 + share * (x1 - x0), "y": y0}
            self.call("Input.dispatchTouchEvent", type="touchMove", touchPoints=[point])
        self.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def press(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key)

    def enter(self) -> None:
        """The Enter key, with what it does: submit a form, follow a link."""
        key = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13}
        self.call("Input.dispatchKeyEvent", type="keyDown", text="\r", **key)
        self.call("Input.dispatchKeyEvent", type="keyUp", **key)

    def write(self, text: str) -> None:
        self.call("Input.insertText", text=text)

    def screenshot(self) -> bytes:
        """PNG of what the window shows."""
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])

    def close(self) -> None:
        self._session = {}
        self.call("Browser.close")
        self.process.wait(timeout=20)
        os.close(self._read)
        os.close(self._write)
