from __future__ import annotations

import os
import signal
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

import regiontalk
from regiontalk import errors
from regiontalk.cli import console, main

PROGRAM = [sys.executable, "-W", "error", "-c", "from regiontalk.cli.main import main; main()"]
HEAVY = ("torch", "onnxruntime", "fastapi", "uvicorn", "pycocoevalcap", "PIL", "onnx")


@pytest.fixture
def add_verb(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], None]:
    """Adds the verb `probe`, which does what it is given."""

    def add(action: Callable[[], Any]) -> None:
        module = types.SimpleNamespace(command=click.Command("probe", callback=action))
        monkeypatch.setitem(sys.modules, "regiontalk.cli.probe", module)
        monkeypatch.setitem(main.VERBS, "probe", "A verb for tests.")

    return add


def raiser(error: BaseException) -> Callable[[], None]:
    def action() -> None:
        raise error

    return action


def in_fresh_python(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    return done.stdout


def start_with_probe(body: str) -> subprocess.Popen[str]:
    """The program in a process of its own, with a verb `probe` whose body is given."""
    code = (
        "import sys, types, click\n"
        "from regiontalk.cli import console, main\n"
        "def action():\n"
        + "".join(f"    {line}\n" for line in body.splitlines())
        + "main.VERBS['probe'] = 'A verb for tests.'\n"
        "module = types.SimpleNamespace(command=click.Command('probe', callback=action))\n"
        "sys.modules['regiontalk.cli.probe'] = module\n"
        "sys.exit(main.run(['probe']))\n"
    )
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["--version"]) == 0
    assert regiontalk.__version__ in capsys.readouterr().out
    assert main.run(["--help"]) == 0
    help_text = capsys.readouterr().out
    for verb in main.VERBS:
        assert verb in help_text


def test_no_verb_shows_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run([]) == 0
    listed = capsys.readouterr().out
    assert listed.index("With photos:") < listed.index("  caption") < listed.index("For research:")


@pytest.mark.parametrize("arguments", [["nonsense"], ["--nonsense"], ["doctor", "--nonsense"]])
def test_a_usage_error_is_one_line_on_stderr(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("regiontalk: No such")
    assert captured.err.count("\n") == 1
    assert "--help" in captured.err


@pytest.mark.parametrize(
    ("error", "exit_code"),
    [
        (errors.UsageError("what went wrong"), 2),
        (errors.SkippedInputs("what went wrong"), 3),
        (errors.ImageError("what went wrong"), 4),
        (errors.DataError("what went wrong"), 4),
        (errors.IndexProblem("what went wrong"), 5),
        (errors.ModelError("what went wrong"), 6),
        (errors.MissingExtra("what went wrong", extra="train"), 7),
        (click.UsageError("what went wrong"), 2),
        (click.BadParameter("what went wrong"), 2),
        (RuntimeError("what went wrong"), 1),
    ],
)
def test_every_failure_is_one_line_and_an_exit_code(
    error: Exception,
    exit_code: int,
    add_verb: Callable[[Callable[[], Any]], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    add_verb(raiser(error))
    assert main.run(["probe"]) == exit_code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "what went wrong" in captured.err
    assert captured.err.count("\n") == 1
    assert "Traceback" not in captured.err


def test_a_hint_follows_the_message(
    add_verb: Callable[[Callable[[], Any]], None], capsys: pytest.CaptureFixture[str]
) -> None:
    add_verb(
        raiser(errors.DataError("a.jsonl, line 3: [bold]broken", hint="regiontalk data check a"))
    )
    main.run(["probe"])
    assert (
        capsys.readouterr().err
        == "regiontalk: a.jsonl, line 3: [bold]broken  (regiontalk data check a)\n"
    )


def test_a_traceback_shows_on_request(
    add_verb: Callable[[Callable[[], Any]], None],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    add_verb(raiser(RuntimeError("deep inside")))
    monkeypatch.setenv("REGIONTALK_TRACEBACK", "1")
    assert main.run(["probe"]) == 1
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize("error", [KeyboardInterrupt(), click.Abort()])
def test_an_interruption_is_130(
    error: BaseException,
    add_verb: Callable[[Callable[[], Any]], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    add_verb(raiser(error))
    assert main.run(["probe"]) == 130
    assert capsys.readouterr().err == "regiontalk: stopped\n"


def test_a_verb_may_choose_its_exit_code(add_verb: Callable[[Callable[[], Any]], None]) -> None:
    add_verb(lambda: click.get_current_context().exit(3))
    assert main.run(["probe"]) == 3


def test_ctrl_c_in_a_running_program() -> None:
    process = start_with_probe("print('ready', flush=True)\nimport time; time.sleep(60)")
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        _, message = process.communicate(timeout=30)
    assert process.returncode == 130
    assert message == "regiontalk: stopped\n"


@pytest.mark.parametrize(
    "body",
    [
        "for _ in range(100_000): console.print_json({'line': 'x' * 50})",
        "console.print_table('many', ['a', 'b'], [['x' * 50, n] for n in range(5_000)])",
        "for _ in range(100_000): click.echo('x' * 50)",
        "import time; time.sleep(0.5)\nprint('a little, written as the program ends')",
    ],
    ids=["json", "table", "echo", "at the end"],
)
def test_a_closed_pipe_is_silent(body: str) -> None:
    process = start_with_probe(body)
    with process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        message = process.stderr.read()
        process.wait(timeout=60)
    assert message == ""
    assert process.returncode == 0


def test_the_entry_point_exits_with_the_code() -> None:
    done = subprocess.run([*PROGRAM, "nonsense"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout == ""


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = "import sys, regiontalk; print(*sys.modules, sep='\\n')"
    loaded = {name.split(".")[0] for name in in_fresh_python(code).split()}
    assert loaded.isdisjoint(HEAVY)


@pytest.mark.parametrize("verb", [None, *sorted(main.VERBS)])
def test_help_imports_nothing_heavy(verb: str | None) -> None:
    """`--help` of the program, of every verb and of every verb below it."""
    code = f"""
import sys, click
from regiontalk.cli import console, main

def show_help(command, words):
    context = click.Context(command, info_name=words[-1])
    assert command.get_help(context)
    if isinstance(command, click.Group) and words != ["regiontalk"]:
        for name in command.list_commands(context):
            show_help(command.get_command(context, name), [*words, name])

verb = {verb!r}
context = click.Context(main.program, info_name="regiontalk")
command = main.program.get_command(context, verb) if verb else main.program
show_help(command, ["regiontalk", verb] if verb else ["regiontalk"])
print(*sys.modules, sep="\\n")
"""
    loaded = {name.split(".")[0] for name in in_fresh_python(code).split()}
    assert loaded.isdisjoint(set(HEAVY) - {"PIL"})


@pytest.mark.parametrize("verb", sorted(main.VERBS))
def test_every_verb_has_help(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run([verb, "--help"]) == 0
    assert "Usage: regiontalk " + verb in capsys.readouterr().out


@pytest.mark.skipif(os.name == "nt", reason="no terminal colours to speak of")
def test_messages_carry_no_colour_codes_when_piped() -> None:
    done = subprocess.run([*PROGRAM, "nonsense"], capture_output=True, check=False)
    assert b"\x1b" not in done.stderr


def test_finding_c12_tables_take_no_markup_and_no_control_characters(
    capsys: pytest.CaptureFixture[str],
) -> None:
    hostile = "a\x1b[31m\u009b\u202e[bold]b[/b]"
    console.print_table(hostile, [hostile, hostile], [[hostile, hostile]])
    console.message(hostile)
    out, err = capsys.readouterr()
    assert (out + err).replace("\n", "").isprintable()
    assert (out + err).count("[bold]b[/b]") == 6


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["--version"], ["caption", "--help"], ["completion", "fish"], ["doctor"]],
)
def test_finding_c11_a_full_disk_is_one_line_and_one_exit_code(arguments: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*PROGRAM, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (done.returncode, done.stderr.count("\n")) == (5, 1)
    assert "No space left on device" in done.stderr
    with Path("/dev/full").open("wb") as full:
        assert subprocess.run([*PROGRAM, "nonsense"], stderr=full, check=False).returncode == 2


def test_finding_b13_python_m_regiontalk() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "regiontalk", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert regiontalk.__version__ in done.stdout


@pytest.mark.parametrize(
    ("arguments", "suggestion"),
    [
        (["capton", "a.jpg"], "No such verb 'capton'. Did you mean caption?"),
        (["caption", "a.jpg", "--treshold", "0.5"], "--threshold"),
        (["data", "prepar"], "prepare"),
    ],
)
def test_finding_b17_a_mistyped_verb_or_option_gets_a_suggestion(
    arguments: list[str], suggestion: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(arguments) == 2
    assert suggestion in capsys.readouterr().err


@pytest.mark.parametrize("baseline", ["nearest-neighbour", "region-ranking"])
def test_finding_b13_help_needs_no_extra(
    baseline: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for package in ("torch", "safetensors", "onnx", "pycocoevalcap", "numba"):
        monkeypatch.setitem(sys.modules, package, None)
    assert main.run(["baseline", baseline, "--help"]) == 0
    assert "Usage" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("folder", "problem"), [("holiday", "not a model folder"), ("gone", "no such model folder")]
)
def test_finding_b17_a_folder_that_is_no_model(
    folder: str,
    problem: str,
    scene_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(scene_path.parent)
    (scene_path.parent / "holiday").mkdir()
    assert main.run(["caption", "scene.png", "--model", folder]) == 6
    assert f"regiontalk: {folder}: {problem}" in capsys.readouterr().err


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_standard_streams_that_are_closed_lead_nowhere(closed: str, scene_path: Path) -> None:
    command = ["sh", "-c", f'exec "$@" {closed}', "sh", *PROGRAM]
    done = subprocess.run([*command, "doctor"], capture_output=True, text=True, check=False)
    assert done.returncode in (0, 7)  # as without an extra
    assert "unexpected" not in done.stdout + done.stderr
    done = subprocess.run([*command, "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0


def test_a_lack_of_memory_is_said(
    add_verb: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    add_verb(raiser(MemoryError()))
    assert main.run(["probe"]) == 1
    error = capsys.readouterr().err
    assert "there is not enough memory" in error
    assert "report" not in error
