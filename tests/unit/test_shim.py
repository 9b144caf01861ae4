"""What the shim does to the nodes' kernel, on a model of its loop; on real nodes in lab/test_mirrors.py."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from blocklab.sites.uml import tools

# A pass of User Mode Linux's handler for SIGIO. During the outer pass's first interrupt comes a SIGIO: its own
# descriptor and a third one are ready. Prints how many bytes each interrupt has read.
PASSES = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <unistd.h>

static struct epoll_event events[64];
static int pipes[3][2], epoll, depth, bytes[3];

static void ring(int number)
{
	if (write(pipes[number][1], "x", 1) != 1)
		_exit(2);
}

static void __attribute__((noinline)) pass(void)
{
	char byte;
	int ready, slot, number;

	depth++;
	while ((ready = epoll_wait(epoll, events, 64, 0)) > 0)
		for (slot = 0; slot < ready; slot++) {
			number = events[slot].data.fd;
			while (read(pipes[number][0], &byte, 1) == 1)
				bytes[number]++;
			if (depth == 1 && number == 0 && bytes[0] == 1) {
				ring(0);
				ring(2);
				pass();
			}
		}
	depth--;
}

int main(void)
{
	int number;

	epoll = epoll_create(64);
	for (number = 0; number < 3; number++) {
		struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.fd = number};

		if (pipe2(pipes[number], O_NONBLOCK) || epoll_ctl(epoll, EPOLL_CTL_ADD, pipes[number][0], &event))
			return 2;
	}
	ring(0);
	ring(1);
	pass();
	/* A later SIGIO: what was lost is not reported a second time. */
	pass();
	printf("%d %d %d", bytes[0], bytes[1], bytes[2]);
	return 0;
}
"""


# A kernel as far as the shim looks at it: its table of exports, and the message that tells a daemon of its memory.
# Page 7 is the page of zeros; the memory that is told begins at argv[1], where the file has it at argv[2]. Prints
# whether all was sent, whether it arrived whole, and the regions, each with its file's size.
KERNEL = r"""
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>

static unsigned long zero_page_pfn = 7, other;
#define STRING __attribute__((section("__ksymtab_strings"), used)) static const char
STRING first[] = "zero_page", second[] = "zero_page_pfn";
__attribute__((section("__ksymtab"), used)) static struct {
	void *value;
	const char *name, *space;
} exports[] = {{&other, first, first}, {&zero_page_pfn, second, first}};

struct table {
	uint32_t request, flags, size, count, padding;
	struct {
		uint64_t guest, size, user, offset;
	} regions[2];
} __attribute__((packed));

int main(int argc, char **argv)
{
	uint64_t guest = strtoull(argv[1], NULL, 0), offset = strtoull(argv[2], NULL, 0);
	struct table sent = {atoi(argv[3]), 1, 72, 1, 0, {{guest, 65536, guest, offset}}}, got = {0};
	char space[CMSG_SPACE(8 * sizeof(int))] = {0};
	struct iovec data = {&sent, sizeof(sent)};
	struct msghdr message = {
		.msg_iov = &data,
		.msg_iovlen = 1,
		.msg_control = space,
		.msg_controllen = CMSG_SPACE(sizeof(int)),
	};
	struct cmsghdr *files = CMSG_FIRSTHDR(&message);
	FILE *memory = tmpfile();
	int ends[2], fd = fileno(memory);

	if (argc != 4 || socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
		return 2;
	if (fputs("memory", memory) < 0 || fflush(memory))
		return 2;
	files->cmsg_level = SOL_SOCKET;
	files->cmsg_type = SCM_RIGHTS;
	files->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(files), &fd, sizeof(int));
	printf("%d", sendmsg(ends[0], &message, 0) == (ssize_t)sizeof(sent));
	data.iov_base = &got;
	message.msg_controllen = sizeof(space);
	printf(" %d", recvmsg(ends[1], &message, 0) == (ssize_t)got.size + 12);
	for (uint32_t i = 0; i < got.count; i++) {
		struct stat stat = {0};

		memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)) + i * sizeof(int), sizeof(int));
		fstat(fd, &stat);
		printf(" %#lx+%#lx", (long)got.regions[i].guest, (long)got.regions[i].size);
		printf("=%#lx@%#lx", (long)got.regions[i].user, (long)got.regions[i].offset);
		printf(":%ld", (long)stat.st_size);
	}
	return message.msg_controllen != CMSG_SPACE(got.count * sizeof(int));
}
"""


def compiled(folder: Path, source: str) -> tuple[Path, Path]:
    """A program, and the shim. At fixed addresses, as the kernel is."""
    if shutil.which("cc") is None:
        pytest.skip("this machine has no C compiler")
    text, program, shim = folder / "program.c", folder / "program", folder / "shim.so"
    text.write_text(source)
    subprocess.run(["cc", "-O2", "-no-pie", "-fno-pie", "-o", str(program), str(text)], check=True)
    assert tools.compile_shim(shim, io.StringIO()) == ""
    return program, shim


def printed(program: Path, *arguments: str, **env: str) -> str:
    argv = [str(program), *arguments]
    return subprocess.check_output(argv, env={**os.environ, **env}, timeout=10, stderr=subprocess.STDOUT).decode()


def test_a_pass_inside_a_pass_loses_no_interrupt(tmp_path: Path) -> None:
    program, shim = compiled(tmp_path, PASSES)
    # The fault itself: the second one is never run, though its descriptor stays ready.
    assert printed(program) == "2 0 1"
    assert printed(program, LD_PRELOAD=str(shim)) == "2 1 1"


@pytest.mark.parametrize(
    ("arguments", "without", "added"),
    [
        (("0x8000", "0x8000", "5"), "1 1 0x8000+0x10000=0x8000@0x8000:6", " 0x7000+0x1000=0x7000@0x7000:6"),
        # Memory that has the page in it, a file that has the memory elsewhere, and another message.
        (("0x7000", "0x7000", "5"), "1 1 0x7000+0x10000=0x7000@0x7000:6", ""),
        (("0x8000", "0", "5"), "1 1 0x8000+0x10000=0x8000@0:6", ""),
        (("0x8000", "0x8000", "6"), "1 1 0x8000+0x10000=0x8000@0x8000:6", ""),
    ],
)
def test_a_daemon_is_told_of_the_page_of_zeros(
    tmp_path: Path, arguments: tuple[str, ...], without: str, added: str
) -> None:
    program, shim = compiled(tmp_path, KERNEL)
    assert printed(program, *arguments) == without
    assert printed(program, *arguments, LD_PRELOAD=str(shim)) == without + added


def test_the_shim_says_on_request_whether_it_found_the_page(tmp_path: Path) -> None:
    program, shim = compiled(tmp_path, KERNEL)
    asked = {"LD_PRELOAD": str(shim), tools.REPORT: "1"}
    assert printed(program, "0x8000", "0x8000", "5", **asked).startswith(f"{tools.ZERO_PAGE}\n")
    stripped = tmp_path / "stripped"
    subprocess.run(["objcopy", "--rename-section", "__ksymtab=gone", str(program), str(stripped)], check=True)
    assert printed(stripped, "0x8000", "0x8000", "5", **asked) == "1 1 0x8000+0x10000=0x8000@0x8000:6"
