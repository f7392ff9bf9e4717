"""Settings of the server."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from regiontalk.captioners.loading import CaptionerAddress

CORRECTIONS = "corrections"
"""The folder of corrected regions, in the folder of the index."""
LOCAL_HOSTS = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True)
class Settings:
    """`folder`: the photos to search; None: no search. `model`: a model folder, or a captioner;
    None: the package's own."""

    folder: Path | None = None
    place: Path | None = None
    """Where the index is; None: in the folder of the photos."""
    store: str | None = None
    """The database that holds the index instead; other processes update it."""
    model: Path | CaptionerAddress | None = None
    words_book: Path | bool = True
    """The word book; True: the user's own, False: no taught words."""
    host: str = "127.0.0.1"
    port: int = 8765
    allowed_hosts: tuple[str, ...] = ()
    """Host names that requests may use, in addition to `LOCAL_HOSTS` and `host`."""
    workers: int = 2
    """Processes for photos: with two, a difficult photo does not block all other requests."""
    megapixels: float = 50.0
    megabytes: float = 25.0
    seconds: float = 20.0
    """Time limit for a task, and for receiving the body of a request."""

    @property
    def updates_index(self) -> bool:
        return self.folder is not None and self.store is None

    @property
    def hosts(self) -> frozenset[str]:
        """Lower case, without ports."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return frozenset(name.lower() for name in (*LOCAL_HOSTS, host, *self.allowed_hosts))
