"""Readers of what watches a host: iostat, sar, sadf, vmstat, dstat, and the kernel's own counters."""
