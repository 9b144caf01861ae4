"""Which options of fio a study and its job files may set: those that stay on the file or device that blocklab
gives.

fio 3.39 and before, with the options of the engines in ``fio_options.ENGINES``. Known ways from a job file to a
shell: ``exec_prerun`` and ``exec_postrun`` (``system()``), ``ioengine=exec``, ``ioengine=external:LIB``,
``include``, ``$keyword`` with arithmetic (``popen("echo ... | bc")``), and lines over 4095 bytes, of which fio
reads the rest as another line. To files of others: ``filename`` and its like, the logs, ``write_iolog``,
``mem=mmap:FILE``, ``buffer_pattern='FILE'``, ``verify_dump``, ``cgroup``.
"""

from __future__ import annotations

from blocklab.model.allowed import NUMBER as ONE
from blocklab.model.allowed import NUMBERS, TEXT, WORD, Allowed, Shape, each, words
from blocklab.workloads import fio_output
from blocklab.workloads.fio_options import ENGINES

# Of a flag fio takes "stonewall=" too.
NUMBER = Shape(ONE.what, rf"(?:{ONE.form})?")
# "4k/10:64k/50:32k/", "zoned:50/5:30/15:20/": a slash stands behind a number, and before one or nothing
_SPLIT = Shape("parts like 4k/60:64k/40", r"(?:[A-Za-z0-9_%+:,-]|\.(?!\.)|(?<=[A-Za-z0-9%])/(?=[\d:,]|$))+")
# 0xdeadbeef, -10, "text", %o: what stands in single quotes is a file
_PATTERN = Shape(
    "a pattern of numbers and texts in double quotes",
    r"(?:0[xX][0-9A-Fa-f]++|-?\d++|\"[A-Za-z0-9_ ,.:+-]*\"|%o)+",
)
_TIME = Shape("a time that fio accepts; write it like 60 or 60s", ONE.form)
_MEMORY = words("malloc", "shm", "shmhuge", "mmap", "mmapshared")

_STACK = "blocklab points fio at the stack; remove it"
_SHELL = "it runs a command of your file; blocklab never does"
_NO_LATENCY = "with it fio measures no latency, which is half of what is asked; remove it"
REPORTS = "blocklab decides what fio reports and logs; remove it"
_FILES = "it names a file of the host; remove it"

ALLOWED = Allowed(
    "fio",
    {
        **each(words(*ENGINES), "ioengine"),
        # What is done.
        **each(WORD, "rw readwrite rw_sequencer sync fallocate fadvise_hint write_hint sync_file_range lockfile"),
        **each(WORD, "file_service_type random_generator io_submit_mode zonemode"),
        **each(_SPLIT, "bssplit random_distribution"),
        **each(NUMBERS, "bs blocksize ba blockalign bsrange blocksize_range"),
        **each(NUMBER, "bs_unaligned blocksize_unaligned bs_is_seq_rand direct buffered atomic size filesize"),
        **each(NUMBER, "io_size"),
        **each(NUMBER, "io_limit fill_device fill_fs file_append offset fileoffset offset_align offset_increment"),
        **each(NUMBER, "number_ios num_range nrfiles nr_files openfiles loops numjobs thread unique_filename"),
        **each(NUMBER, "rwmixread rwmixwrite randrepeat allrandrepeat randseed norandommap softrandommap"),
        **each(NUMBERS, "percentage_random"),
        **each(NUMBER, "fsync fdatasync write_barrier end_fsync fsync_on_close overwrite invalidate pre_read"),
        **each(NUMBER, "unlink unlink_each_loop create_serialize create_fsync create_on_open create_only"),
        **each(NUMBER, "allow_file_create"),
        # How many at once, how fast, how long.
        **each(NUMBER, "iodepth iodepth_batch iodepth_batch_submit iodepth_batch_complete iodepth_low"),
        **each(NUMBER, "iodepth_batch_complete_min iodepth_batch_complete_max serialize_overlap"),
        **each(NUMBERS, "rate rate_min ratemin rate_iops rate_iops_min"),
        **each(NUMBER, "rate_cycle ratecycle rate_ignore_thinktime thinktime thinktime_spin thinktime_iotime"),
        **each(NUMBER, "thinktime_blocks max_latency latency_target latency_window latency_percentile"),
        **each(NUMBER, "latency_run"),
        **each(WORD, "rate_process thinktime_blocks_type"),
        **each(_TIME, "runtime timeout ramp_time startdelay"),
        **each(NUMBER, "time_based ramp_size stonewall wait_for_previous new_group exitall exitall_on_error"),
        **each(NUMBER, "flow flow_id flow_sleep flow_watermark"),
        **each(TEXT, "wait_for description"),
        **each(WORD, "exit_what continue_on_error ignore_error steadystate ss"),
        **each(NUMBER, "error_dump steadystate_duration ss_dur steadystate_ramp_time ss_ramp"),
        **each(NUMBER, "steadystate_check_interval ss_interval"),
        # Zones and trims.
        **each(NUMBER, "zonerange zonesize zonecapacity zoneskip read_beyond_wp max_open_zones"),
        **each(NUMBER, "job_max_open_zones ignore_zone_limits zone_reset_threshold zone_reset_frequency"),
        **each(NUMBER, "recover_zbd_write_error trim_percentage trim_verify_zero trim_backlog trim_backlog_batch"),
        # What is written, and whether it is read back.
        **each(NUMBER, "zero_buffers refill_buffers scramble_buffers buffer_compress_percentage"),
        **each(NUMBER, "buffer_compress_chunk dedupe_percentage dedupe_global dedupe_working_set_percentage"),
        **each(WORD, "dedupe_mode verify"),
        **each(_PATTERN, "buffer_pattern verify_pattern"),
        **each(NUMBER, "do_verify verify_interval verify_offset verify_backlog verify_backlog_batch verify_async"),
        **each(NUMBER, "verify_fatal verify_only verify_write_sequence verify_header_seed experimental_verify"),
        **each(words("0"), "verify_state_save verify_dump"),
        # The job's own place in memory and on CPUs.
        **each(_MEMORY, "mem iomem"),
        **each(NUMBER, "mem_align iomem_align lockmem nice prio prioclass cpumask gtod_cpu"),
        **each(NUMBERS, "cpus_allowed verify_async_cpus numa_cpu_nodes"),
        **each(WORD, "cpus_allowed_policy numa_mem_policy clocksource"),
        # Reports: blocklab's own come last.
        **each(NUMBER, "disable_clat disable_slat disable_bw_measurement disable_bw significant_figures stats"),
        **each(NUMBER, "disk_util bwavgtime iopsavgtime unit_base block_error_percentiles"),
        **each(words("0", "false"), "gtod_reduce disable_lat"),
        # They have no effect, and do not reach the host.
        **dict.fromkeys(fio_output.OURS, Shape("a text", r".*")),
        # Of engines.
        **each(NUMBER, "hipri hipri_percentage nowait uncached userspace_reap libaio_vectored fixedbufs"),
        **each(NUMBER, "registerfiles"),
        **each(NUMBER, "sqthread_poll sqthread_poll_cpu nonvectored force_async cmdprio_percentage thp"),
        **each(NUMBERS, "cmdprio cmdprio_class cmdprio_hint"),
        **each(_SPLIT, "cmdprio_bssplit"),
        **each(NUMBER, "md_per_io_size pi_act apptag apptag_mask readfua writefua deac"),
        **each(WORD, "pi_chk write_mode verify_mode"),
        **each(NUMBER, "fdp"),
        **each(NUMBERS, "plids fdp_pli"),
        **each(WORD, "dataplacement data_placement plid_select fdp_pli_select"),
    },
    {
        **dict.fromkeys(("filename", "directory", "filename_format", "opendir", "read_iolog"), _STACK),
        **dict.fromkeys(("exec_prerun", "exec_postrun", "program", "arguments"), _SHELL),
        **dict.fromkeys(("gtod_reduce", "disable_lat"), _NO_LATENCY),
        "include": "only the job file itself is carried to the node; copy the other file's lines into it",
        "kb_base": "it changes what 4k means; write sizes as k, m, g (powers of 1024)",
        "name": "the section's name is the phase's name; remove it",
        # Whatever else there is of them makes other values of the logs, or none: log_max_value,
        # log_window_value, log_store_compressed; write_hist_log.
        **dict.fromkeys(("log_*", "write_*_log", "unified_rw_reporting"), REPORTS),
        **dict.fromkeys(("write_iolog", "merge_blktrace_file", "verify_state_load", "dp_scheme"), _FILES),
        "replay_*": "it goes with read_iolog; remove it",
        "ioscheduler": "it changes the host's queue, and nothing sets it back; remove it",
        **dict.fromkeys(("cgroup", "cgroup_weight", "cgroup_nodelete"), "the layer cap makes cgroups; remove it"),
        "uid": "fio runs as root, as the device needs it; remove it",
        "gid": "fio runs as root, as the device needs it; remove it",
    },
)  # fmt: skip
