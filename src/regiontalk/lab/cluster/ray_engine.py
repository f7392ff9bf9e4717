"""Processes chunks of photos on a Ray cluster; each worker process loads its own model.

Ray Data limits how many chunks wait, restarts workers that have died, and gives their chunks to
others. So the work on a chunk must be idempotent.
"""

from __future__ import annotations

import logging
import os
import pickle
import shutil
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import ray
import ray.data

from regiontalk.errors import ClusterProblem, RegionTalkError
from regiontalk.model import Model

Chunk = TypeVar("Chunk")
Result = TypeVar("Result")

# below 1: workers on every core would leave none for Ray's own tasks, and it would wait forever
WORKER_CORES = 0.9
OBJECT_STORE = (
    256 << 20
)  # bytes of shared memory on this machine: only paths and counts go through it
OWN_FILES = (
    16 << 20
)  # bytes that Ray's sockets, ports and logs may take in the folder for temporary files
MAX_SECONDS_TO_ANSWER = 5.0  # seconds for the head of a cluster to answer


class Worker:
    """A process with a model."""

    def __init__(self, load: Callable[[], Model], work: Callable[[Model, Any], Any]) -> None:
        os.environ.setdefault("REGIONTALK_THREADS", "1")  # each worker has one core
        self.work = work
        self.failure = None
        try:
            self.model = load()
        except (
            RegionTalkError
        ) as error:  # raised by the first chunk: raised here, Ray would retry forever
            self.failure = error

    def __call__(self, row: dict[str, bytes]) -> dict[str, bytes]:
        try:
            done = self.failure or self.work(self.model, pickle.loads(row["chunk"]))
        except RegionTalkError as error:
            done = error
        return {"done": pickle.dumps(done)}


def run(
    load: Callable[[], Model],
    work: Callable[[Model, Chunk], Result],
    chunks: Sequence[Chunk],
    workers: int,
    address: str | None,
) -> Iterator[Result]:
    """The result of `work` for each chunk, as soon as it is done. Errors that are not about a
    single photo end it."""
    if not chunks:
        return
    with connected(workers, address):
        rows: Any = [{"chunk": pickle.dumps(chunk)} for chunk in chunks]
        waiting = ray.data.from_items(rows, override_num_blocks=len(rows))
        count = min(workers, len(rows))
        given = {"load": load, "work": work}
        done = waiting.map(
            Worker, fn_constructor_kwargs=given, concurrency=count, num_cpus=WORKER_CORES
        )
        try:
            for row in done.iter_rows():
                result = pickle.loads(row["done"])
                if isinstance(result, RegionTalkError):
                    raise result
                yield result
        except (ray.exceptions.RayError, ConnectionError) as error:
            reason = str(error).strip().splitlines()[-1]
            raise ClusterProblem(
                f"the cluster failed: {reason}", hint="run the same command again to continue"
            ) from error


@contextmanager
def connected(workers: int, address: str | None) -> Iterator[None]:
    """Connects to the cluster at an address, or starts one on this machine, for the duration of the
    block."""
    if address is None:
        _check_room()
    else:
        _check_address(address)
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    os.environ.setdefault(
        "RAY_worker_niceness", "0"
    )  # Ray would give its workers the lowest priority
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # no usage data is sent
    for name in ("ray", "ray.data"):
        logging.getLogger(name).setLevel(logging.ERROR)
    quiet: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
    local = {
        "num_cpus": workers + 1,
        "object_store_memory": OBJECT_STORE,
        "_node_ip_address": "127.0.0.1",
    }
    try:
        with _no_stderr():
            ray.init(
                address or "local",
                **quiet,
                **({} if address else {"include_dashboard": False, **local}),
            )
    except Exception as error:  # if a node does not start, Ray raises a plain Exception
        hint = "give --address HOST:6379 of a running cluster, or no --address for this machine"
        raise ClusterProblem(f"no Ray cluster: {str(error).splitlines()[0]}", hint=hint) from error
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    try:
        yield
    finally:
        ray.shutdown()


@contextmanager
def _no_stderr() -> Iterator[None]:
    """Sets the log level of Ray's native part; its errors are raised anyway."""
    before = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)
        os.close(nowhere)


def _check_room() -> None:
    """Raises an error if there is no space for Ray's own files: it would wait for half a minute and
    give no reason."""
    place = Path(
        os.environ.get("RAY_TMPDIR") or os.environ.get("TMPDIR") or "/tmp"
    )  # as Ray chooses it
    if place.is_dir() and shutil.disk_usage(place).free < OWN_FILES:
        hint = f"make {OWN_FILES >> 20} MiB free there, or let RAY_TMPDIR name a folder elsewhere"
        raise ClusterProblem(f"{place}: no space left on device for Ray's own files", hint=hint)


def _check_address(address: str) -> None:
    """Checked first, because Ray waits for a minute and then ends the process."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if address == "auto":
        return
    try:
        socket.create_connection((host, int(port)), MAX_SECONDS_TO_ANSWER).close()
    except (OSError, ValueError, OverflowError) as error:
        hint = "--address HOST:6379, or auto on a machine of the cluster"
        raise ClusterProblem(f"{address}: no Ray cluster there: {error}", hint=hint) from error
