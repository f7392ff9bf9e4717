"""The rooms for research: data sets, networks, training, export, fitting and evaluation. Captions
and searches run without it."""
