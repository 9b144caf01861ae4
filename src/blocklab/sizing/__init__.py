"""From a database's own statistics to the I/O that its storage must carry."""
