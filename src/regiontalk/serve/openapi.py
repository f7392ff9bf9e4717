"""The OpenAPI description of the calls."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import regiontalk
from regiontalk.serve.calls import ID, Call
from regiontalk.serve.corrections import LONGEST_CAPTION, MOST_REGIONS
from regiontalk.serve.inputs import Schema

NUMBER = {"type": "number"}
INTEGER = {"type": "integer"}
TEXT = {"type": "string"}
BOOLEAN = {"type": "boolean"}
BOX = {
    "type": "array",
    "items": NUMBER,
    "minItems": 4,
    "maxItems": 4,
    "description": "left, top, right, bottom",
}


def _array(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _object(needed: Mapping[str, Schema], **more: Schema) -> Schema:
    return {"type": "object", "properties": {**needed, **more}, "required": list(needed)}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


READ_AS = {"type": "object", "additionalProperties": TEXT}
WORDS = {
    "unknown": _array(TEXT),
    "corrected": {**READ_AS, "description": "A typing mistake, and the word instead."},
    "synonyms": {**READ_AS, "description": "A word, and the one that it was read as."},
    "notes": {**_array(TEXT), "description": "How the words were read, in sentences."},
}
SIZE = {"width": INTEGER, "height": INTEGER}
ABOUT = {"schema": {"const": "regiontalk/1"}, "path": TEXT, **SIZE, "model": TEXT}
SENTENCE = {"sentence": TEXT, "logprob": NUMBER, "sure": BOOLEAN}
INDEXED = {"id": _or_null(TEXT), "path": TEXT, **SIZE}
WORD = _object({"word": TEXT, "score": NUMBER, "region": _or_null(INTEGER)})
SEGMENT = {
    "text": TEXT,
    "words": _array(INTEGER),
    "xyxy": BOX,
    "score": NUMBER,
    "word_scores": _array(NUMBER),
}
HIT = {
    **INDEXED,
    "score": NUMBER,
    "likely": BOOLEAN,
    "words": _array(WORD),
    "regions": _array(_object({"xyxy": BOX, "caption": TEXT, "sure": BOOLEAN})),
}
INDEXING = _object(
    {"done": INTEGER, "total": INTEGER, "skipped": INTEGER, "seconds_left": _or_null(NUMBER)}
)
REPLACED = "Somebody corrected an earlier photo of this name; that correction is kept."
KNOWN: dict[str, Schema] = {
    "word": TEXT,
    "examples": INTEGER,
    "others": INTEGER,
    "recognised": _or_null(NUMBER),
    "confusions": _array(_object({"photo": TEXT, "xyxy": BOX, "word": TEXT})),
    "weak": BOOLEAN,
}
UNSURE: dict[str, Schema] = {
    "id": TEXT,
    "path": TEXT,
    **SIZE,
    "xyxy": BOX,
    "word": TEXT,
    "probability": NUMBER,
}
MARKED = {"xyxy": BOX, "caption": {"type": "string", "minLength": 1, "maxLength": LONGEST_CAPTION}}
SCHEMAS: dict[str, Schema] = {
    "Error": _object({"error": TEXT, "hint": _or_null(TEXT)}),
    "Health": _object(
        {
            **{
                "status": {"enum": ["starting", "ok"]},
                "version": TEXT,
                "model": _or_null(TEXT),
                "terms": _or_null(TEXT),
                "folder": _or_null(TEXT),
                "photos": INTEGER,
            },
            **{
                "indexing": _or_null(INDEXING),
                "updates": INTEGER,
                "problem": _or_null(TEXT),
                "threshold": NUMBER,
                "confidence": NUMBER,
            },
        }
    ),
    "Region": _object(
        {"id": INTEGER, "xyxy": BOX, "caption": TEXT},
        score=NUMBER,
        logprob=NUMBER,
        confidence=NUMBER,
        shown=BOOLEAN,
        sure=BOOLEAN,
        taught=BOOLEAN,
    ),
    "Regions": _object({**ABOUT, "regions": _array(_ref("Region"))}),
    "Description": _object({**ABOUT, **SENTENCE, "alternatives": _array(_object(SENTENCE))}),
    "Alignment": _object(
        {
            "path": TEXT,
            "sentence": TEXT,
            "segments": _array(_object(SEGMENT)),
            "unknown": _array(TEXT),
        }
    ),
    "Finding": _object(
        {
            **{**ABOUT, "phrase": TEXT, "here": BOOLEAN, "regions": _array(_ref("Region"))},
            **{"closest": NUMBER, **WORDS},
        }
    ),
    "Hits": _object(
        {
            "schema": {"const": "regiontalk/1"},
            "query": TEXT,
            "hits": _array(_object(HIT)),
            "searched": INTEGER,
            **WORDS,
            "closest": _or_null(NUMBER),
            "none_fit": BOOLEAN,
        }
    ),
    "Photos": _object({"total": INTEGER, "photos": _array(_ref("Listed"))}),
    "Listed": _object({**INDEXED, "taken": TEXT, "captions": _array(TEXT), "sure": BOOLEAN}),
    "Photo": _object(
        {
            **INDEXED,
            "regions": _array(_ref("Region")),
            "corrected": BOOLEAN,
            "replaced": {**BOOLEAN, "description": REPLACED},
        },
        taken=TEXT,
        time={**NUMBER, "description": "Of a frame of a video: seconds from its beginning."},
    ),
    "Captions": _object({"captions": _array(_object({"caption": TEXT, "photos": INTEGER}))}),
    "Lesson": _object({"added": INTEGER, **KNOWN}, skipped=_array(TEXT)),
    "Words": _object({"words": _array(_object(KNOWN))}),
    "Unsure": _object({"regions": _array(_object(UNSURE))}),
    "Marked": {**_object(MARKED), "additionalProperties": False},
    "Correction": {
        **_object({"regions": {**_array(_ref("Marked")), "maxItems": MOST_REGIONS}}),
        "additionalProperties": False,
    },
}


def describe(calls: Iterable[Call]) -> dict[str, Any]:
    paths: dict[str, Any] = {}
    for call in calls:
        paths.setdefault(call.path, {})[call.method.lower()] = _operation(call)
    return {
        "openapi": "3.1.0",
        "info": {"title": "RegionTalk", "version": regiontalk.__version__},
        "paths": paths,
        "components": {"schemas": SCHEMAS},
    }


def _operation(call: Call) -> dict[str, Any]:
    parts: list[tuple[str, str, Schema]] = [
        ("path", name, {**ID, "required": True}) for name in re.findall(r"{(\w+)}", call.path)
    ]
    parts += [("query", name, schema) for name, schema in call.query.items()]
    operation: dict[str, Any] = {
        "summary": call.does,
        "operationId": f"{call.method.lower()}_"
        + "_".join(re.findall(r"\w+", call.path.removeprefix("/api/"))),
        "parameters": [_parameter(*part) for part in parts],
        "responses": {
            "200": {"description": "Done.", "content": _answer(call.answer)},
            "4XX": {"description": "An error in the request.", "content": _answer("Error")},
            "5XX": {
                "description": "An error of the server, or the server is busy.",
                "content": _answer("Error"),
            },
        },
    }
    if call.form is not None:
        operation["requestBody"] = {
            "required": True,
            "content": {"multipart/form-data": {"schema": _form(call.form)}},
        }
    elif call.method == "PUT":
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": _ref("Correction")}},
        }
    return operation


def _answer(name: str) -> Schema:
    return {name: {"schema": {}}} if "/" in name else {"application/json": {"schema": _ref(name)}}


def _parameter(place: str, name: str, schema: Schema) -> dict[str, Any]:
    return {
        "in": place,
        "name": name,
        "required": bool(schema.get("required")),
        "schema": _plain(schema),
    }


def _form(fields: Mapping[str, Schema]) -> Schema:
    file = {"type": "string", "format": "binary", "description": "A photo of a supported type."}
    needed = [name for name, schema in fields.items() if schema.get("required")]
    properties = {
        "photo": file,
        "id": _plain(ID),
        **{name: _plain(schema) for name, schema in fields.items()},
    }
    either = [{"required": ["photo"]}, {"required": ["id"]}]
    return {
        "type": "object",
        "properties": properties,
        "required": needed,
        "oneOf": either,
        "additionalProperties": False,
    }


def _plain(schema: Schema) -> Schema:
    """JSON Schema lists required values elsewhere."""
    return {name: value for name, value in schema.items() if name != "required"}
