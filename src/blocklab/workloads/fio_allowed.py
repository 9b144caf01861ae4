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
from blocklab.model.allowed import NUMBERS, TEXT, WORD, Allowed, Shape, entries, words
from blocklab.workloads.fio_measured import OURS
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
        **entries(words(*ENGINES), "ioengine"),
        # What is done.
        **entries(WORD, "rw readwrite rw_sequencer sync fallocate fadvise_hint write_hint sync_file_range"),
        **entries(WORD, "lockfile"),
        **entries(WORD, "file_service_type random_generator io_submit_mode zonemode"),
        **entries(_SPLIT, "bssplit random_distribution"),
        **entries(NUMBERS, "bs blocksize ba blockalign bsrange blocksize_range"),
        **entries(NUMBER, "bs_unaligned blocksize_unaligned bs_is_seq_rand direct buffered atomic size filesize"),
        **entries(NUMBER, "io_size"),
        **entries(NUMBER, "io_limit fill_device fill_fs file_append offset fileoffset offset_align"),
        **entries(NUMBER, "offset_increment"),
        **entries(NUMBER, "number_ios num_range nrfiles nr_files openfiles loops numjobs thread unique_filename"),
        **entries(NUMBER, "rwmixread rwmixwrite randrepeat allrandrepeat randseed norandommap softrandommap"),
        **entries(NUMBERS, "percentage_random"),
        **entries(NUMBER, "fsync fdatasync write_barrier end_fsync fsync_on_close overwrite invalidate pre_read"),
        **entries(NUMBER, "unlink unlink_each_loop create_serialize create_fsync create_on_open create_only"),
        **entries(NUMBER, "allow_file_create"),
        # How many at once, how fast, how long.
        **entries(NUMBER, "iodepth iodepth_batch iodepth_batch_submit iodepth_batch_complete iodepth_low"),
        **entries(NUMBER, "iodepth_batch_complete_min iodepth_batch_complete_max serialize_overlap"),
        **entries(NUMBERS, "rate rate_min ratemin rate_iops rate_iops_min"),
        **entries(NUMBER, "rate_cycle ratecycle rate_ignore_thinktime thinktime thinktime_spin thinktime_iotime"),
        **entries(NUMBER, "thinktime_blocks thinkcycles max_latency latency_target latency_window"),
        **entries(NUMBER, "latency_percentile"),
        **entries(NUMBER, "latency_run"),
        **entries(WORD, "rate_process thinktime_blocks_type priohint"),
        **entries(_TIME, "runtime timeout ramp_time startdelay"),
        **entries(NUMBER, "time_based ramp_size stonewall wait_for_previous new_group exitall exitall_on_error"),
        **entries(NUMBER, "flow flow_id flow_sleep flow_watermark"),
        **entries(TEXT, "wait_for description"),
        **entries(WORD, "exit_what continue_on_error ignore_error steadystate ss"),
        **entries(NUMBER, "error_dump steadystate_duration ss_dur steadystate_ramp_time ss_ramp"),
        **entries(NUMBER, "steadystate_check_interval ss_interval"),
        # Zones and trims.
        **entries(NUMBER, "zonerange zonesize zonecapacity zoneskip read_beyond_wp max_open_zones"),
        **entries(NUMBER, "job_max_open_zones ignore_zone_limits zone_reset_threshold zone_reset_frequency"),
        **entries(NUMBER, "recover_zbd_write_error trim_percentage trim_verify_zero trim_backlog"),
        **entries(NUMBER, "trim_backlog_batch"),
        # What is written, and whether it is read back.
        **entries(NUMBER, "zero_buffers refill_buffers scramble_buffers buffer_compress_percentage"),
        **entries(NUMBER, "buffer_compress_chunk dedupe_percentage dedupe_global dedupe_working_set_percentage"),
        **entries(WORD, "dedupe_mode verify"),
        **entries(_PATTERN, "buffer_pattern verify_pattern"),
        **entries(NUMBER, "do_verify verify_interval verify_offset verify_backlog verify_backlog_batch"),
        **entries(NUMBER, "verify_async"),
        **entries(NUMBER, "verify_fatal verify_only verify_write_sequence verify_header_seed experimental_verify"),
        **entries(words("0"), "verify_state_save verify_dump"),
        # The job's own place in memory and on CPUs.
        **entries(_MEMORY, "mem iomem"),
        **entries(NUMBER, "mem_align iomem_align lockmem nice prio prioclass cpumask gtod_cpu"),
        **entries(NUMBERS, "cpus_allowed verify_async_cpus numa_cpu_nodes"),
        **entries(WORD, "cpus_allowed_policy numa_mem_policy clocksource"),
        # Reports: blocklab's own come last.
        **entries(NUMBER, "disable_clat disable_slat disable_bw_measurement disable_bw significant_figures stats"),
        **entries(NUMBER, "disk_util bwavgtime iopsavgtime unit_base block_error_percentiles"),
        **entries(words("0", "false"), "gtod_reduce disable_lat"),
        # They have no effect, and do not reach the host.
        **dict.fromkeys(OURS, Shape("a text", r".*")),
        # Of engines.
        **entries(NUMBER, "hipri hipri_percentage nowait uncached userspace_reap libaio_vectored fixedbufs"),
        **entries(NUMBER, "registerfiles"),
        **entries(NUMBER, "sqthread_poll sqthread_poll_cpu nonvectored force_async cmdprio_percentage thp"),
        **entries(NUMBERS, "cmdprio cmdprio_class cmdprio_hint"),
        **entries(_SPLIT, "cmdprio_bssplit"),
        **entries(NUMBER, "md_per_io_size pi_act apptag apptag_mask readfua writefua deac"),
        **entries(WORD, "pi_chk write_mode verify_mode"),
        **entries(NUMBER, "fdp"),
        **entries(NUMBERS, "plids fdp_pli"),
        **entries(WORD, "dataplacement data_placement plid_select fdp_pli_select"),
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
