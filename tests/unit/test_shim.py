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
	/* A later SIGIO: what was lost is not told a second time. */
	pass();
	printf("%d %d %d", bytes[0], bytes[1], bytes[2]);
	return 0;
}
"""


def test_a_pass_inside_a_pass_loses_no_interrupt(tmp_path: Path) -> None:
    if shutil.which("cc") is None:
        pytest.skip("this machine has no C compiler")
    source, program, shim = tmp_path / "passes.c", tmp_path / "passes", tmp_path / "shim.so"
    source.write_text(PASSES)
    subprocess.run(["cc", "-O2", "-o", str(program), str(source)], check=True)
    assert tools.compile_shim(shim, io.StringIO()) == ""

    def read(**env: str) -> str:
        return subprocess.check_output([program], env={**os.environ, **env}, timeout=10).decode()

    # The fault itself: the second one is never run, though its descriptor stays ready.
    assert read() == "2 0 1"
    assert read(LD_PRELOAD=str(shim)) == "2 1 1"
