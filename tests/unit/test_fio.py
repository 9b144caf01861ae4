"""fio: no job file that reaches a shell, and every value from real output (fio 3.39, Debian 13)."""

from __future__ import annotations

import fnmatch
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blocklab.errors import ParseError
from blocklab.formats.load.fio import averaged, report
from blocklab.model.plan import Port, Put, Run
from blocklab.model.sample import Parsed, Phase, Sample
from blocklab.model.units import dec_hook
from blocklab.workloads import AnyWorkload, Fio, fio_jobs
from tests.unit.asked import tables
from tests.unit.golden import Golden, read

DIR = Port("db1", "dir", "/srv/x")
BLOCK = Port("db1", "block", "/dev/drbd0")

# The two studies whose output lies in golden/fio and golden/fio-user.
JOBS: dict[str, Any] = {
    "workload": "fio",
    "size": "32MiB",
    "options": {"direct": 1, "ioengine": "libaio"},
    "jobs": {
        "seq-write-1m": {"rw": "write", "bs": "1M", "iodepth": 1},
        "rand-rw-4k": {
            "rw": "randrw", "bs": "4k", "iodepth": 4, "numjobs": 2, "rate_iops": "800,400",
            "time_based": True, "runtime": 3,
        },
        "fsync-4k": {
            "rw": "randwrite", "bs": "4k", "fdatasync": 1, "rate_iops": 200, "time_based": True,
            "ramp_time": 1, "runtime": 2,
        },
    },
}  # fmt: skip
USER = (
    "; my own\n[global]\ndirect=1\nbs=4k ; small\nruntime=2s\ntime_based\nrate_iops=100\nfilesize=1m\n"
    "group_reporting=0\npercentile_list=10:20\n\n[reader]\nrw=randread\n[writer]\nrw=randwrite\nnumjobs=2\n"
    "write_bw_log=mine\n"
)


def lines(*logs: bytes) -> list[list[str]]:
    return [log.decode().splitlines() for log in logs]


def workload(**changes: Any) -> Fio:
    found = msgspec.convert(JOBS | changes, AnyWorkload, dec_hook=dec_hook)
    assert isinstance(found, Fio)
    return found


def own(text: str, size: str | None = "16MiB") -> Fio:
    return workload(jobs={}, options={}, jobfile="user.fio", jobtext=text, size=size)


def one(**options: Any) -> Fio:
    return workload(options={}, jobs={"a": {"rw": "write"} | options})


# --- the study's side


def test_unknown_field_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="unknown field `iodepth`"):
        workload(iodepth=3)


def test_good_ones_have_no_problems() -> None:
    assert workload().problems() == []
    assert own(USER).problems() == []
    assert own("[a]\nsize=1g\nrw=read\n", size=None).problems() == []
    several = {
        "rw": "randrw:8", "bs": "4k,64k", "rate_iops": "800,", "random_distribution": "zipf:1.2", "nice": -5,
        "thinktime": "5ms", "fadvise_hint": True, "readwrite": "read", "stonewall": "",
        "buffer_compress_percentage": 30, "ioengine": "libaio", "userspace_reap": 1, "runtime": "10s",
        "percentage_random": "50,100", "rate": "1m", "bssplit": "4k/50:64k/50",
    }  # fmt: skip
    assert one(**several).problems() == []
    tuned = {
        "iodepth": 64, "iodepth_batch_submit": 16, "iodepth_batch_complete_min": 1, "iodepth_low": 32,
        "runtime": 5,
        "thinktime": "10ms", "thinktime_blocks": 4, "thinktime_iotime": "1s", "thinktime_blocks_type": "issue",
        "rate_process": "poisson", "rate": ",500k", "random_distribution": "zoned:50/5:30/15:20/",
        "zonemode": "zbd",
        "bssplit": "4k/60:16k/30:64k/10,8k/", "cpus_allowed": "0-3,8", "numa_mem_policy": "bind:0", "mem": "shm",
        "latency_target": "10ms", "latency_percentile": 99.9, "verify": "crc32c", "verify_pattern": "0xdeadbeef%o",
        "buffer_pattern": "\"abc\"-12", "offset_increment": "10%", "steadystate": "iops_slope:0.3%", "fsync": 32,
        "sync_file_range": "write:128", "description": "random, 70 % reads (as of SNIA)", "size": "8m",
        "atomic": 1,
        "io_size": "32m", "refill_buffers": 1, "dedupe_percentage": 30, "norandommap": "", "randseed": 7,
        "file_service_type": "roundrobin:8", "clocksource": "cpu", "ioengine": "io_uring", "sqthread_poll": 1,
        "cmdprio_bssplit": "64k/40/1/1:1024k/60/0/0", "write_hint": "short", "prioclass": 2, "invalidate": 0,
    }  # fmt: skip
    assert one(**tuned).problems() == []


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"exec_prerun": "id"}, "runs a command"),
        ({"exec_postrun": "id"}, "runs a command"),
        ({"ioengine": "exec"}, "is not one of"),
        ({"ioengine": "external:/tmp/x.so"}, "is not one of"),
        ({"program": "/bin/sh"}, "runs a command"),
        ({"description": "$(reboot)"}, "refused"),
        ({"bs": "$pagesize*2"}, "shell"),
        ({"description": "`reboot`"}, "refused"),
        ({"description": "x\nexec_prerun=id"}, "control characters"),
        ({"description": "x" * 5000}, "refused"),
        ({"description\nexec_prerun": "id"}, "no name of a fio option"),
        ({"[x]\nexec_prerun": "id"}, "no name of a fio option"),
        ({"filename": "/dev/sda"}, "points fio at the stack"),
        ({"directory": "/"}, "points fio at the stack"),
        ({"include": "/etc/x.fio"}, "only the job file"),
        ({"bs": "64KiB"}, "powers of 1000"),
        ({"bs": "4k,64KiB"}, "powers of 1000"),
        ({"description": "a;b"}, "start of a comment"),
        ({"mem": "mmapshared:victim.img"}, "mem: 'mmapshared:victim.img' is not one of malloc"),
        ({"iomem": "mmap:important.conf"}, "iomem: 'mmap:important.conf' is not one of malloc"),
        ({"mem": "mmaphuge:/hugepages/x"}, "is not one of malloc"),
        ({"write_iolog": "cron-x"}, "write_iolog: refused: it names a file of the host"),
        ({"merge_blktrace_file": "x"}, "names a file of the host"),
        ({"ioscheduler": "none"}, "ioscheduler: refused: it changes the host's queue"),
        ({"replay_redirect": "/dev/sdb"}, "it goes with read_iolog"),
        ({"cgroup": "../../x"}, "the layer cap makes cgroups"),
        ({"verify_dump": 1}, "verify_dump: '1' is not one of 0"),
        ({"verify_state_load": 1}, "names a file of the host"),
        ({"dp_scheme": "x"}, "names a file of the host"),
        ({"buffer_pattern": "'/etc/shadow'"}, "is not a pattern"),
        ({"verify_pattern": "0xff'x'"}, "is not a pattern"),
        ({"bssplit": "/dev/sdb"}, "is not parts like"),
        ({"random_distribution": "zoned:/etc/x"}, "is not parts like"),
        ({"job_name": "x"}, "is not an option of fio that a study may set"),
        ({"trigger": "reboot"}, "is not an option of fio that a study may set"),
        ({"verify": "../x"}, "is not a word"),
        ({"iodepth": "many"}, "iodepth: 'many' is not a number"),
        ({"bss": "4k"}, "bss: is not an option of fio that a study may set; did you mean bs?"),
        ({"time_based": True}, "never end"),
        ({"bs": "4kk"}, "not a size"),
        ({"bs": 0}, "a block size or a rate of 0"),
        ({"bs": "4k,0"}, "a block size or a rate of 0"),
        ({"size": "50%"}, "not a size"),
        ({"runtime": "soon"}, "not a time"),
        ({"size": 0}, "might never end"),
    ],
)
def test_refused_options(options: dict[str, Any], why: str) -> None:
    found = one(**options).problems()
    assert len(found) == 1
    assert found[0][0] == "jobs.a"
    assert why in found[0][1]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"thinktime_spin": "4k"}, "fio has no option thinktime_spin; did you mean thinktime?"),
        ({"rw": "randwite"}, "did you mean randwrite?"),
        ({"rwmixread": 150}, "rwmixread: 150 is out of range: from 0 to 100"),
        ({"direct": 2}, "direct: '2' is neither 1 nor 0"),
        ({"random_distribution": "zip:1.2", "runtime": 1}, "did you mean zipf?"),
        (
            {"runtime": 1, "ioengine": "sync", "userspace_reap": 1},
            "is an option of ioengine libaio; this job has sync",
        ),
    ],
)
def test_options_that_fio_does_not_take(options: dict[str, Any], why: str) -> None:
    assert one(**options).problems() == []
    ((where, problem),) = one(**options).unknown(tables()["fio"])
    assert where == "jobs.a" and why in problem


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            "[a]\nrw=read\nthinktime_spin=5\nruntime=1\n",
            "[a] fio has no option thinktime_spin; did you mean thinktime?",
        ),
        ("[a]\nrw=read\niodepth=0\nruntime=1\n", "[a] iodepth: 0 is out of range"),
        ("[global]\nuserspace_reap\nruntime=1\n[a]\nioengine=io_uring\n", "an option of ioengine libaio"),
    ],
)
def test_options_in_a_job_file_that_fio_does_not_take(text: str, why: str) -> None:
    assert own(text).problems() == []
    ((where, problem),) = own(text).unknown(tables()["fio"])
    assert where == "jobfile" and why in problem


@pytest.mark.parametrize("name", ["global", "a]\n[b", "$(reboot)", "", "x" * 64, "a "])
def test_refused_names(name: str) -> None:
    assert [where for where, _ in workload(jobs={name: {"rw": "read"}}).problems()] == ["jobs"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[a]\nexec_prerun=id\n", "line 2: exec_prerun: refused"),
        ("[a]\n  exec_postrun = id\n", "line 2: exec_postrun: refused"),
        ("[a]\r\nexec_prerun=id\r\n", "line 2: exec_prerun: refused"),
        ("[global]\nioengine=exec\n[a]\nrw=read\n", "line 2: ioengine"),
        ("[a]\nioengine = exec ; libaio\n", "line 2: ioengine"),
        ("[a]\nfilename=/dev/sda\n", "line 2: filename"),
        ("[a]\n" + "description=" + "x" * 5000 + "\n", "line 2: longer than"),
        ("include other.fio\n[a]\n", "line 1"),
        ("[a]\nrw=read\n[a]\nrw=write\n", "line 3: a second section [a]"),
        ("[a]\nbs=$pagesize*2\n", "line 2: bs"),
        ("[a] x\nrw=read\n", "line 1"),
        ("[a\nrw=read\n", "line 1"),
        ("rw=read\n[a]\n", "line 1: an option before"),
        ("[a]\nrw=read\x00\n", "line 2: rw"),
        ("", "give jobs or a matrix"),
        ("[global]\nrw=read\n", "no section but"),
    ],
)
def test_refused_job_files(text: str, why: str) -> None:
    fio = own(text) if text else msgspec.structs.replace(own("x"), jobfile=None, jobtext="")
    assert any(why in problem for _, problem in fio.problems())


def test_exactly_one_of_jobs_and_jobfile() -> None:
    assert workload(jobfile="x.fio").problems() == [("jobs", "give jobs or a matrix, or else a jobfile")]
    assert workload(jobs={}).problems() == [("jobs", "give jobs or a matrix, or else a jobfile")]
    assert "was not read" in workload(jobs={}, options={}, jobfile="x.fio").problems()[0][1]
    assert (
        (found := workload(jobs={}, jobfile="x", jobtext=USER).problems()[0])[0],
        found[1][:6],
    ) == ("options", "belong")


def test_a_matrix_is_every_combination_as_a_job() -> None:
    made = workload(
        jobs={"seq": {"rw": "read"}}, options={"runtime": 1},
        matrix={"bs": ["4k", "16k"], "rwmixread": [100, 50], "iodepth": [1, 256]},
    )  # fmt: skip
    assert made.problems() == []
    assert list(made.all_jobs) == [
        "seq", "4k-r100-qd1", "4k-r100-qd256", "4k-r50-qd1", "4k-r50-qd256",
        "16k-r100-qd1", "16k-r100-qd256", "16k-r50-qd1", "16k-r50-qd256",
    ]  # fmt: skip
    assert made.all_jobs["16k-r50-qd256"] == {"bs": "16k", "rwmixread": 50, "iodepth": 256}
    assert made.lasts() == 9
    text = made.text("/dev/vda")
    assert text.count("stonewall") == 9 and "[16k-r50-qd1]\nstonewall=1\nbs=16k\nrwmixread=50\niodepth=1" in text


@pytest.mark.parametrize(
    ("matrix", "field"),
    [({"bs": []}, "matrix.bs"), ({"bs": ["4k", "4k"]}, "matrix.bs"), ({"bs": ["4KiB"]}, "matrix"),
     ({"filename": ["/etc/passwd"]}, "matrix"), ({"exec_prerun": ["reboot"]}, "matrix")],
)  # fmt: skip
def test_a_matrix_that_is_refused(matrix: dict[str, Any], field: str) -> None:
    made = workload(jobs={}, options={"runtime": 1}, matrix=matrix)
    assert field in [where for where, _ in made.problems()]


def test_size_is_needed_and_whole() -> None:
    assert [where for where, _ in workload(size=None).problems()] == ["size"]
    assert [where for where, _ in workload(size="1000B").problems()] == ["size"]
    assert "neither a size nor a runtime" in own("[a]\nrw=read\n", size=None).problems()[0][1]


# --- the plan


def test_job_file(golden: Golden) -> None:
    golden.check("fio/expected-job.json", workload().text("/dev/drbd0").splitlines())
    golden.check("fio-user/expected-job.json", own(USER).text("/srv/x/blocklab.fio").splitlines())


def test_a_job_that_verifies_leaves_no_file_of_its_state() -> None:
    text = own("[a]\nrw=write\nverify=crc32c\nsize=1m\n[b]\nrw=read\nsize=1m\nwrite_lat_log=/etc/x\n").text(
        "/dev/vda"
    )
    first, second = text.split("[b]")
    assert first.rstrip().endswith("verify_state_save=0") and "verify_state_save" not in second
    assert "/etc" not in text


def test_what_blocklab_sets_comes_last() -> None:
    """fio takes the last of two; a user's log or percentiles must not win over those that are parsed."""
    found, problems = fio_jobs.sections(own(USER).text("/x").split("\n", 3)[3])
    assert problems == []
    assert [section.options["write_bw_log"] for section in found] == [
        "/var/lib/blocklab/work/fio/0",
        "/var/lib/blocklab/work/fio/1",
    ]
    assert {section.options["percentile_list"] for section in found} == {"50:95:99:99.9"}
    assert {section.options["group_reporting"] for section in found} == {"1"}


def test_steps_on_a_folder_and_on_a_device() -> None:
    assert workload().prepare(DIR) == ()
    steps = workload().lasting(DIR)
    runs = [step for step in steps if isinstance(step, Run)]
    assert runs[0].argv == ("test", "-d", "/srv/x")
    assert [step.undo for step in runs if step.undo] == [
        ("rm", "-f", "/srv/x/blocklab.fio"),
    ]
    assert "--filename=/srv/x/blocklab.fio" in runs[-1].argv
    assert "--direct=1" in runs[-1].argv
    clear, put = workload().arm(DIR)
    assert isinstance(put, Put) and "filename=/srv/x/blocklab.fio\n" in put.text
    # fio appends to the logs of the run before.
    assert isinstance(clear, Run) and clear.argv == clear.undo == ("rm", "-rf", "/var/lib/blocklab/work/fio")

    assert workload(fill=False).lasting(BLOCK) == ()
    steps = workload(fill=False).prepare(BLOCK)
    runs = [step for step in steps if isinstance(step, Run)]
    assert runs[0].argv == ("test", "-b", "/dev/drbd0")
    # A device is never removed.
    assert not any("/dev/drbd0" in step.undo for step in runs)
    assert not any("fio" in step.argv for step in runs)


def test_what_fio_would_lay_out_is_laid_out_before_the_measurement() -> None:
    """Or the kernel counts a whole file of writes that fio does not tell of."""
    user = own("[w]\nrw=write\nsize=1g\n[r]\nsize=1g\n", size=None)
    for fio in (workload(fill=False), user):
        steps = fio.prepare(DIR)
        [put] = [step for step in steps if isinstance(step, Put)]
        last = steps[-1]
        assert isinstance(last, Run) and last.argv[-1] == put.path and "fio" in last.argv and last.timeout >= 3600
        found, _ = fio_jobs.sections(put.text.partition("\nfilename=")[2].partition("\n")[2])
        assert [(each.name, each.options["create_only"], each.options["overwrite"]) for each in found] == [
            (name, "1", "1") for name in fio.phases or ()
        ]
        assert "create_only" not in fio.text("/srv/x/blocklab.fio")
        # A device has all of its blocks.
        assert not any(isinstance(step, Put) for step in fio.prepare(BLOCK))
    written = workload(fill=False, jobs={"w": {"rw": "randwrite"}, "t": {"rw": "trimwrite"}})
    assert not any(isinstance(step, Put) for step in written.prepare(DIR))


@pytest.mark.parametrize(
    "changed",
    [{"direct": 0}, {"rw": "randtrim"}, {"unlink": 1}, {"exec_prerun": "true"}],
    ids=lambda changed: next(iter(changed)),
)
def test_a_target_that_a_job_may_change_is_written_before_each_measurement(changed: dict[str, Any]) -> None:
    before = workload()
    jobs = {
        name: {**job, **changed} if name == next(iter(before.jobs)) else job for name, job in before.jobs.items()
    }
    found = msgspec.structs.replace(before, jobs=jobs)
    assert found.lasting(DIR) == ()
    assert [step.argv[0] for step in found.prepare(DIR) if isinstance(step, Run)] == ["test", "rm", "fio"]


def test_each_round_draws_its_own_lots_unless_the_study_says_how() -> None:
    plain = workload()
    texts = [plain.reseeded(number).text("/srv/x") for number in (1, 2)]
    assert ["randseed=1\n" in texts[0], "randseed=2\n" in texts[1]] == [True, True]
    assert "randseed" not in plain.text("/srv/x")
    for name, value in (("randseed", 7), ("randrepeat", 0), ("allrandrepeat", 1)):
        first = next(iter(plain.jobs))
        given = msgspec.structs.replace(plain, jobs=plain.jobs | {first: plain.jobs[first] | {name: value}})
        assert given.reseeded(2) == given


def round_of(first: float, then: float, seconds: float, *, logged: bool = True) -> Parsed:
    """A workload that wrote 4 KiB ``first`` times in its first second, and ``then`` times in each after it."""
    ios = first + then * (seconds - 1)
    rows = {"iops": (ios / seconds, "1/s"), "ios": (ios, "1"), "bandwidth": (4096 * ios / seconds, "B/s"),
            "bytes": (4096 * ios, "B"), "latency.mean": (0.001, "s")}  # fmt: skip
    found = [Sample(f"write.{name}", value, unit, "fio", "a1", "p") for name, (value, unit) in rows.items()]
    for second in range(1, int(seconds) + 1) if logged else ():
        rate = first if second == 1 else then
        found.append(Sample("write.iops", rate, "1/s", "fio", "a1", "p", 100.0 + second))
        found.append(Sample("write.bandwidth", 4096 * rate, "B/s", "fio", "a1", "p", 100.0 + second))
    return Parsed(tuple(found), (Phase("p", 100.0, 100.0 + seconds),))


def rates(parsed: Parsed) -> dict[str, float]:
    return {each.metric: each.value for each in parsed.samples if each.time is None}


def test_a_round_leaves_out_what_a_cap_had_saved_up() -> None:
    before = round_of(1100, 1000, 4)
    after = workload().steady(before)
    assert rates(before)["write.iops"] == 1025
    assert rates(after) == rates(before) | {
        "write.iops": pytest.approx(1000), "write.bandwidth": pytest.approx(4096 * 1000)
    }  # fmt: skip
    assert [each for each in after.samples if each.time] == [each for each in before.samples if each.time]


def test_a_round_without_log_or_time_stays_as_it_is() -> None:
    for parsed in (round_of(1100, 1000, 4, logged=False), round_of(1100, 1000, 1)):
        assert workload().steady(parsed) == parsed


def test_a_round_whose_log_says_more_than_there_was_is_not_negative() -> None:
    assert rates(workload().steady(round_of(5, -1, 4)))["write.iops"] == 0


def test_a_colon_is_part_of_the_path() -> None:
    assert "filename=/dev/disk/by-path/pci-0000\\:00" in workload().text("/dev/disk/by-path/pci-0000:00")


def test_load() -> None:
    found = workload().command(BLOCK)
    assert found.argv[:4] == ("env", "LC_ALL=C", "fio", "--output-format=json+")
    assert not {"sh", "bash"} & set(found.argv)
    # Not the logs of submission and completion alone, 0_slat.log and 0_clat.log.
    left = ["0_bw.log", "0_clat.log", "0_iops.log", "0_lat.log", "0_slat.log", "12_lat.log", "job.fio"]
    patterns = [pattern.removeprefix("/var/lib/blocklab/work/fio/") for pattern in found.fetch]
    fetched = sorted(name for pattern in patterns for name in fnmatch.filter(left, pattern))
    assert fetched == ["0_bw.log", "0_iops.log", "0_lat.log", "12_lat.log"]
    assert workload().facts(BLOCK)[0].parse("fio-3.39\n") == {"version": "fio-3.39"}


@pytest.mark.parametrize(
    ("options", "seconds"),
    [
        ({"runtime": "60"}, 70),
        ({"runtime": "1m", "ramp_time": "5s", "startdelay": "500ms"}, 75.5),
        ({"size": "20m", "bs": "1m"}, 30),  # 1 MiB/s
        ({"size": "8m"}, 112.4),  # 4 KiB each, 20 a second
        ({"size": "8m", "bs": "4k,8k", "numjobs": "2"}, 214.8),
        ({"size": "1m", "rate_iops": "1"}, 266),
        ({"size": "1g", "io_limit": "20m", "bs": "1m"}, 30),
        ({"size": "4m", "bs": "4k", "thinktime": "1s"}, 1024 / 20 + 1024 + 10),
        ({"size": "4m", "bs": "4k", "thinktime": "500000"}, 1024 / 20 + 512 + 10),  # fio's are microseconds
        ({"size": "4m", "bs": "4k", "thinktime": "1s", "thinktime_blocks": "8"}, 1024 / 20 + 128 + 10),
        ({"runtime": "60", "thinktime": "1s"}, 70),
        ({"size": "1m", "bssplit": "4k/50:64k/50"}, 112.4),  # a sector each, to be safe
    ],
)
def test_longest(options: dict[str, str], seconds: float) -> None:
    assert fio_jobs.longest(options) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "option",
    [
        "log_max_value", "log_window_value", "log_store_compressed", "log_hist_msec", "write_hist_log",
        "write_clat_log", "unified_rw_reporting",
    ],
)  # fmt: skip
def test_what_would_make_other_figures_of_the_logs_is_refused(option: str) -> None:
    """Or the maximum of each second is told as its mean, and some break the parser after the whole workload."""
    for where, each in (
        ("jobs.a", one(**{option: 1})),
        ("options", workload(options={**JOBS["options"], option: 1})),
        ("matrix", workload(jobs={}, matrix={"bs": ["4k"], option: [1]})),
        ("jobfile", own(f"[a]\nrw=write\nsize=1m\n{option}=1\n")),
    ):
        assert f"{option}: refused: blocklab decides what fio reports" in dict(each.problems())[where]


@pytest.mark.parametrize(
    "option", ["group_reporting", "percentile_list", "log_avg_msec", "write_bw_log", "new_group"]
)
def test_what_blocklab_decides_is_refused_in_a_study_and_overridden_in_a_job_file(option: str) -> None:
    """Job files that people have are full of it."""
    assert "remove it" in dict(one(**{option: 1}).problems())["jobs.a"]
    found = own(f"[global]\n{option}=7\n[a]\nrw=write\nsize=1m\n{option}=8\n")
    assert found.problems() == []
    lines = found.text("/dev/vda").split("[a]")[1].splitlines()
    given = [line.partition("=")[2] for line in lines if line.startswith(f"{option}=")]
    assert len(given) == 1 and given[0] != "8"


NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._:+-]{0,20}", fullmatch=True).filter(lambda name: name != "global")
OPTIONS = st.sampled_from([name for name in tables()["fio"]["common"] if fio_jobs.option_problem(name, 1) is None])
VALUES = (
    st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.from_regex(r"[A-Za-z0-9._:,/%+@*-]{1,20}", fullmatch=True)
)


@given(st.dictionaries(NAMES, st.dictionaries(OPTIONS, VALUES, max_size=5), max_size=5))
def test_job_file_round_trip(jobs: dict[str, dict[str, fio_jobs.JobValue]]) -> None:
    jobs = {
        name: {key: value for key, value in job.items() if fio_jobs.option_problem(key, value) is None}
        for name, job in jobs.items()
    }
    text = "".join(fio_jobs.render(name, options) for name, options in jobs.items())
    found, problems = fio_jobs.sections(text)
    assert problems == []
    expected = {
        name: {key: str(int(value)) if isinstance(value, bool) else str(value) for key, value in job.items()}
        for name, job in jobs.items()
    }
    assert {section.name: section.own for section in found} == expected


@given(st.text(), st.text())
def test_no_option_makes_a_second_line(option: str, value: str) -> None:
    """Whatever passes the checks stays one option of one section."""
    if one(**{option: value}).problems():
        return
    found, problems = fio_jobs.sections(fio_jobs.render("a", {option: value}))
    assert problems == []
    assert [list(section.own) for section in found] == [[option]]


# --- the output


def test_real_output(golden: Golden) -> None:
    for name, fio in (("fio", workload()), ("fio-user", own(USER))):
        parsed = fio.parse(read(name), "db1")
        golden.check(f"{name}/expected.json", msgspec.to_builtins(parsed))


def test_real_figures() -> None:
    """Some of them by hand, so that the golden file is not the only witness."""
    parsed = workload().parse(read("fio"), "db1")
    whole = {(each.phase, each.metric): each for each in parsed.samples if each.time is None}
    assert whole["rand-rw-4k", "read.iops"].value == pytest.approx(1599.466844)  # two clones of 800
    assert whole["rand-rw-4k", "write.latency.p99.9"].value == pytest.approx(4.079616e-3)
    assert whole["seq-write-1m", "write.bytes"].value == 32 * 2**20
    assert ("seq-write-1m", "read.iops") not in whole
    assert whole["fsync-4k", "sync.latency.mean"].unit == "s"
    series = [each for each in parsed.samples if each.time is not None and each.metric == "read.iops"]
    # The log's third line (726 of each clone) covers 0.09 s after the end, so it is no rate.
    assert [each.value for each in series] == [1601, 1600]
    phases = {phase.name: phase for phase in parsed.phases}
    assert list(phases) == ["seq-write-1m", "rand-rw-4k", "fsync-4k"]
    assert phases["rand-rw-4k"].end - phases["rand-rw-4k"].start == pytest.approx(3.001)
    assert phases["seq-write-1m"].end <= phases["rand-rw-4k"].start
    for each in series:
        assert each.time is not None
        assert phases["rand-rw-4k"].start <= each.time <= phases["rand-rw-4k"].end


def test_text_around_the_json() -> None:
    raw = read("fio")
    noisy = raw | {"stdout": b"fio: {warning}\n" + raw["stdout"] + b"\nfio: bye\n"}
    assert workload().parse(noisy, "db1") == workload().parse(raw, "db1")


def states(*points: tuple[int, int]) -> bytes:
    """fio's reports of its state: for how long (ms) it has written, and how many I/Os."""
    (job,) = [each for each in json.loads(read("fio")["stdout"])["jobs"] if each["jobname"] == "seq-write-1m"]
    each = [{**job, "write": {**job["write"], "runtime": time, "total_ios": ios}} for time, ios in points]
    return b"".join(json.dumps({"jobs": [state]}).encode() + b"\n" for state in each)


@pytest.mark.parametrize(
    ("points", "rates"),
    [
        ([(1000, 60), (2000, 120), (3001, 180)], [60, 60]),
        # It ends in the middle of a second, with what was under way: no second at 18 a second.
        ([(1000, 60), (2000, 120), (2500, 129)], [60]),
        ([(1000, 60), (2000, 120), (2500, 129), (2500, 129)], [60]),
        # Its report came late: of three seconds.
        ([(1000, 60), (4000, 240), (5000, 300)], [60, 60, 60, 60]),
    ],
)
def test_each_figure_of_a_long_run_is_of_a_second(points: list[tuple[int, int]], rates: list[float]) -> None:
    assert report.so_far(states(*points)) == {"write.iops": pytest.approx(rates, rel=0.01)}


def test_without_logs_or_start() -> None:
    """An older fio has no job_start, and a lost log leaves the values of the phases."""
    output = json.loads(read("fio")["stdout"])
    for job in output["jobs"]:
        del job["job_start"]
    parsed = workload().parse({"stdout": json.dumps(output).encode()}, "db1")
    assert parsed.phases == ()
    assert parsed.samples
    assert all(each.time is None for each in parsed.samples)


def broken(change: str) -> bytes:
    output = json.loads(read("fio")["stdout"])
    job = output["jobs"][0]
    if change == "missing job":
        del output["jobs"][0]
    elif change == "no percentiles":
        del job["write"]["lat_ns"]["percentile"]
    elif change == "no iops":
        del job["write"]["iops"]
    elif change == "no I/O":
        job["write"]["total_ios"] = 0
    return json.dumps(output).encode()


@pytest.mark.parametrize(
    ("out", "why"),
    [
        (b"", "no JSON"),
        (b"fio: failed parsing rw=nonsense\n", "no JSON"),
        (read("fio")["stdout"][:5000], "cannot be read"),
        (read("fio")["stdout"].replace(b'"iops" : 2285.7', b'"iops" : 2285,7'), "cannot be read"),
        (b"{}", "cannot be read"),
        (broken("missing job"), "ran the jobs"),
        (broken("no percentiles"), "no percentile 50"),
        (broken("no iops"), "cannot be read"),
        (broken("no I/O"), "did no I/O"),
    ],
)
def test_bad_output(out: bytes, why: str) -> None:
    with pytest.raises(ParseError, match=why):
        workload().parse({"stdout": out, "stderr": b"fio: said this\n"}, "db1")


def test_errored_job() -> None:
    """Real: a file that could not be opened. fio goes on with the other jobs; the phase must not pass as done."""
    raw = {"stdout": read("fio")["errored.json"], "stderr": read("fio")["errored.stderr"]}
    with pytest.raises(ParseError, match=r"job bad ended with error 1\n.*Operation not permitted"):
        own("[ok]\nrw=write\n[bad]\nrw=read\n[later]\nrw=write\n").parse(raw, "db1")


@pytest.mark.parametrize(
    "log", [b"garbage\n", b"1,2\n", b"1000, 5, 9, 0, 0\n", b"1000, -5, 1, 0, 0\n", b"1, 2,5, 1\n"]
)
def test_bad_log(log: bytes) -> None:
    raw = read("fio") | {"1_bw.log": log}
    with pytest.raises(ParseError, match="log"):
        workload().parse(raw, "db1")


def test_a_second_without_all_clones_is_left_out_of_a_sum() -> None:
    log = b"1000, 10, 1, 0, 0\n2000, 20, 1, 0, 0\n1001, 30, 1, 0, 0\n"
    assert averaged.series(lines(log), mean=False) == [("write", 1.0, 40)]
    assert averaged.series(lines(log), mean=True) == [("write", 1.0, 20), ("write", 2.0, 20)]
    assert averaged.series(lines(b""), mean=False) == []


def rows(every: int, values: list[int], off: int = 0) -> bytes:
    """A log of one clone that writes."""
    return b"".join(b"%d, %d, 1, 0, 0\n" % (off + every * n, value) for n, value in enumerate(values, 1))


@pytest.mark.parametrize("every", [100, 250, 500])
def test_the_rows_of_a_second_are_averaged(every: int) -> None:
    log = rows(every, [100, 300] * (2000 // every))
    assert averaged.series(lines(log), mean=False) == [("write", n, 200) for n in (1.0, 2.0, 3.0, 4.0)]


def test_clones_are_added_up_also_where_they_have_several_rows_a_second() -> None:
    clones = [rows(500, [100, 300] * 2), rows(500, [10, 30] * 2, off=-3)]
    for logs in (clones, [b"".join(clones)]):
        found = averaged.series(lines(*logs), mean=False)
        assert [(round(time, 6), value) for _, time, value in found] == [(0.997, 220), (1.997, 220)]
    assert [value for _, _, value in averaged.series(lines(*clones), mean=True)] == [110, 110]


def test_a_course_of_two_uneven_seconds_stays_within_them() -> None:
    """A busy machine: the first second's row came late. Its step is known, not told from one gap."""
    during = Phase("a", 0.0, 2.0)
    for first, second in ((1300, 2001), (1600, 2000), (1800, 2000)):
        log = f"{first}, 10, 1, 0, 0\n{second}, 30, 1, 0, 0\n".encode()
        for kind in ("iops", "lat"):
            times = [sample.time or 0.0 for sample in averaged.samples(kind, log, "db1", "a", during)]
            assert times and max(times) <= 2.5, (kind, log)


def test_clones_with_one_row_each_are_added_up() -> None:
    during = Phase("a", 0.0, 1.0)
    found = list(averaged.samples("iops", b"1000, 10, 1, 0, 0\n1002, 30, 1, 0, 0\n", "db1", "a", during))
    assert [sample.value for sample in found] == [40.0]
    # Of logs of their own nothing has to be guessed.
    apart = [b"1000, 10, 1, 0, 0\n", b"1030, 30, 1, 0, 0\n"]
    assert averaged.series(lines(*apart), mean=False) == [("write", 1.0, 40)]


def log(*stamps: int, value: int = 100) -> bytes:
    """Rows of one clone that writes."""
    return b"".join(b"%d, %d, 1, 0, 0\n" % (stamp, value) for stamp in stamps)


def test_a_second_without_any_io_is_none_and_not_missing() -> None:
    """fio writes no row for it (stat.c: "No entries for interval"), also where it wakes up some ms late."""
    for late in (0, 3):
        stamps = [at * (1000 + late) for at in (1, 2, 3, 7, 8)]
        found = averaged.series(lines(log(*stamps)), mean=False)
        assert [value for _, _, value in found] == [100, 100, 100, 0, 0, 0, 100, 100]
        assert [time for _, time, _ in found] == pytest.approx([1 + late / 1000 + at for at in range(8)])
    # A latency of no I/O is not 0.
    assert len(averaged.series(lines(log(1000, 2000, 5000)), mean=True)) == 3
    # Rows of each half of a second, of ten seconds.
    halves = averaged.series(lines(log(*range(500, 3001, 500), *range(5500, 7001, 500))), mean=False)
    assert [value for _, _, value in halves] == [100, 100, 100, 0, 0, 100, 100]
    tens = averaged.series(lines(log(10_000, 20_000, 40_000, 50_000)), mean=False)
    assert [value for _, _, value in tens] == [100, 100, 0, 100, 100]


def test_a_second_in_which_one_clone_did_nothing_is_the_others() -> None:
    clones = log(1000, 2000, 3000, 4000) + log(1001, 4001, value=10)
    for logs in ([clones], [log(1000, 2000, 3000, 4000), log(1001, 4001, value=10)]):
        assert [value for _, _, value in averaged.series(lines(*logs), mean=False, step=1000)] == [
            110,
            100,
            100,
            110,
        ]


def test_a_row_of_an_fio_that_was_held_up_is_of_all_the_time_before_it() -> None:
    found = averaged.series(lines(log(1000, 2000) + log(4600, value=20) + log(5600, 6600)), mean=False)
    assert [value for _, _, value in found] == [100, 100, 20, 20, 20, 100, 100]


def test_our_own_course_has_the_seconds_of_a_stall() -> None:
    during = Phase("a", 0.0, 6.0)
    found = list(averaged.samples("iops", log(1000, 2000, 5000, 6000), "db1", "a", during))
    assert [sample.value for sample in found] == [100, 100, 0, 0, 100, 100]
    assert len(list(averaged.samples("lat", log(1000, 2000, 5000, 6000), "db1", "a", during))) == 4


def test_times_that_jump_by_more_than_a_day_are_damage() -> None:
    with pytest.raises(ParseError, match=r"jump by 200,000 s: a damaged row, or two runs"):
        averaged.series(lines(log(1000, 2000, 200_002_000)), mean=False)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{\n "jobs": [{"jobname": "a", "error": 0, "mixed": {"io_bytes": 1}}]\n}', "unified_rw_reporting"),
        ('{\n "client_stats": [{"jobname": "a"}]\n}', "run fio on the host itself"),
    ],
)
def test_another_form_of_fios_json_is_named_with_the_cure(text: str, why: str) -> None:
    with pytest.raises(ParseError) as caught:
        report.decode(text)
    assert why in caught.value.hint


def test_each_direction_has_its_own_clones() -> None:
    log = b"1000, 10, 1, 0, 0\n2000, 10, 1, 0, 0\n1000, 20, 1, 0, 0\n1000, 5, 0, 0, 0\n2000, 7, 0, 0, 0\n"
    assert averaged.series(lines(log), mean=False) == [("read", 1.0, 5), ("read", 2.0, 7), ("write", 1.0, 30)]


@given(st.binary())
def test_garbage_is_a_parse_error(out: bytes) -> None:
    with pytest.raises(ParseError):
        workload().parse({"stdout": out}, "db1")
