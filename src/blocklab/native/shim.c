/*
 * umlidle: works around three faults of User Mode Linux 7.2, for use with LD_PRELOAD. Two lose a device's interrupt,
 * one keeps a page of the kernel from a volume's daemon.
 *
 * The idle race (it loses time). A device of a UML kernel raises its interrupt as the host signal SIGIO. When UML has
 * "interrupts off", its handler only notes the signal and returns; the interrupt is run when they go on again. An idle
 * CPU does this:
 *
 *     interrupts off
 *     <-- (1) a SIGIO that comes here is noted, nothing else
 *     os_idle_sleep():  block SIGALRM; unless need_resched or a timer is due:
 *     <-- (2) or here
 *         poll(signalfd for SIGALRM, no timeout)     any later signal ends the poll with EINTR
 *     interrupts on: run what was noted
 *
 * SIGALRM is safe, since it is blocked and the descriptor polled stands for it. A SIGIO at (1) or (2) is not: nobody
 * looks at the note, poll sleeps, and the packet or finished I/O waits for the next signal: often the next timer
 * tick, 10 ms later. How often that happens differs from boot to boot: synchronous writes over a mirror become 1 to 3
 * times slower on average, and the slowest in a thousand take 2 to 9 ms instead of about 1 (figures in image.py).
 *
 * The cure. Count the SIGIOs, and let the idle poll sleep only if none came since the last idle poll returned; the
 * check and the going to sleep are made one by holding SIGIO blocked in between (ppoll unblocks it atomically). A
 * SIGIO that was handled in full since then costs one idle round for nothing, and that is all it costs.
 *
 * The nested pass (it loses an interrupt for good). UML's handler for SIGIO asks epoll which descriptors are ready and
 * runs the interrupts of them all, again and again until none is ready:
 *
 *     while ((n = epoll_wait(epollfd, epoll_events, 64, 0)) > 0)
 *             for (i = 0; i < n; i++)
 *                     run the interrupt of epoll_events[i], then softirqs    <-- interrupts are on meanwhile
 *
 * A SIGIO during the softirqs starts a second pass inside the first one. epoll_events is global and the descriptors
 * are edge-triggered: what the inner pass finds takes the places of what the outer one has yet to run, and epoll does
 * not tell of that again. A NIC or a ubd disk makes up for it with its next packet or request. A virtio disk cannot:
 * its daemon does not ring again before the first ring was answered, so its I/O stands still until the node ends. It
 * takes a third busy descriptor besides the disk's and a NIC's: two lanes and a virtio volume hung
 * in nearly every run, after 30 to 900 MB of mirrored writes, without this shim too.
 *
 * The cure. An inner pass is told that nothing is ready. Nothing is lost by that, since the outer one asks again
 * before it ends. A pass is known by the place of its frame on the stack: the same for every turn of its loop, another
 * one for a pass inside it.
 *
 * The hidden page (it stops a volume for good). Memory that a process has read but never written to is the kernel's
 * one page of zeros. A direct write may come from there (InnoDB's first one to its log), and the kernel itself writes
 * from there where a device cannot be told to zero (blkdev_issue_zeroout: ext4 on MD RAID-1 and RAID-10). In this kernel
 * the page is a part of the program, below the memory that virtio_uml.c tells a vhost-user daemon of
 * (VHOST_USER_SET_MEM_TABLE). Such a write gets an I/O error from the volume's server.
 *
 *     guest address   0           zero_page_pfn           uml_reserved              end of memory
 *     program         text, data, [page of zeros], bss    |
 *     file            hole ...... [hole = zeros] ........ | memory .................|
 *     told the daemon             ^ what this adds        |<---- what UML tells --->|
 *
 * The cure. One more region, of that page alone, out of the same file: UML maps this very place of it into processes
 * as their page of zeros. Not of the whole program: the file is all zeros there, so a write from some other static
 * buffer would store zeros in silence, where it now stops. The kernel exports the page's number as `zero_page_pfn`.
 *
 * Nothing else changes: other signals, other messages, other polls and other threads go straight to libc.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

typedef void handler_fn(int, siginfo_t *, void *);

/* tools.py asks for it, and looks for it. */
#define ASKED "UMLIDLE_REPORT"
#define FOUND "umlidle: found the page of zeros\n"

static int (*libc_sigaction)(int, const struct sigaction *, struct sigaction *);
static int (*libc_poll)(struct pollfd *, nfds_t, int);
static int (*libc_epoll_wait)(int, struct epoll_event *, int, int);
static ssize_t (*libc_sendmsg)(int, const struct msghdr *, int);
static pid_t main_thread;

static handler_fn *uml_handler;   /* what UML set for SIGIO; count_sigio stands in its place */
static atomic_ulong arrived;      /* SIGIOs since the start */
static unsigned long accounted;   /* value of `arrived` when the last idle poll returned; main thread only */
static void *pass;                /* frame of the pass under way, NULL for none */
static const unsigned long *zero_page_pfn; /* the kernel's variable; NULL when it exports none */

/* An entry of the kernel's table of what modules may use; all three are addresses in this process. */
struct exported {
	const unsigned long *value;
	const char *name, *name_space;
};

static const Elf64_Shdr *section(const Elf64_Shdr *sections, int count, const char *names, const char *wanted)
{
	for (int i = 0; i < count; i++)
		if (!strcmp(names + sections[i].sh_name, wanted))
			return &sections[i];
	return NULL;
}

/* No malloc: UML puts its own in the place of libc's. */
static void find_zero_page(int program)
{
	Elf64_Ehdr elf;
	Elf64_Shdr sections[64];
	const Elf64_Shdr *table, *strings;
	char names[2048] = "";
	size_t size;

	if (pread(program, &elf, sizeof(elf), 0) != sizeof(elf) || elf.e_type != ET_EXEC)
		return;
	size = elf.e_shnum * sizeof(Elf64_Shdr);
	if (size > sizeof(sections) || elf.e_shstrndx >= elf.e_shnum)
		return;
	if (pread(program, sections, size, (off_t)elf.e_shoff) != (ssize_t)size)
		return;
	size = sections[elf.e_shstrndx].sh_size;
	if (size >= sizeof(names))
		return;
	if (pread(program, names, size, (off_t)sections[elf.e_shstrndx].sh_offset) != (ssize_t)size)
		return;
	table = section(sections, elf.e_shnum, names, "__ksymtab");
	strings = section(sections, elf.e_shnum, names, "__ksymtab_strings");
	if (!table || !strings)
		return;
	for (size_t i = 0; i < table->sh_size / sizeof(struct exported); i++) {
		const struct exported *entry = (const struct exported *)table->sh_addr + i;

		/* Also what an entry of another layout would show as. */
		if ((uintptr_t)entry->name - strings->sh_addr >= strings->sh_size)
			return;
		if (!strcmp(entry->name, "zero_page_pfn"))
			zero_page_pfn = entry->value;
	}
}

/* The loader runs this again after UML has re-executed itself, so main_thread is the thread that runs the kernel. */
__attribute__((constructor)) static void umlidle_start(void)
{
	int program;

	libc_sigaction = (int (*)(int, const struct sigaction *, struct sigaction *))dlsym(RTLD_NEXT, "sigaction");
	libc_poll = (int (*)(struct pollfd *, nfds_t, int))dlsym(RTLD_NEXT, "poll");
	libc_epoll_wait = (int (*)(int, struct epoll_event *, int, int))dlsym(RTLD_NEXT, "epoll_wait");
	libc_sendmsg = (ssize_t (*)(int, const struct msghdr *, int))dlsym(RTLD_NEXT, "sendmsg");
	main_thread = (pid_t)syscall(SYS_gettid);
	program = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	if (program >= 0) {
		find_zero_page(program);
		close(program);
	}
	if (zero_page_pfn && getenv(ASKED) && write(2, FOUND, sizeof(FOUND) - 1) < 0)
		return;
}

static void count_sigio(int signal, siginfo_t *info, void *context)
{
	atomic_fetch_add(&arrived, 1);
	uml_handler(signal, info, context);
}

int sigaction(int signal, const struct sigaction *wanted, struct sigaction *previous)
{
	handler_fn *before = uml_handler;
	struct sigaction ours;

	if (signal != SIGIO)
		return libc_sigaction(signal, wanted, previous);

	if (wanted && (wanted->sa_flags & SA_SIGINFO) && wanted->sa_sigaction != count_sigio) {
		uml_handler = wanted->sa_sigaction;
		ours = *wanted;
		ours.sa_sigaction = count_sigio;
		wanted = &ours;
	}
	if (libc_sigaction(signal, wanted, previous) != 0)
		return -1;
	/* UML must see its own handler, or its boot hangs. */
	if (previous && (previous->sa_flags & SA_SIGINFO) && previous->sa_sigaction == count_sigio)
		previous->sa_sigaction = before;
	return 0;
}

int poll(struct pollfd *fds, nfds_t count, int timeout)
{
	static const struct timespec at_once = {0, 0};
	sigset_t sigio, before;
	int result, error;

	/* Only the idle loop polls one descriptor without a timeout on this thread. */
	if (count != 1 || timeout != -1 || (pid_t)syscall(SYS_gettid) != main_thread)
		return libc_poll(fds, count, timeout);

	sigemptyset(&sigio);
	sigaddset(&sigio, SIGIO);
	sigprocmask(SIG_BLOCK, &sigio, &before);
	if (atomic_load(&arrived) == accounted) {
		result = ppoll(fds, count, NULL, &before);
	} else {
		result = ppoll(fds, count, &at_once, NULL);
		if (result == 0) { /* as if the SIGIO had come during the poll */
			result = -1;
			errno = EINTR;
		}
	}
	error = errno;
	accounted = atomic_load(&arrived);
	sigprocmask(SIG_SETMASK, &before, NULL);
	errno = error;
	return result;
}

int epoll_wait(int epoll, struct epoll_event *events, int most, int timeout)
{
	void *frame = __builtin_frame_address(0);
	int result;

	/* Only the handler of SIGIO looks without waiting. No system call to ask for the thread: it would take 20 us of
	 * each mirrored write, and this kernel has one CPU, so one thread that runs it. */
	if (timeout != 0)
		return libc_epoll_wait(epoll, events, most, timeout);

	if (pass && pass != frame)
		return 0;
	/* UML has interrupts off in here, so no inner pass can start before `pass` is set. */
	result = libc_epoll_wait(epoll, events, most, timeout);
	pass = result > 0 ? frame : NULL;
	return result;
}

enum { SET_MEM_TABLE = 5, MOST_REGIONS = 8, PAGE = 4096 };

/* Of the vhost-user protocol; `size` counts the bytes after itself. */
struct mem_table {
	uint32_t request, flags, size;
	uint32_t count, padding;
	struct region {
		uint64_t guest, size, user, offset;
	} regions[MOST_REGIONS];
} __attribute__((packed));

/* Adds the region of the page of zeros to `table` and its file to `fds`; 0 where that is not called for. */
static int add_zero_page(struct mem_table *table, int *fds)
{
	uint64_t page = *zero_page_pfn * PAGE;

	for (uint32_t i = 0; i < table->count; i++)
		if (page - table->regions[i].guest < table->regions[i].size)
			return 0;
	/* Only where the file has each page of the memory at its own address. */
	if (table->regions[0].offset != table->regions[0].guest)
		return 0;
	table->regions[table->count] = (struct region){.guest = page, .size = PAGE, .user = page, .offset = page};
	fds[table->count++] = fds[0];
	return 1;
}

ssize_t sendmsg(int socket, const struct msghdr *message, int flags)
{
	static const size_t head = offsetof(struct mem_table, count), body = offsetof(struct mem_table, regions);
	struct mem_table table = {0};
	union {
		char bytes[CMSG_SPACE(MOST_REGIONS * sizeof(int))];
		struct cmsghdr aligned;
	} control = {0};
	struct msghdr ours = *message;
	struct cmsghdr *files = CMSG_FIRSTHDR(message), *copied;
	struct iovec *data = message->msg_iov, whole = {.iov_base = &table};
	int fds[MOST_REGIONS];
	ssize_t sent;

	if (!zero_page_pfn || !files || files->cmsg_level != SOL_SOCKET || files->cmsg_type != SCM_RIGHTS ||
	    message->msg_iovlen != 1 || data->iov_len < body || data->iov_len > sizeof(table))
		return libc_sendmsg(socket, message, flags);
	memcpy(&table, data->iov_base, data->iov_len);
	if (table.request != SET_MEM_TABLE || table.size != data->iov_len - head || table.count < 1 ||
	    table.count >= MOST_REGIONS || table.size < body - head + table.count * sizeof(struct region) ||
	    files->cmsg_len != CMSG_LEN(table.count * sizeof(int)))
		return libc_sendmsg(socket, message, flags);
	memcpy(fds, CMSG_DATA(files), table.count * sizeof(int));
	if (!add_zero_page(&table, fds))
		return libc_sendmsg(socket, message, flags);

	table.size = (uint32_t)(body - head + table.count * sizeof(struct region));
	whole.iov_len = head + table.size;
	ours.msg_iov = &whole;
	ours.msg_control = control.bytes;
	ours.msg_controllen = CMSG_SPACE(table.count * sizeof(int));
	copied = CMSG_FIRSTHDR(&ours);
	copied->cmsg_level = SOL_SOCKET;
	copied->cmsg_type = SCM_RIGHTS;
	copied->cmsg_len = CMSG_LEN(table.count * sizeof(int));
	memcpy(CMSG_DATA(copied), fds, table.count * sizeof(int));
	sent = libc_sendmsg(socket, &ours, flags);
	if (sent >= 0 && (size_t)sent != whole.iov_len) {
		errno = EIO; /* The rest cannot be sent by UML, which does not know of it. */
		return -1;
	}
	return sent < 0 ? sent : (ssize_t)data->iov_len;
}
