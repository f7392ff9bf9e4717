"""METEOR 1.5 for English, without Java."""

from regiontalk.evaluation.meteor.score import Meteor

__all__ = ["Meteor"]
