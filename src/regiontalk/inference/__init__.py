"""The algorithm of both papers at test time: numpy only, no files.

`look` has the steps in their order, `regions` the table that goes from one to the next. The steps
are in `detect`, `captions` (over `decoding` and `confidence`), `rank` and `naming`. `codes` makes
the input of the heads: `sentences` for photos, `alignment` and `find` (over `maxsim` and
`likelihood`) for words and phrases. `teaching` keeps what a model was taught, `taught` recognises
it.
"""
