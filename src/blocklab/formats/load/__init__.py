"""What tools that put load on a system print: fio, pgbench, sysbench, go-tpc, HammerDB, JdbcRunner."""
