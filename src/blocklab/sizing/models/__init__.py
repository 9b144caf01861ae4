"""What the tables of files say of the I/O of systems: one function a source of statistics."""
