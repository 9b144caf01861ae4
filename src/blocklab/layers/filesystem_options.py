"""Which options of mkfs and mount a study may set: those that stay on the device that they are given.

mkfs.xfs(8) of xfsprogs 6.13, mke2fs(8) of e2fsprogs 1.47, mount(8), xfs(5), ext4(5).
"""

from __future__ import annotations

from blocklab.model.allowed import LABEL, NOTHING, NUMBER, WORD, Allowed, Shape, entries, words

_OPTIONAL = Shape("a number", rf"(?:{NUMBER.form})?")
_OTHER_DEVICE = "it names another device, and a study writes to its own volumes alone"
_FEATURES = Shape("a list of features like ^has_journal,extent", r"\^?[A-Za-z0-9_]+(?:,\^?[A-Za-z0-9_]+)*")
_OWNER = Shape("a user and a group like 0:0", r"(?:\d+:\d+)?")
_DAX = Shape("one of always, inode, never", r"(?:always|inode|never)?")
_NO_RUN = "mkfs would make nothing"
_READS = "it reads a file of the host"
_REALTIME = "a realtime section needs another device; leave it out"

MKFS_XFS = Allowed(
    "mkfs.xfs",
    {
        **entries(NUMBER, "-b|size -s|size -s|sectsize"),
        **entries(NUMBER, "-m|crc -m|finobt -m|inobtcount -m|bigtime -m|rmapbt -m|reflink -m|metadir -m|autofsck"),
        **entries(WORD, "-m|uuid"),
        **entries(NUMBER, "-d|agcount -d|agsize -d|size -d|sunit -d|su -d|swidth -d|sw -d|sectsize -d|cowextsize"),
        **entries(NUMBER, "-d|projinherit -d|extszinherit -d|concurrency"),
        **entries(_OPTIONAL, "-d|noalign -d|daxinherit -d|rtinherit"),
        **entries(NUMBER, "-i|size -i|perblock -i|maxpct -i|attr -i|exchange"),
        **entries(_OPTIONAL, "-i|align -i|projid32bit -i|sparse -i|nrext64"),
        **entries(NUMBER, "-l|agnum -l|size -l|version -l|sunit -l|su -l|sectsize -l|lazy-count -l|concurrency"),
        **entries(_OPTIONAL, "-l|internal"),
        **entries(NUMBER, "-n|size -n|log -n|ftype -n|parent"),
        **entries(WORD, "-n|version"),
        **entries(LABEL, "-L"),
        **entries(NOTHING, "-f -q -K --unsupported"),
    },
    {
        "-l|logdev": _OTHER_DEVICE, "-l|name": _OTHER_DEVICE, "-l|file": _OTHER_DEVICE,
        "-d|name": _OTHER_DEVICE, "-d|file": _OTHER_DEVICE, "-r": _REALTIME, "-r|*": _REALTIME,
        "-p": _READS, "-p|*": _READS, "-c|*": _READS, "-N": _NO_RUN,
    },
)  # fmt: skip

MKFS_EXT4 = Allowed(
    "mkfs.ext4",
    {
        **entries(NUMBER, "-b -C -g -G -i -I -m -N -r"),
        **entries(NUMBER, "-E|mmp_update_interval -E|stride -E|stripe_width -E|stripe-width -E|resize"),
        **entries(NUMBER, "-E|num_backup_sb -E|orphan_file_size -E|desc_size -E|desc-size"),
        **entries(_OPTIONAL, "-E|lazy_itable_init -E|lazy_journal_init -E|packed_meta_blocks"),
        **entries(_OPTIONAL, "-E|assume_storage_prezeroed"),
        **entries(NOTHING, "-E|discard -E|nodiscard -E|no_copy_xattrs -E|test_fs"),
        **entries(_OWNER, "-E|root_owner"),
        **entries(WORD, "-E|root_perms -E|encoding -E|encoding_flags -E|hash_seed -E|quotatype -E|hash_alg"),
        **entries(NUMBER, "-J|size -J|fast_commit_size -J|location"),
        **entries(words("continue", "remount-ro"), "-e"),
        **entries(words("ext2", "ext3", "ext4"), "-t"),
        **entries(_FEATURES, "-O"),
        **entries(LABEL, "-L -T"),
        **entries(WORD, "-U"),
        **entries(NOTHING, "-D -F -j -K -q -v"),
    },
    {
        "-J|device": _OTHER_DEVICE, "-z": "it writes a file of the host", "-d": _READS, "-l": _READS,
        "-n": _NO_RUN, "-S": _NO_RUN, "-V": _NO_RUN,
    },
)  # fmt: skip

_ANY_FS = {
    **entries(NOTHING, "async sync dirsync atime noatime diratime nodiratime relatime norelatime strictatime"),
    **entries(
        NOTHING, "nostrictatime lazytime nolazytime dev nodev exec noexec suid nosuid symfollow nosymfollow"
    ),
    **entries(
        NOTHING, "defaults auto noauto nofail nouser rw ro silent loud mand nomand iversion noiversion _netdev"
    ),
    **entries(
        NOTHING, "discard nodiscard grpid bsdgroups nogrpid sysvgroups noquota quota usrquota grpquota prjquota"
    ),
    # xfs lost it in Linux 4.19, and ext4 has it in three spellings.
    **entries(_OPTIONAL, "barrier"),
    **entries(NOTHING, "nobarrier norecovery"),
    **entries(_DAX, "dax"),
}
_OTHER_MOUNT = {
    "loop": "it makes a device of the host's own", "remount": "it is for what is mounted already",
    "bind": "it is for folders", "user": "others could unmount it", "users": "others could unmount it",
}  # fmt: skip
MOUNT_XFS = Allowed(
    "xfs",
    {
        **_ANY_FS,
        **entries(
            NOTHING, "attr2 noattr2 filestreams ikeep noikeep inode32 inode64 largeio nolargeio noalign nouuid"
        ),
        **entries(NOTHING, "uquota uqnoenforce qnoenforce gquota gqnoenforce pquota pqnoenforce swalloc wsync"),
        **entries(NOTHING, "lifetime nolifetime"),
        **entries(NUMBER, "allocsize logbufs logbsize sunit swidth max_atomic_write max_open_zones"),
    },
    {**_OTHER_MOUNT, "logdev": _OTHER_DEVICE, "rtdev": _OTHER_DEVICE},
)
MOUNT_EXT4 = Allowed(
    "ext4",
    {
        **_ANY_FS,
        **entries(NOTHING, "journal_checksum nojournal_checksum journal_async_commit orlov oldalloc user_xattr"),
        **entries(NOTHING, "nouser_xattr acl noacl bsddf minixdf debug delalloc nodelalloc noauto_da_alloc"),
        **entries(NOTHING, "noinit_itable"),
        **entries(NOTHING, "nouid32 block_validity noblock_validity dioread_lock dioread_nolock nodioread_nolock"),
        **entries(NOTHING, "i_version mbcache nombcache no_mbcache prefetch_block_bitmaps"),
        **entries(NOTHING, "no_prefetch_block_bitmaps"),
        **entries(NOTHING, "inlinecrypt noload warn_on_error nowarn_on_error reservation noreservation"),
        **entries(NUMBER, "journal_ioprio commit inode_readahead_blks resgid resuid sb max_batch_time"),
        **entries(NUMBER, "min_batch_time"),
        **entries(NUMBER, "max_dir_size_kb mb_optimize_scan stripe"),
        **entries(_OPTIONAL, "auto_da_alloc init_itable"),
        **entries(words("journal", "ordered", "writeback"), "data"),
        **entries(words("ignore", "abort"), "data_err"),
        **entries(words("continue", "remount-ro"), "errors"),
    },
    {
        **_OTHER_MOUNT, "journal_path": _OTHER_DEVICE, "journal_dev": _OTHER_DEVICE,
        "abort": "nothing could be written to it",
    },
)  # fmt: skip
