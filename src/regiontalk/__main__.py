"""`python -m regiontalk`."""

from regiontalk.cli.main import main

main()
