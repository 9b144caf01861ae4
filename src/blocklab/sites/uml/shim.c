/*
 * umlidle: works around two faults of User Mode Linux 7.2 that lose a device's interrupt, for use with LD_PRELOAD.
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
 * takes a third busy descriptor besides the disk's and a NIC's: two lanes and a volume behind the storage daemon hung
 * in nearly every run, after 30 to 900 MB of mirrored writes, without this shim too.
 *
 * The cure. An inner pass is told that nothing is ready. Nothing is lost by that, since the outer one asks again
 * before it ends. A pass is known by the place of its frame on the stack: the same for every turn of its loop, another
 * one for a pass inside it.
 *
 * Nothing else changes: other signals, other polls and other threads go straight to libc.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

typedef void handler_fn(int, siginfo_t *, void *);

static int (*libc_sigaction)(int, const struct sigaction *, struct sigaction *);
static int (*libc_poll)(struct pollfd *, nfds_t, int);
static int (*libc_epoll_wait)(int, struct epoll_event *, int, int);
static pid_t main_thread;

static handler_fn *uml_handler;   /* what UML set for SIGIO; count_sigio stands in its place */
static atomic_ulong arrived;      /* SIGIOs since the start */
static unsigned long accounted;   /* value of `arrived` when the last idle poll returned; main thread only */
static void *pass;                /* frame of the pass under way, NULL for none */

/* The loader runs this again after UML has re-executed itself, so main_thread is the thread that runs the kernel. */
__attribute__((constructor)) static void umlidle_start(void)
{
	libc_sigaction = (int (*)(int, const struct sigaction *, struct sigaction *))dlsym(RTLD_NEXT, "sigaction");
	libc_poll = (int (*)(struct pollfd *, nfds_t, int))dlsym(RTLD_NEXT, "poll");
	libc_epoll_wait = (int (*)(int, struct epoll_event *, int, int))dlsym(RTLD_NEXT, "epoll_wait");
	main_thread = (pid_t)syscall(SYS_gettid);
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
