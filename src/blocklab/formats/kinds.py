"""The kinds of files that are known, by name."""

from __future__ import annotations

from collections.abc import Mapping

from blocklab.formats.host import diskstats, dstat, iostat, iostat_json, sadf, sar, vmstat
from blocklab.formats.kind import Kind

WATCHING: Mapping[str, Kind] = {
    "iostat": Kind("iostat", iostat.fits, iostat.read, "lines"),
    "iostat-json": Kind("iostat -o JSON", iostat_json.fits, iostat_json.read, "lines"),
    "sar": Kind("sar -d, -b, -u", sar.fits, sar.read, "lines"),
    "sadf-json": Kind("sadf -j FILE -- -d -b", sadf.fits_json, sadf.read_json, "lines"),
    "sadf-csv": Kind("sadf -d FILE -- -d", sadf.fits_csv, sadf.read_csv, "lines"),
    "vmstat": Kind("vmstat", vmstat.fits, vmstat.read, "lines"),
    "dstat": Kind("dstat's table", dstat.fits, dstat.read),
    "dstat-csv": Kind("dstat's CSV", dstat.fits_csv, dstat.read_csv),
}
"""What watched a host while something ran."""
COUNTING: Mapping[str, Kind] = {
    "diskstats": Kind("/proc/diskstats, several dumps", diskstats.fits, diskstats.read, "lines"),
}
"""What a host or a server has counted."""
KINDS: Mapping[str, Kind] = {**WATCHING, **COUNTING}
