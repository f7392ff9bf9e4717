"""METEOR 1.5 for English, without Java.

In this package and no distribution of its own: installing that from a clone would be one more
command.
"""

from regiontalk.errors import MissingExtra

try:
    from regiontalk.lab.evaluation.meteor.score import Meteor
except ImportError as error:
    raise MissingExtra(
        f"METEOR needs packages that are not installed: {error}", extra="evaluate"
    ) from error

__all__ = ["Meteor"]
