"""`regiontalk completion`: a script that makes a shell complete our verbs, options and paths."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from regiontalk.cli.main import COMPLETE, program

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> None:
    """Print a script that makes the Tab key complete verbs, options and paths.

    \b
    bash, in ~/.bashrc:   eval "$(regiontalk completion bash)"
    zsh, in ~/.zshrc:     eval "$(regiontalk completion zsh)"
    fish, once:           regiontalk completion fish > ~/.config/fish/completions/regiontalk.fish
    """
    script = get_completion_class(shell)
    assert script is not None
    click.echo(script(program, {}, "regiontalk", COMPLETE).source())
