"""`regiontalk data`: turns data sets into records; checks, counts, joins and merges them."""

from __future__ import annotations

import click

from regiontalk.cli.data import inputs, proposals, records, sets

COMMANDS = (
    *(records.prepare_command, records.check, records.stats),
    *(sets.merge, sets.phrases, sets.split, sets.join),
    *(
        inputs.vectors,
        inputs.codes,
        inputs.box_codes,
        inputs.snippets,
        inputs.draw,
        inputs.anchors,
        proposals.proposals,
    ),
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Turn public data sets, or your own, into records; check, count, join and merge them."""


for _command in COMMANDS:
    command.add_command(_command)
