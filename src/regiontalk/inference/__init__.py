"""The algorithm of both papers at test time: numpy only, no files.

A photo's regions:  `detect` -> `captions` -> `rank`; `decoding` searches for words, `confidence`
judges them. Its sentence:       `sentences` Words and phrases:  `alignment` and `find`, over
`maxsim` and `likelihood`
"""
