"""go-tpc: the output of its TPC-C, as text or as JSON."""
