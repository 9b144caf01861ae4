"""pgbench: its summary and progress lines, and its logs of single transactions and of intervals."""
