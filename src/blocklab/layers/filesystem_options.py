"""Which options of mkfs and mount a study may set: those that stay on the device that they are given.

mkfs.xfs(8) of xfsprogs 6.13, mke2fs(8) of e2fsprogs 1.47, mount(8), xfs(5), ext4(5).
"""

from __future__ import annotations

from blocklab.model.allowed import LABEL, NOTHING, NUMBER, WORD, Allowed, Shape, each, words

_OPTIONAL = Shape("a number", rf"(?:{NUMBER.form})?")
_OTHER_DEVICE = "it names another device, and a study writes to its own volumes alone"
_FEATURES = Shape("a list of features like ^has_journal,extent", r"\^?[A-Za-z0-9_]+(?:,\^?[A-Za-z0-9_]+)*")
_NO_RUN = "mkfs would make nothing"
_READS = "it reads a file of the host"
_REALTIME = "a realtime section needs another device; leave it out"

MKFS_XFS = Allowed(
    "mkfs.xfs",
    {
        **each(NUMBER, "-b|size -s|size -s|sectsize"),
        **each(NUMBER, "-m|crc -m|finobt -m|inobtcount -m|bigtime -m|rmapbt -m|reflink -m|metadir -m|autofsck"),
        **each(WORD, "-m|uuid"),
        **each(NUMBER, "-d|agcount -d|agsize -d|size -d|sunit -d|su -d|swidth -d|sw -d|sectsize -d|cowextsize"),
        **each(NUMBER, "-d|projinherit -d|extszinherit -d|concurrency"),
        **each(_OPTIONAL, "-d|noalign -d|daxinherit -d|rtinherit"),
        **each(NUMBER, "-i|size -i|perblock -i|maxpct -i|attr -i|exchange"),
        **each(_OPTIONAL, "-i|align -i|projid32bit -i|sparse -i|nrext64"),
        **each(NUMBER, "-l|agnum -l|size -l|version -l|sunit -l|su -l|sectsize -l|lazy-count -l|concurrency"),
        **each(_OPTIONAL, "-l|internal"),
        **each(NUMBER, "-n|size -n|log -n|ftype -n|parent"),
        **each(WORD, "-n|version"),
        **each(LABEL, "-L"),
        **each(NOTHING, "-f -q -K --unsupported"),
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
        **each(NUMBER, "-b -C -g -G -i -I -m -N -r"),
        **each(NUMBER, "-E|mmp_update_interval -E|stride -E|stripe_width -E|stripe-width -E|resize"),
        **each(NUMBER, "-E|num_backup_sb -E|orphan_file_size -E|desc_size -E|desc-size"),
        **each(_OPTIONAL, "-E|lazy_itable_init -E|lazy_journal_init -E|packed_meta_blocks"),
        **each(_OPTIONAL, "-E|assume_storage_prezeroed"),
        **each(NOTHING, "-E|discard -E|nodiscard -E|no_copy_xattrs -E|test_fs"),
        **each(Shape("a user and a group like 0:0", r"(?:\d+:\d+)?"), "-E|root_owner"),
        **each(WORD, "-E|root_perms -E|encoding -E|encoding_flags -E|hash_seed -E|quotatype -E|hash_alg"),
        **each(NUMBER, "-J|size -J|fast_commit_size -J|location"),
        **each(words("continue", "remount-ro"), "-e"),
        **each(words("ext2", "ext3", "ext4"), "-t"),
        **each(_FEATURES, "-O"),
        **each(LABEL, "-L -T"),
        **each(WORD, "-U"),
        **each(NOTHING, "-D -F -j -K -q -v"),
    },
    {
        "-J|device": _OTHER_DEVICE, "-z": "it writes a file of the host", "-d": _READS, "-l": _READS,
        "-n": _NO_RUN, "-S": _NO_RUN, "-V": _NO_RUN,
    },
)  # fmt: skip

_ANY_FS = {
    **each(NOTHING, "async sync dirsync atime noatime diratime nodiratime relatime norelatime strictatime"),
    **each(NOTHING, "nostrictatime lazytime nolazytime dev nodev exec noexec suid nosuid symfollow nosymfollow"),
    **each(
        NOTHING, "defaults auto noauto nofail nouser rw ro silent loud mand nomand iversion noiversion _netdev"
    ),
    **each(
        NOTHING, "discard nodiscard grpid bsdgroups nogrpid sysvgroups noquota quota usrquota grpquota prjquota"
    ),
    # xfs lost it in Linux 4.19, and ext4 has it in three spellings.
    **each(_OPTIONAL, "barrier"),
    **each(NOTHING, "nobarrier norecovery"),
    **each(Shape("one of always, inode, never", "(?:always|inode|never)?"), "dax"),
}
_OTHER_MOUNT = {
    "loop": "it makes a device of the host's own", "remount": "it is for what is mounted already",
    "bind": "it is for folders", "user": "others could unmount it", "users": "others could unmount it",
}  # fmt: skip
MOUNT_XFS = Allowed(
    "xfs",
    {
        **_ANY_FS,
        **each(
            NOTHING, "attr2 noattr2 filestreams ikeep noikeep inode32 inode64 largeio nolargeio noalign nouuid"
        ),
        **each(NOTHING, "uquota uqnoenforce qnoenforce gquota gqnoenforce pquota pqnoenforce swalloc wsync"),
        **each(NOTHING, "lifetime nolifetime"),
        **each(NUMBER, "allocsize logbufs logbsize sunit swidth max_atomic_write max_open_zones"),
    },
    {**_OTHER_MOUNT, "logdev": _OTHER_DEVICE, "rtdev": _OTHER_DEVICE},
)
MOUNT_EXT4 = Allowed(
    "ext4",
    {
        **_ANY_FS,
        **each(NOTHING, "journal_checksum nojournal_checksum journal_async_commit orlov oldalloc user_xattr"),
        **each(NOTHING, "nouser_xattr acl noacl bsddf minixdf debug delalloc nodelalloc noauto_da_alloc"),
        **each(NOTHING, "noinit_itable"),
        **each(NOTHING, "nouid32 block_validity noblock_validity dioread_lock dioread_nolock nodioread_nolock"),
        **each(NOTHING, "i_version mbcache nombcache no_mbcache prefetch_block_bitmaps no_prefetch_block_bitmaps"),
        **each(NOTHING, "inlinecrypt noload warn_on_error nowarn_on_error reservation noreservation"),
        **each(NUMBER, "journal_ioprio commit inode_readahead_blks resgid resuid sb max_batch_time"),
        **each(NUMBER, "min_batch_time"),
        **each(NUMBER, "max_dir_size_kb mb_optimize_scan stripe"),
        **each(_OPTIONAL, "auto_da_alloc init_itable"),
        **each(words("journal", "ordered", "writeback"), "data"),
        **each(words("ignore", "abort"), "data_err"),
        **each(words("continue", "remount-ro"), "errors"),
    },
    {
        **_OTHER_MOUNT, "journal_path": _OTHER_DEVICE, "journal_dev": _OTHER_DEVICE,
        "abort": "nothing could be written to it",
    },
)  # fmt: skip
