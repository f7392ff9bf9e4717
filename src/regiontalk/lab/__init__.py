"""For research: data sets, networks, training, export, fitting and evaluation. To use a model, none of it is needed."""
