"""The HTTP server: the page, and an API to caption photos and search an indexed folder.

`application` has the calls, `workers` the processes that do the work, `guards` what every request
must pass.
"""
