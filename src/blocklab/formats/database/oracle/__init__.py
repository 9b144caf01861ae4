"""Oracle's own statistics: AWR reports (HTML and text; one instance, RAC, PDB) and Statspack reports."""
