"""sysbench: the output of its OLTP scripts, of 1.0 and of the versions before."""
