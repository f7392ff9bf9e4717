"""Results in a folder of shards, which many workers write: JSON lines or Parquet, on a disk or in
an object store.

part-NAME.jsonl      the results of a chunk of photos
_done/NAME.jsonl     written after it: its photos, one per line, and why a photo was skipped
_regiontalk.json     the options and the model: results of two commands must not be mixed

A shard without its list is ignored and written again, so that no result is lost or duplicated if a
process is killed. Readers such as Spark, pyarrow and Ray ignore names that begin with "_".
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import fs, parquet

from regiontalk.errors import DataError, OutputError, UsageError
from regiontalk.io.files import json_line, output_error, parse_object
from regiontalk.lab.cluster.addresses import SIGN, locate, reason, split

DONE = "_done"
ABOUT = "_regiontalk.json"
PARTIAL = ".partial"
NUMBER = pa.float64()
REGION = pa.struct(
    {"id": pa.int64(), "xyxy": pa.list_(NUMBER), "score": NUMBER, "caption": pa.string()}
    | {"logprob": NUMBER, "confidence": NUMBER}
    | {"name": pa.string(), "name_confidence": NUMBER, "shown": pa.bool_()}
)


@dataclass(frozen=True)
class Shards:
    """The folder at a path or an address; its name ends in .parquet, or JSON lines are written."""

    place: str

    @property
    def suffix(self) -> str:
        folder = split(self.place)[0] if SIGN in self.place else self.place
        return ".parquet" if folder.lower().rstrip("/").endswith(".parquet") else ".jsonl"

    def _system(self) -> tuple[fs.FileSystem, str]:
        return (
            locate(*split(self.place)) if SIGN in self.place else (fs.LocalFileSystem(), self.place)
        )

    def begin(self, run: Mapping[str, Any]) -> set[str]:
        """The photos that earlier runs of the same command have finished. Those that were skipped
        are tried again."""
        with self._explaining():
            system, folder = self._system()
            system.create_dir(f"{folder}/{DONE}", recursive=True)
            self._check_same(system, folder, json_line(run))
            for info in system.get_file_info(fs.FileSelector(folder, recursive=True)):
                if info.base_name.endswith(PARTIAL):  # of a process that was killed
                    system.delete_file(info.path)
            done = set[str]()
            names = set[str]()
            for info in system.get_file_info(fs.FileSelector(f"{folder}/{DONE}")):
                lines = [
                    parse_object(line, info.path)
                    for line in self._read(system, info.path).splitlines()
                ]
                done |= {line["path"] for line in lines if "reason" not in line}
                self._write(
                    system,
                    info.path,
                    b"".join(json_line(line) for line in lines if "reason" not in line),
                )
                names.add(info.base_name.removesuffix(".jsonl"))
            for info in system.get_file_info(fs.FileSelector(folder)):
                if (
                    info.base_name.startswith("part-")
                    and info.base_name[5:].partition(".")[0] not in names
                ):
                    system.delete_file(info.path)
        return done

    def _check_same(self, system: fs.FileSystem, folder: str, run: bytes) -> None:
        about = f"{folder}/{ABOUT}"
        if system.get_file_info(about).type == fs.FileType.File:
            if self._read(system, about) != run:
                raise UsageError(
                    f"{self.place}: has results of another command, model or version",
                    hint="-o FOLDER",
                )
            return
        names = {info.base_name for info in system.get_file_info(fs.FileSelector(folder))}
        if names - {DONE, ABOUT + PARTIAL}:
            raise UsageError(
                f"{self.place}: already exists and was not written by regiontalk",
                hint="-o names another folder",
            )
        self._write(system, about, run)

    def write(
        self,
        photos: Sequence[str],
        results: Sequence[Mapping[str, Any]],
        skipped: Mapping[str, str],
    ) -> None:
        """Writes the results of a chunk of photos; done again, it writes the same files."""
        name = hashlib.sha256("\0".join(photos).encode("utf-8", "surrogateescape")).hexdigest()[:16]
        lines = [{"path": result["path"]} for result in results]
        lines += [{"path": path, "reason": reason} for path, reason in skipped.items()]
        with self._explaining():
            system, folder = self._system()
            if results:
                self._write(system, f"{folder}/part-{name}{self.suffix}", self._encode(results))
            self._write(system, f"{folder}/{DONE}/{name}.jsonl", b"".join(map(json_line, lines)))

    def _encode(self, results: Sequence[Mapping[str, Any]]) -> bytes:
        if self.suffix == ".jsonl":
            return b"".join(map(json_line, results))
        table = pa.Table.from_pylist(list(results))
        if "regions" in table.column_names:  # their type does not depend on what was found
            place = table.column_names.index("regions")
            regions = pa.array([result["regions"] for result in results], pa.list_(REGION))
            table = table.set_column(place, "regions", regions)
        sink = pa.BufferOutputStream()
        parquet.write_table(table, sink)
        return bytes(sink.getvalue())

    def _read(self, system: fs.FileSystem, path: str) -> bytes:
        with system.open_input_stream(path) as stream:
            return bytes(stream.read())

    def _write(self, system: fs.FileSystem, path: str, data: bytes) -> None:
        """Atomic: object stores are so by themselves; on a disk the file is renamed at the end."""
        if not isinstance(system, fs.LocalFileSystem):
            with system.open_output_stream(path, compression=None) as stream:
                stream.write(data)
            return
        partial = Path(path + PARTIAL)
        try:
            partial.write_bytes(data)
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise output_error(self.place, error) from error
        except pa.ArrowException as error:
            raise OutputError(f"{self.place}: cannot be written: {reason(error)}") from error
        except (DataError, json.JSONDecodeError, LookupError) as error:
            raise UsageError(
                f"{self.place}: its lists of finished photos are damaged: {error}"
            ) from error
