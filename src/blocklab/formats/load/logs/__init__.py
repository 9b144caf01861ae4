"""Long logs with a line for each I/O or transaction, as values and a time series in steps of a second.

Any number of files are read as one log, in blocks: what they need in memory does not depend on how many lines
there are, only on how many seconds the log covers. ``formats.fio.single`` and ``formats.pgbench.single`` say what
their rows look like.
"""
