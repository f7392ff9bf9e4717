"""Files: written whole or not at all, read strictly and with limits; where results come from; old
import names."""
