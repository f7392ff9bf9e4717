"""The option `--split` of verbs that read data sets."""

from __future__ import annotations

import click

from regiontalk.lab.data.records import SPLITS

one_split_option = click.option("--split", type=click.Choice(SPLITS), help="Use only this split.")

test_split_option = click.option(
    "--split",
    type=click.Choice(SPLITS),
    default="test",
    show_default=True,
    help="The split to use.",
)
