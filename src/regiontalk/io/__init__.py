"""Files: written whole or not at all, read strictly and with limits; and where results come from."""
