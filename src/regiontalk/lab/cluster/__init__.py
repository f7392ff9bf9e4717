"""Work on many photos by the machines of a cluster (Ray)."""
