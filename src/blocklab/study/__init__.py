"""Studies: the file, its checks, its cells and the plans they need. Pure, but for reading the file."""
