"""An index that many machines share, in PostgreSQL."""
