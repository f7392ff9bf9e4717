"""METEOR 1.5 for English: in Python (`Meteor`), and the jar itself as a reference (`JavaMeteor`)."""

from regiontalk.evaluation.meteor.java import JavaMeteor
from regiontalk.evaluation.meteor.score import Meteor

__all__ = ["JavaMeteor", "Meteor"]
