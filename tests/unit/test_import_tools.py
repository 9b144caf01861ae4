"""What the golden files of watchers and of other tools' output come to (tests/unit/golden/README.md)."""

from __future__ import annotations

from pathlib import Path

import pytest

from blocklab.formats.found import Found
from blocklab.formats.text import Refused
from blocklab.imports import kinds
from tests.unit.import_checks import samples, times
from tests.unit.import_kinds import GOLDEN, every_kind, old_go_tpc

KIB = 1024.0


def read(name: str) -> Found:
    path = GOLDEN / name
    return kinds.READERS.read(path, kinds.READERS.kind_of(path))


def of_text(folder: Path, text: str) -> Found:
    path = folder / "x.txt"
    path.write_text(text)
    return kinds.READERS.read(path, kinds.READERS.kind_of(path))


def series(found: Found, metric: str, layer: str = "") -> list[float]:
    return [
        sample.value
        for sample in samples(found)
        if sample.metric == metric and sample.layer.startswith(layer) and sample.time is not None
    ]


def whole(found: Found) -> dict[str, float]:
    return {sample.metric: sample.value for sample in samples(found) if sample.time is None}


def test_sar_has_devices_all_disks_and_cpus() -> None:
    found = read("sar.txt")
    assert (found.kind, found.host, found.bad) == ("sar", "vm", 0)
    assert series(found, "iops", "vda")[:2] == [1181, 82]
    assert series(found, "read.bandwidth", "vda")[0] == 14372 * KIB
    # sar -b has sectors.
    assert series(found, "disk.read.bandwidth")[0] == 28744 * 512
    assert series(found, "disk.write.iops")[:2] == [212, 82]
    assert series(found, "cpu.idle")[:2] == [89.90, 98.50]
    # One time for each report, whatever it has of it.
    assert times(found) == [1795461658.0 + at for at in range(8)]


def test_sar_of_twelve_hours_and_with_commas_is_the_same() -> None:
    english, german = read("sar-12h.txt"), read("sar-de.txt")
    assert series(german, "cpu.user")[0] == series(english, "cpu.user")[0] == 81.12
    assert times(english) == times(german) and len(times(english)) == 4
    assert any("decimal commas" in remark for remark in german.remarks)


def test_sar_of_each_cpu_has_all_of_them_together() -> None:
    """Nice programs and guests are programs, hard interrupts the kernel's."""
    found = read("sar-uall.txt")
    assert len(series(found, "cpu.user")) == 3 and series(found, "cpu.softirq") == [0, 0, 0]


def test_sar_of_one_kind_after_the_other_over_midnight_has_each_time_once(tmp_path: Path) -> None:
    banner = "Linux 6.1.0 (db1) \t11/23/2026 \t_x86_64_\t(2 CPU)\n\n"
    cpu = "23:59:58        CPU     %user     %nice   %system   %iowait    %steal     %idle\n"
    cpu += "".join(f"{at}        all      3.00      0.00      5.00      2.00      0.00     90.00\n"
                   for at in ("23:59:59", "00:00:00", "00:00:01"))  # fmt: skip
    disks = "\n23:59:58          tps      rtps      wtps   bread/s   bwrtn/s\n"
    disks += "".join(f"{at}     12.00      4.00      8.00    640.00    {at[-1]}28.00\n"
                     for at in ("23:59:59", "00:00:00", "00:00:01"))  # fmt: skip
    found = of_text(tmp_path, f"{banner}{cpu}{disks}")
    known = times(found)
    assert [at - known[0] for at in known] == [0, 1, 2]
    assert series(found, "disk.write.bandwidth") == [928 * 512, 28 * 512, 128 * 512]


def test_two_outputs_of_sar_in_one_file_are_left_out(tmp_path: Path) -> None:
    text = (GOLDEN / "sar.txt").read_text()
    with pytest.raises(Refused, match="holds 2 outputs of sar; cut it"):
        of_text(tmp_path, text * 2)


def test_sar_without_what_is_read_says_how_to_print_it() -> None:
    path = GOLDEN / "iostat-h.txt"
    with pytest.raises(Refused, match="-h rounds for humans: print it without"):
        kinds.READERS.read(path, kinds.READERS.kind_of(path))


def test_sadf_is_what_sar_is() -> None:
    as_json, as_csv = read("sadf.json"), read("sadf.csv")
    assert as_json.kind == "sadf-json" and as_csv.kind == "sadf-csv"
    for metric in ("iops", "read.bandwidth", "await", "queue", "util", "cpu.user", "cpu.idle"):
        assert series(as_json, metric) == series(as_csv, metric), metric
    assert series(as_json, "iops") == [547, 1649, 997, 3]
    assert set(times(as_json)) == set(times(as_csv)) == {1795462265.0 + at for at in range(4)}


def test_iostat_without_x_has_requests_of_both_ways_together() -> None:
    found = read("iostat-t.txt")
    assert series(found, "iops", "vda")[:2] == [1288, 82]
    assert series(found, "write.bandwidth", "vda")[:2] == [5332 * KIB, 2568 * KIB]
    assert series(found, "cpu.user")[:2] == [3.06, 0.50]
    assert not series(found, "read.iops")
    # The first report counts from the boot on, of the CPUs too.
    assert len(series(found, "cpu.idle")) == len(series(found, "iops")) == 7


def test_iostat_of_devices_or_of_cpus_alone() -> None:
    devices, cpus = read("iostat-d.txt"), read("iostat-c.txt")
    assert series(devices, "iops") == [1282, 82, 164, 83] and not series(devices, "cpu.user")
    assert series(cpus, "cpu.system") == [5.61, 1.00, 1.01, 1.50] and {s.layer for s in samples(cpus)} == {"cpu"}
    assert devices.untimed and cpus.untimed


def test_iostat_of_centos_7() -> None:
    found = read("centos7/iostat-1.out")
    assert found.rows == 6 and found.host == "localhost.localdomain"
    assert {sample.layer for sample in samples(found)} == {"sda", "dm-0", "dm-1", "cpu"}
    megabytes = read("centos7/iostat-m.out")
    assert series(megabytes, "read.bandwidth", "sda") == [0.01 * KIB * KIB]
    assert any("its only report is taken for an interval" in remark for remark in megabytes.remarks)


def test_a_first_report_beside_a_damaged_second_one_is_no_interval(tmp_path: Path) -> None:
    lines = (GOLDEN / "centos7/iostat-m.out").read_text().splitlines(keepends=True)
    with pytest.raises(Refused, match="no complete row"):
        of_text(tmp_path, "".join([*lines, lines[5], "sda               0.24    "]))


def test_vmstat_with_and_without_times() -> None:
    plain, timed = read("vmstat.txt"), read("vmstat-tw.txt")
    assert plain.untimed and not timed.untimed
    assert series(plain, "disk.read.bandwidth")[:2] == [12832 * KIB, 0]
    assert series(plain, "disk.write.bandwidth")[:2] == [4852 * KIB, 2568 * KIB]
    assert series(timed, "cpu.idle")[:2] == [90, 99] and times(timed)[0] == 1795461658.0
    # The first row counts from the boot on.
    assert len(series(plain, "cpu.user")) == len(series(timed, "cpu.user")) == 7
    tokyo = read("vmstat-ta.txt")
    assert any("zone JST, which may mean several: --zone" in remark for remark in tokyo.remarks)
    assert read("centos7/vmstat-at-5-10.out").rows == 3


def test_vmstat_whose_shares_do_not_come_to_all_is_damaged(tmp_path: Path) -> None:
    text = (GOLDEN / "vmstat.txt").read_text().replace("  1  1 99  1  0", "  1  1 9   1  0")
    assert of_text(tmp_path, text).bad == 1


def test_dstat_of_0_7_0_and_rows_that_were_cut(tmp_path: Path) -> None:
    new = read("dstat.txt")
    old = of_text(tmp_path, next(s.text for s in every_kind() if s.kind == "dstat" and "date/time" in s.text))
    assert samples(old) == samples(new) and not old.untimed
    text = (GOLDEN / "dstat.txt").read_text().replace("|   0  2568k|   0  82.0 \n", "|   0  2568k|   0  82\n")
    assert of_text(tmp_path, text).bad == 1


def test_hammerdb_has_nopm_and_tpm_in_every_order(tmp_path: Path) -> None:
    found = read("pkb/hammerdb.log")
    assert whole(found) == {"nopm": 8153, "tps": pytest.approx(24772 / 60)}
    assert any("took 10 minutes" in remark for remark in found.remarks)
    old = of_text(tmp_path, "Vuser 1:TEST RESULT : System achieved 60501 SQL Server TPM at 13207 NOPM\n")
    assert whole(old) == {"nopm": 13207, "tps": pytest.approx(60501 / 60)}
    job = of_text(tmp_path, '[\n  "0",\n  "TEST RESULT : System achieved 0 Oracle TPM at 27975 NOPM",\n  "0"\n]\n')
    assert whole(job) == {"nopm": 27975}


def test_hammerdb_with_times_says_when_its_test_was(tmp_path: Path) -> None:
    """The lines of times as its documents show them; no log with them was at hand."""
    plain = (GOLDEN / "pkb/hammerdb.log").read_text()
    timed = plain.replace("in minutes\n", "in minutes\nTimestamp 1 @ Fri Jan 18 12:05:37 UTC 2019\n").replace(
        "Taking end Transaction Count.\n",
        "Taking end Transaction Count.\nTimestamp 1 @ Fri Jan 18 12:15:37 UTC 2019\n",
    )
    found = of_text(tmp_path, timed)
    assert times(found) == [1547813137.0, 1547813737.0]
    assert [(phase.start, phase.end) for phase in found.phases] == [(0.0, 1.0)]


def test_hammerdb_that_did_not_end_or_ran_twice_is_left_out(tmp_path: Path) -> None:
    text = (GOLDEN / "pkb/hammerdb.log").read_text()
    with pytest.raises(Refused, match="the run did not end"):
        of_text(tmp_path, text[: text.index("TEST RESULT") + 40])
    with pytest.raises(Refused, match="holds 2 runs"):
        of_text(tmp_path, text * 2)


def test_hammerdbs_job_has_the_latencies_of_its_timing(tmp_path: Path) -> None:
    timing = '{\n  "NEWORD": {"calls": "173647", "min_ms": "1.942", "avg_ms": "7.083", "p99_ms": "11.522"}\n}\n'
    found = of_text(tmp_path, f"TEST RESULT : System achieved 20 NOPM from 60 PostgreSQL TPM\n{timing}")
    assert whole(found) == {
        "nopm": 20, "tps": 1, "new_order.count": 173647, "new_order.latency.min": pytest.approx(0.001942),
        "new_order.latency.mean": pytest.approx(0.007083), "new_order.latency.p99": pytest.approx(0.011522),
    }  # fmt: skip


def test_hammerdbs_time_profile_is_that_of_all_virtual_users() -> None:
    found = whole(read("pkb/hammerdb-profile.log"))
    assert found["new_order.count"] == 322104 and found["new_order.latency.p99"] == pytest.approx(0.014197)
    assert found["payment.latency.stddev"] == pytest.approx(1377.563e-6)
    assert found["stock_level.latency.mean"] == pytest.approx(0.002506)


def test_hammerdbs_transaction_counter_is_a_time_series() -> None:
    found = read("pkb/hammerdb-counter.log")
    assert series(found, "tps")[:2] == [324540 / 60, 324300 / 60] and not whole(found)
    assert times(found)[0] == 1656629020.0


def test_sysbench_0_5_has_values_and_a_time_series(tmp_path: Path) -> None:
    found = read("pkb/sysbench-0.5.txt")
    assert (found.kind, found.bad) == ("sysbench", 0)
    assert whole(found)["tps"] == pytest.approx(151.85, abs=0.01)
    assert whole(found)["latency.p99"] == pytest.approx(0.01773) and whole(found)["transactions"] == 182218
    assert series(found, "tps")[:2] == [144.13, 145.5] and len(series(found, "latency.p99")) == 40
    text = (GOLDEN / "pkb/sysbench-0.5.txt").read_text()
    with pytest.raises(Refused, match=r"sysbench before 1\.0: no transactions in its output"):
        of_text(tmp_path, text[: text.index("OLTP test")])


def test_lines_of_progress_without_a_summary_give_their_means(tmp_path: Path) -> None:
    found = read("pkb/pgbench-progress.txt")
    assert series(found, "tps") == [7, 14, 13, 14, 13] and whole(found)["tps"] == pytest.approx(61 / 5)
    # Of the latencies a second with more transactions counts more.
    mean = (7 * 435.396 + 14 * 1038.548 + 13 * 1055.813 + 14 * 1123.461 + 13 * 1358.214) / 61 / 1e3
    assert whole(found)["latency.mean"] == pytest.approx(mean)
    assert any("it has no summary" in remark for remark in found.remarks)
    cut = of_text(tmp_path, (GOLDEN / "pkb/pgbench-progress.txt").read_text()[:-20])
    assert series(cut, "tps") == [7, 14, 13, 14] and cut.bad == 1


def test_go_tpc_of_the_first_versions(tmp_path: Path) -> None:
    found = of_text(tmp_path, old_go_tpc())
    assert found.kind == "go-tpc" and any("no tpmC, as the first versions" in remark for remark in found.remarks)
    assert "new_order.latency.p99" in whole(found) and "new_order.latency.p50" not in whole(found)
    short = "\n".join(line for line in old_go_tpc().split("\n") if "[Summary] PAYMENT" not in line)
    with pytest.raises(Refused, match="its summary is damaged: no row of PAYMENT"):
        of_text(tmp_path, short)


def test_go_tpc_with_a_damaged_row_has_no_time_series(tmp_path: Path) -> None:
    text = old_go_tpc().replace("[Current] NEW_ORDER - Takes(s): 0", "[Current] NEW_ORDER - Takes(s): x", 1)
    found = of_text(tmp_path, text)
    assert found.bad == 1 and whole(found) and not series(found, "tps")
