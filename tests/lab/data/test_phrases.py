"""Phrases on boxes: by entity chains, by objects; whole data sets with parses made by hand."""

from __future__ import annotations

import json

import pytest

from regiontalk.errors import DataError, MissingExtra, UsageError
from regiontalk.io.files import json_line
from regiontalk.lab.data import parse_tree, phrases
from regiontalk.lab.data.phrases import add_phrases, place_phrases, sentences_of
from regiontalk.lab.data.records import Dataset, Record, TrueRegion

SMALL, MIDDLE, LARGE = (0.0, 0.0, 10.0, 10.0), (0.0, 0.0, 20.0, 10.0), (10.0, 10.0, 50.0, 50.0)
A_DOG = "a DT det dog\nbrown JJ amod dog\ndog NN nsubj sleeps\nsleeps VBZ ROOT sleeps"


def photo(*objects, **more) -> Record:
    """A photo with objects: pairs of label and box."""
    regions = tuple(TrueRegion(box, label, "object") for label, box in objects)
    return Record("a.jpg", 60, 60, sentences=("A brown dog sleeps.",), regions=regions, more=more)


def texts(regions) -> list[tuple[str, tuple[float, ...]]]:
    assert all(region.type == "derived" for region in regions)
    return [(region.phrase, region.xyxy) for region in regions]


def test_the_only_box_of_a_class_is_meant(parse):
    derived = place_phrases(photo(("dog", SMALL), ("cat", LARGE)), [parse(A_DOG)])
    assert texts(derived) == [("a dog", SMALL), ("a brown dog", SMALL)]
    assert derived[0].more == {"object": "dog"}


def test_of_several_boxes_one_that_is_much_larger_is_meant(parse):
    assert {
        box
        for _, box in texts(place_phrases(photo(("dog", SMALL), ("dog", LARGE)), [parse(A_DOG)]))
    } == {LARGE}
    assert place_phrases(photo(("dog", SMALL), ("dog", MIDDLE)), [parse(A_DOG)]) == []


def test_names_of_two_classes_count_the_boxes_of_both(parse):
    bike = [parse("a DT det bike\nbike NN ROOT bike")]
    assert texts(place_phrases(photo(("motorcycle", SMALL)), bike)) == [("a bike", SMALL)]
    assert place_phrases(photo(("motorcycle", SMALL), ("bicycle", MIDDLE)), bike) == []


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ("two CD nummod dogs\ndogs NNS ROOT dogs", "several"),
        (
            "a DT det dog\ndog NN ROOT dog\nand CC cc dog\nanother DT det puppy\npuppy NN conj dog",
            "a second one",
        ),
        ("a DT det cat\ncat NN ROOT cat", "not there"),
        ("a DT det baby\nbaby NN ROOT baby", "of a dog, perhaps"),
        (
            "a DT det couple\ncouple NN ROOT couple\nof IN prep couple\nboots NNS pobj of",
            "no people",
        ),
        ("baseball NN ROOT baseball", "the game"),
    ],
)
def test_where_it_is_not_clear_nothing_is_placed(parse, lines, why):
    things = photo(("dog", LARGE), ("person", SMALL), ("sports ball", MIDDLE))
    assert place_phrases(things, [parse(lines)]) == [], why


def test_a_plural_in_another_sentence_forbids_the_singular(parse):
    assert place_phrases(photo(("dog", LARGE)), [parse(A_DOG), parse("dogs NNS ROOT dogs")]) == []


def test_pairs_are_one_thing(parse):
    assert texts(
        place_phrases(photo(("skis", SMALL)), [parse("the DT det skis\nskis NNS ROOT skis")])
    ) == [("the skis", SMALL)]


def test_a_missing_article_is_added_to_what_can_be_counted(parse):
    lines = "man NN ROOT man\non IN prep man\ngrass NN pobj on"
    assert texts(place_phrases(photo(("person", SMALL)), [parse(lines)])) == [
        ("a man", SMALL),
        ("a man on grass", SMALL),
    ]


def test_labels_of_ones_own_count(parse):
    record = Record("a.jpg", 60, 60, regions=(TrueRegion(SMALL, "Lighthouse"),))
    lines = "a DT det lighthouse\nwhite JJ amod lighthouse\nlighthouse NN ROOT lighthouse"
    assert texts(place_phrases(record, [parse(lines)])) == [
        ("a lighthouse", SMALL),
        ("a white lighthouse", SMALL),
    ]


def test_a_phrase_is_placed_once(parse):
    record = photo(("dog", SMALL))
    record = Record(
        "a.jpg", 60, 60, regions=(*record.regions, TrueRegion(SMALL, "A dog", "phrase"))
    )
    assert texts(place_phrases(record, [parse(A_DOG), parse(A_DOG)])) == [("a brown dog", SMALL)]


def entities(*regions: TrueRegion) -> Record:
    return Record("a.jpg", 60, 60, regions=regions, entity_sentences=("A brown dog sleeps",))


def chained(phrase: str, boxes=(), sentences=(0,)) -> TrueRegion:
    return TrueRegion(SMALL, phrase, "animals", tuple(boxes), "7", tuple(sentences))


def test_chains_place_shorter_and_longer_phrases_on_their_own_box(parse):
    lines = A_DOG + "\non IN prep sleeps\na DT det bed\nbed NN pobj on"
    derived = place_phrases(entities(chained("A brown dog")), [parse(lines)])
    assert texts(derived) == [("a dog", SMALL), ("a brown dog sleeping on a bed", SMALL)]
    assert (derived[0].entity, derived[0].sentences) == ("7", ())


def test_a_chains_plural_keeps_its_boxes_and_a_singular_with_several_is_left_out(parse):
    dogs = "two CD nummod dogs\nwet JJ amod dogs\ndogs NNS ROOT dogs"
    derived = place_phrases(entities(chained("two wet dogs", [SMALL, LARGE])), [parse(dogs)])
    assert [(region.phrase, region.boxes_xyxy) for region in derived] == [
        ("two dogs", (SMALL, LARGE))
    ]
    assert place_phrases(entities(chained("A brown dog", [SMALL, LARGE])), [parse(A_DOG)]) == []


def test_words_that_stand_twice_or_not_at_all_are_left_out(parse):
    twice = "a DT det dog\ndog NN ROOT dog\nand CC cc dog\na DT det dog\ndog NN conj dog"
    assert place_phrases(entities(chained("a dog")), [parse(twice)]) == []
    assert place_phrases(entities(chained("a red cat")), [parse(A_DOG)]) == []


def test_broken_chains_are_named(parse):
    with pytest.raises(DataError, match=r"a\.jpg: 'A brown dog' is in sentence 3 of 1"):
        place_phrases(entities(chained("A brown dog", sentences=[3])), [parse(A_DOG)])


def test_what_is_parsed():
    assert sentences_of(photo()) == ["a brown dog sleeps."]
    assert sentences_of(entities()) == [["a", "brown", "dog", "sleeps"]]
    assert sentences_of(Record("a.jpg", 9, 9, sentences=("long " * 500,))) == [""]


@pytest.fixture
def data(tmp_path):
    """Train and dev photos with a dog each."""
    folder = tmp_path / "data"
    folder.mkdir()
    records = [
        photo(("dog", SMALL)),
        Record("b.jpg", 60, 60, "dev", sentences=("x",)),
        Record("c.jpg", 60, 60),
    ]
    (folder / "annotations.jsonl").write_bytes(
        b"".join(json_line(record.to_dict()) for record in records)
    )
    return folder


def test_a_data_set_gets_phrases_in_the_splits_asked_for(data, tmp_path, parse, monkeypatch):
    monkeypatch.setattr(phrases, "RECORDS_AT_ONCE", 2)
    parsed: list[str] = []

    def parser(sentences):
        parsed.extend(sentences)
        return (parse(A_DOG) for _ in sentences)

    done = add_phrases(data, tmp_path / "out", parser)
    assert parsed == ["a brown dog sleeps."]
    assert (done["derived"], done["photos_with_derived"], done["derived_of_words"]) == (
        2,
        1,
        {"2": 1, "3": 1},
    )
    assert json.loads((tmp_path / "out" / "dataset.json").read_text()) == done
    written = Dataset(tmp_path / "out")
    assert [len(record.regions) for record in written] == [3, 0, 0]
    assert tmp_path / "out" / written[0].image == (data / "a.jpg").absolute()
    add_phrases(data, tmp_path / "kept", parser, ("train", "dev"), keep_paths=True)
    assert [record.image for record in Dataset(tmp_path / "kept")] == ["a.jpg", "b.jpg", "c.jpg"]
    assert parsed[1:] == ["a brown dog sleeps.", "x"]


def test_bad_input_leaves_nothing(data, tmp_path, parse):
    def parser(sentences):
        return (parse(A_DOG) for _ in sentences)

    with pytest.raises(DataError, match="no record of split test has sentences"):
        add_phrases(data, tmp_path / "out", parser, ("test",))
    with pytest.raises(UsageError, match="the source itself"):
        add_phrases(data, data, parser, force=True)
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_a_missing_parser_names_its_extra(monkeypatch):
    monkeypatch.setattr(parse_tree, "PARSER", "no_such_parser")
    with pytest.raises(MissingExtra) as caught:
        parse_tree.load_parser()
    assert caught.value.extra == "parse"


def test_the_real_parser_finds_the_phrases_of_the_manual():
    pytest.importorskip("spacy")
    pytest.importorskip(parse_tree.PARSER)
    parser = parse_tree.load_parser()
    record = Record("a.jpg", 60, 60, sentences=("A white cat is eating from a bowl on the floor.",))
    record = Record(
        "a.jpg", 60, 60, sentences=record.sentences, regions=(TrueRegion(SMALL, "cat", "object"),)
    )
    trees = list(parser([*sentences_of(record), "", ["a", "horse-drawn", "cart"]]))
    assert [region.phrase for region in place_phrases(record, trees[:1])] == [
        "a cat",
        "a white cat",
        "a white cat eating",
        "a white cat eating from a bowl",
        "a white cat eating from a bowl on the floor",
    ]
    assert [len(tree.tokens) for tree in trees] == [11 + 1, 0, 3]
