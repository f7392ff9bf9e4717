"""Results as pictures, as a written HTML page, and in notebooks."""
