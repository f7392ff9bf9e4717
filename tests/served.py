"""A running `regiontalk serve`, and photos dropped on its page in Chromium."""

from __future__ import annotations

import base64
import json
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from chromium import Browser
from http_server import serve_command


@contextmanager
def serving(*arguments: str) -> Iterator[str]:
    """The address of a server; its index is complete."""
    command = serve_command(*arguments, "-j", "1")
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            address = server.stderr.readline().split()[0].rstrip("/")
            while not _is_ready(json.load(urllib.request.urlopen(f"{address}/api/health"))):
                time.sleep(0.2)
            yield address
        finally:
            server.terminate()
            server.communicate()


def _is_ready(health: dict[str, Any]) -> bool:
    return health["status"] == "ok" and not health["indexing"]


def drop(browser: Browser, name: str, data: bytes, how: str = "drop") -> None:
    """As when a file is dropped on the page or pasted into it."""
    event = {
        "drop": "new DragEvent('drop', {bubbles: true, cancelable: true, dataTransfer: given})",
        "paste": "new ClipboardEvent('paste', {bubbles: true, cancelable: true, clipboardData: given})",
    }[how]
    browser.ask(
        "(() => { const given = new DataTransfer(), "
        f"bytes = Uint8Array.from(atob('{base64.b64encode(data).decode()}'), c => c.charCodeAt(0)); "
        f"given.items.add(new File([bytes], {json.dumps(name)}, {{type: 'image/jpeg'}})); "
        f"document.body.dispatchEvent({event}); }})()"
    )
