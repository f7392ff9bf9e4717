"""The tables of an index in PostgreSQL, connections to them, and their errors.

Everything is in the schema `regiontalk` of a database; pgvector provides the type of the vectors
and an index over them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from pgvector.psycopg import register_vector
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict

from regiontalk.errors import IndexProblem
from regiontalk.search.store import IndexedModel

SCHEMA = "regiontalk"
VECTOR_INDEX = "regions_near"  # pgvector's index
LOCK = 0x52547831  # held while tables or the index of vectors are made
CONNECT_TIMEOUT = 10  # seconds for the server to answer a connection

Connection = psycopg.Connection[Any]

MIGRATIONS = (
    """
    CREATE SCHEMA regiontalk;
    CREATE TEXT SEARCH DICTIONARY regiontalk.stems (TEMPLATE = snowball, Language = porter);
    CREATE TEXT SEARCH CONFIGURATION regiontalk.captions (COPY = pg_catalog.simple);
    ALTER TEXT SEARCH CONFIGURATION regiontalk.captions
        ALTER MAPPING REPLACE pg_catalog.simple WITH regiontalk.stems;
    CREATE TABLE regiontalk.about (
        format integer NOT NULL, model text NOT NULL, fingerprint text NOT NULL,
        regions integer NOT NULL, size integer NOT NULL, state integer NOT NULL);
    CREATE TABLE regiontalk.photos (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, path bytea UNIQUE NOT NULL,
        bytes bigint NOT NULL, modified bigint NOT NULL, digest bytea NOT NULL,
        key text UNIQUE NOT NULL, taken text COLLATE "C" NOT NULL, width integer NOT NULL,
        height integer NOT NULL, words tsvector NOT NULL, state bytea NOT NULL);
    CREATE INDEX ON regiontalk.photos (taken, id);
    CREATE INDEX ON regiontalk.photos USING gin (words);
    CREATE TABLE regiontalk.regions (
        photo bigint NOT NULL REFERENCES regiontalk.photos ON DELETE CASCADE,
        number smallint NOT NULL, x0 float8 NOT NULL, y0 float8 NOT NULL, x1 float8 NOT NULL,
        y1 float8 NOT NULL, score float8 NOT NULL, caption text NOT NULL, logprob float8,
        confidence float8, raw_score float8 NOT NULL,
        vector vector({size}) NOT NULL,
        PRIMARY KEY (photo, number));
    ALTER TABLE regiontalk.regions ALTER vector SET STORAGE PLAIN
    """,
)
"""Migrations from one format to the next; the format of an index is the number of migrations
applied. Vectors are kept in their rows (STORAGE PLAIN): reading them from elsewhere takes twice as
long."""


def name_of(address: str) -> str:
    """An address without its password, for messages."""
    try:
        parts = conninfo_to_dict(address)
    except psycopg.Error:
        return address.partition(":")[0]
    user = parts.get("user")
    host = parts.get("host") or ""
    place = f"{host}:{parts['port']}" if parts.get("port") else host
    return f"postgresql://{f'{user}@' if user else ''}{place}/{parts.get('dbname') or ''}"


@contextmanager
def explaining(name: str) -> Iterator[None]:
    """Turns errors of the database into `IndexProblem` with a hint."""
    try:
        yield
    except (errors.UndefinedTable, errors.InvalidSchemaName) as error:
        raise missing(name) from error
    except (errors.DiskFull, errors.IoError) as error:
        raise IndexProblem(
            f"{name}: cannot be written: {_line(error)}", hint="free space on the server"
        ) from error
    except (errors.InsufficientPrivilege, errors.ReadOnlySqlTransaction) as error:
        raise IndexProblem(
            f"{name}: not allowed: {_line(error)}", hint="ask the server's administrator"
        ) from error
    except errors.OperationalError as error:
        hint = "is the address right, and does the server run?"
        raise IndexProblem(f"{name}: no connection: {_line(error)}", hint=hint) from error
    except (errors.ProgrammingError, errors.DataError) as error:  # tables of another program
        raise damaged(name, _line(error)) from error
    except psycopg.Error as error:
        raise IndexProblem(f"{name}: {_line(error)}") from error


def damaged(name: str, reason: str) -> IndexProblem:
    return IndexProblem(
        f"{name}: the index is damaged, or of another program: {reason}",
        hint=f"regiontalk index FOLDER --store {name} --rebuild makes a new one",
    )


def _line(error: psycopg.Error) -> str:
    return " ".join((error.diag.message_primary or str(error)).split())


def missing(name: str) -> IndexProblem:
    return IndexProblem(
        f"{name}: no index there", hint=f"regiontalk index FOLDER --store {name} makes one"
    )


def connect(address: str) -> Connection:
    wait = conninfo_to_dict(address).get("connect_timeout", CONNECT_TIMEOUT)
    connection: Connection = psycopg.connect(
        address, autocommit=True, application_name="regiontalk", connect_timeout=wait
    )
    # behind it stays what the database has: pgvector may be anywhere
    connection.execute(
        f"SELECT set_config('search_path', '{SCHEMA}, ' || current_setting('search_path'), false)"
    )
    return connection


def prepare(connection: Connection, name: str, model: IndexedModel | None) -> IndexedModel:
    """The model of the index; with `model`, the index is made if there is none, or migrated."""
    with connection.transaction():
        if model is not None:
            connection.execute(
                "SELECT pg_advisory_xact_lock(%s)", [LOCK]
            )  # one of many writers makes it
        there = connection.execute("SELECT to_regclass('regiontalk.about') IS NOT NULL").fetchone()
        formats = (
            connection.execute("SELECT format FROM about").fetchall()
            if there == (True,)
            else [(0,)]
        )
        if len(formats) != 1 or type(formats[0][0]) is not int:
            raise damaged(name, "its format is not known")
        ((version,),) = formats
        if version > len(MIGRATIONS):
            raise IndexProblem(
                f"{name}: an index of format {version}; this program reads {len(MIGRATIONS)}",
                hint="pip install --upgrade regiontalk",
            )
        if model is not None:
            _migrate(connection, name, version, model)
        elif version < len(MIGRATIONS):
            raise missing(name)
    register_vector(connection)
    return read_model(connection)


def read_model(connection: Connection) -> IndexedModel:
    row = connection.execute(
        "SELECT model, fingerprint, regions, size, state FROM about"
    ).fetchone()
    assert row is not None
    return IndexedModel(*row)


def _migrate(connection: Connection, name: str, version: int, model: IndexedModel) -> None:
    if version == 0:
        _add_pgvector(connection, name)
    for script in MIGRATIONS[version:]:
        connection.execute(script.format(size=model.size))
    if version == 0:
        values = (
            len(MIGRATIONS),
            model.name,
            model.fingerprint,
            model.regions,
            model.size,
            model.state,
        )
        connection.execute("INSERT INTO about VALUES (%s, %s, %s, %s, %s, %s)", values)
    elif version < len(MIGRATIONS):
        connection.execute("UPDATE about SET format = %s", [len(MIGRATIONS)])


def _add_pgvector(connection: Connection, name: str) -> None:
    if not _one(connection, "SELECT count(*) FROM pg_available_extensions WHERE name = 'vector'"):
        raise IndexProblem(
            f"{name}: the server has no pgvector", hint="install pgvector on the server"
        )
    try:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
    except errors.InsufficientPrivilege as error:
        hint = "an administrator must run once: CREATE EXTENSION vector"
        raise IndexProblem(
            f"{name}: pgvector is not enabled in this database", hint=hint
        ) from error


def drop(connection: Connection) -> None:
    """Drops all tables of an index."""
    connection.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")


def has_near(connection: Connection) -> bool:
    """Whether there is a complete index over the vectors."""
    return bool(
        _one(
            connection,
            f"SELECT count(*) FROM pg_index WHERE indexrelid = to_regclass('{VECTOR_INDEX}') AND "
            "indisvalid",
        )
    )


def make_near(connection: Connection) -> None:
    """Builds an index over the vectors while others read and write. Does nothing if another process
    is building it."""
    if not _one(connection, "SELECT pg_try_advisory_lock(%s)::int", LOCK):
        return
    try:
        if not has_near(connection):
            # It may be there, unfinished.
            connection.execute(f"DROP INDEX IF EXISTS {SCHEMA}.{VECTOR_INDEX}")
            connection.execute(
                f"CREATE INDEX CONCURRENTLY {VECTOR_INDEX} ON regions "
                "USING hnsw (vector vector_ip_ops)"
            )
    finally:
        if not connection.closed:
            connection.execute("SELECT pg_advisory_unlock(%s)", [LOCK])


def _one(connection: Connection, query: str, *values: object) -> Any:
    row = connection.execute(query, values).fetchone()
    assert row is not None
    return row[0]
