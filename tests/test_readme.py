"""What README.md and docs/ say is true: their commands run, and their tables name every key."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import click
import pytest

import regiontalk
from regiontalk.cli.main import VERBS, program, run
from regiontalk.cli.teach import ADD, Teach
from regiontalk.errors import MissingExtra
from regiontalk.lab.evaluation.scoring_pool import open_meteor

ROOT = Path(__file__).parents[1]
PAGES = [
    *sorted(ROOT.glob("*.md")),
    ROOT / "examples" / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
]
README = (ROOT / "README.md").read_text(encoding="utf-8")
TOUR = (ROOT / "docs" / "how-it-works.md").read_text(encoding="utf-8")


def section(text: str, heading: str) -> str:
    """What stands under a heading, up to the next one of its rank or higher."""
    rank, rest = heading.split(" ", 1)
    lines = text.split("\n")
    start = lines.index(f"{rank} {rest}") + 1
    ends = (
        n for n, line in enumerate(lines) if n >= start and re.match(rf"#{{1,{len(rank)}}} ", line)
    )
    return "\n".join(lines[start : next(ends, len(lines))])


def blocks(text: str) -> list[str]:
    """The shell blocks of a page."""
    return [block.strip() for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL)]


def commands(text: str) -> list[list[str]]:
    """The words of every `regiontalk` command in the shell blocks."""
    lines = [
        shlex.split(line, comments=True) for block in blocks(text) for line in block.split("\n")
    ]
    return [words[1:] for words in lines if words and words[0] == "regiontalk"]


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder that looks like a clone."""
    for name in ("examples", "recipes"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def parse(arguments: list[str]) -> dict[str, Any]:
    """A command's parameters, checked by click but not run."""
    command: click.Command | None = program
    context = click.Context(program)
    words = list(arguments)
    while isinstance(command, click.Group):
        name = words.pop(0)
        if isinstance(command, Teach) and name not in command.commands:
            words, name = [name, *words], ADD  # which may be left out
        command = command.get_command(context, name)
    assert command is not None, arguments
    return command.make_context(arguments[0], words).params


# -- set-up
# ------------------------------------------------------------------------------------------------


def test_there_are_two_set_up_commands() -> None:
    use, develop = blocks(section(README, "## Set-up"))
    for command in (use, develop):
        assert "\n" not in command
        assert command.startswith("python3 -m venv .venv && . .venv/bin/activate && pip install ")
        assert "://" not in command, "no registry is named"
    assert use.endswith("&& regiontalk doctor && regiontalk caption examples/photos -o page.html")
    assert (
        "pip install -c constraints.txt -e '.[train,evaluate,heif,video,serve,mcp,postgres,cluster,dev]'"
        in develop
    )
    assert develop.endswith("&& ruff check && ruff format --check && mypy && pytest")


def test_the_first_one_does_what_it_says(desk: Path) -> None:
    use, _ = blocks(section(README, "## Set-up"))
    steps = [shlex.split(part) for part in use.split("&&")]
    ran = [step[1:] for step in steps if step[0] == "regiontalk"]
    assert all(run(step) == 0 for step in ran)
    page = (desk / "page.html").read_text(encoding="utf-8")
    assert all(photo.name in page for photo in (ROOT / "examples" / "photos").glob("*.jpg"))


def test_ci_runs_the_second_one(tmp_path: Path) -> None:
    """`.ci/run` finds the command under its mark, and fails where there is none."""
    (tmp_path / ".ci").mkdir()
    script = tmp_path / ".ci" / "run"
    script.write_text((ROOT / ".ci" / "run").read_text())

    def outcome(readme: str) -> tuple[int, str]:
        (tmp_path / "README.md").write_text(readme)
        done = subprocess.run(["bash", str(script)], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout

    _, develop = blocks(section(README, "## Set-up"))
    harmless = README.replace(develop, "echo first\nfalse && echo not reached || echo second")
    assert outcome(harmless) == (
        0,
        "echo first\nfalse && echo not reached || echo second\nfirst\nsecond\n",
    )
    assert outcome(README.replace(develop, "false\necho not reached"))[0] == 1
    assert outcome(README.replace("<!-- test command -->", ""))[0] == 1


def examples() -> dict[str, tuple[list[str], str]]:
    """Photo -> the captions and the sentence that README shows for it, with what is not sure."""
    rows = re.findall(
        r"^\| `(\w+)\.jpg`.*? \| (.*?) \| (.*?) \|$",
        section(README, "## What it says"),
        re.MULTILINE,
    )
    return {
        name: (captions.replace("*", "").split(", "), sentence.replace("*", ""))
        for name, captions, sentence in rows
    }


def test_the_examples_are_those_of_the_galleries() -> None:
    captioned, described = (
        (ROOT / "docs" / f"gallery{name}.md").read_text("utf-8") for name in ("", "-sentences")
    )
    assert sorted(examples()) == sorted(
        path.stem for path in (ROOT / "examples/photos").glob("*.jpg")
    )
    for name, (captions, sentence) in examples().items():
        shown = re.findall(r"^- \*\*(.+)\*\*", section(captioned, f"## {name}"), re.MULTILINE)
        assert [caption.removesuffix(" (not sure)") for caption in captions] == shown, name
        assert f"**{sentence.removesuffix(' (not sure)')}**" in section(described, f"## {name}"), (
            name
        )


MAX_DIFFERENT_CAPTIONS = 4
MAX_DIFFERENT_SENTENCES = 4
"""On another CPU: the last digits of its sums are others, and README says so."""


def test_the_examples_are_what_the_installed_model_says() -> None:
    model = regiontalk.load()
    captions_apart = []
    sentences_apart = []
    for name, (captions, sentence) in examples().items():
        path = ROOT / "examples" / "photos" / f"{name}.jpg"
        photo, description = model(path), model.describe(path)
        shown = Counter(hedged(one.caption, photo.is_sure(one)) for one in photo.likely)
        expected = Counter(captions)
        captions_apart += [*(shown - expected), *(expected - shown)]
        if hedged(description.sentence, description.sure) != sentence:
            sentences_apart.append(description.sentence)
    assert len(captions_apart) <= MAX_DIFFERENT_CAPTIONS, captions_apart
    assert len(sentences_apart) <= MAX_DIFFERENT_SENTENCES, sentences_apart


def hedged(text: str, sure: bool) -> str:
    return text if sure else f"{text} (not sure)"


# -- commands
# ----------------------------------------------------------------------------------------------


def test_every_verb_is_listed_and_no_other() -> None:
    table = re.findall(r"^\| `regiontalk (\w+)`", README, re.MULTILINE)
    assert sorted(table) == sorted(VERBS)


def test_the_commands_of_a_first_try_work(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them, in order; training is cut short, and `fit` tries few settings."""
    from regiontalk.lab.fitting import settings

    try:
        open_meteor()
    except MissingExtra as error:
        pytest.skip(f"METEOR's tables are not installed: {error}")
    monkeypatch.setattr(settings, "FINAL_NMS", (0.3,))
    monkeypatch.setattr(settings, "CAPTION_WEIGHTS", (0.0,))
    few_steps = ["--set", "run.steps=2", "--set", "run.evaluate_every=2"]
    tried = commands(section(README, "## Try it"))
    assert [words[0] for words in tried] == [
        "data",
        "train",
        "export",
        "fit",
        "predict",
        "evaluate",
        "caption",
    ]
    for words in tried:
        assert run([*words, *few_steps] if words[0] == "train" else words) == 0, words


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_on_a_page_is_understood(page: Path, desk: Path) -> None:
    """Options and their values; whether the files are there is not asked."""
    from regiontalk.lab.training.recipe import load_recipe

    for words in commands(page.read_text(encoding="utf-8")):
        for word in words:  # files that another command would have made
            if word.endswith((".jsonl", ".json")) and "/" not in word:
                (desk / word).touch()
            elif word == "data" or (word.startswith("data/") and not word.endswith(".npz")):
                (desk / word).mkdir(parents=True, exist_ok=True)
        parameters = parse(words)
        if words[0] == "train":
            load_recipe(parameters["recipe"], parameters["changes"])


def test_headline_figures_are_those_of_the_results_page() -> None:
    results = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    measured = {
        name.lower(): float(value)
        for name, value in re.findall(
            r"^\| \*\*(.+?)\*\* \| \*\*([\d.]+)\*\*", results, re.MULTILINE
        )
    }
    headlines = re.findall(
        r"^\| (.+?) \| ([\d.]+)(?: %| ms)? \|", section(README, "## Results"), re.MULTILINE
    )
    assert len(headlines) == 6
    for name, shown in headlines:
        assert float(shown) == pytest.approx(measured[name.lower()], abs=0.051), name


def test_every_exit_code_is_listed() -> None:
    from regiontalk import errors

    listed = {
        int(code)
        for code in re.findall(
            r"^\| (\d+) \|", section(README, "## Extras and exit codes"), re.MULTILINE
        )
    }
    raised = {
        kind.exit_code
        for kind in vars(errors).values()
        if getattr(kind, "exit_code", None) is not None
    }
    assert listed == raised | {0, 130}


def test_the_example_of_the_examples_runs(desk: Path) -> None:
    (code,) = re.findall(
        r"```python\n(.*?)```",
        (ROOT / "examples" / "README.md").read_text(encoding="utf-8"),
        re.DOTALL,
    )
    exec(code, {})
    assert (desk / "regions.png").is_file()


# -- docs/recipe-keys.md
# --------------------------------------------------------------------------------------


def test_every_recipe_is_described() -> None:
    from regiontalk.lab.training.recipe import load_recipe

    page = (ROOT / "docs" / "recipe-keys.md").read_text(encoding="utf-8")
    described = re.findall(r"^\| \[.+\]\(\.\./(recipes/\S+\.toml)\) \| \w", page, re.MULTILINE)
    assert described == sorted(
        str(path.relative_to(ROOT)) for path in (ROOT / "recipes").glob("*.toml")
    )
    assert all(load_recipe(ROOT / path).run.steps > 0 for path in described)


# -- docs/how-it-works.md
# ----------------------------------------------------------------------------------


def test_the_tour_points_at_code_that_is_there() -> None:
    places = re.findall(r"`([\w/]+\.py)(?::(\w+))?`", TOUR)
    assert len(places) > 40, "the tour names its places otherwise"
    for path, name in places:
        source = (ROOT if path.startswith("tests/") else ROOT / "src" / "regiontalk") / path
        assert source.is_file(), path
        if name:
            text = source.read_text(encoding="utf-8")
            assert re.search(rf"^(def|class) {name}\b|^{name}\b.* = ", text, re.MULTILINE), (
                f"{path}:{name}"
            )


def test_the_tour_names_every_module() -> None:
    package = ROOT / "src" / "regiontalk"
    files = {path.name for path in package.glob("[!_]*.py")}
    folders = {f"{path.parent.name}/" for path in package.glob("*/__init__.py")}
    named = set(re.findall(r"`([\w./-]+)`", section(TOUR, "## The rooms")))
    assert files | folders <= named
