"""The far end of a connection to a host, as far as it needs no newer Python: it gets the programs and starts one.

Standard input has a line with a number of bytes, and that many bytes of JSON: ``programs`` by name, and the
``order`` for ``host_agent.main``. What follows is the agent's.
"""

import json
import os
import sys
import types


def read_exactly(count: int) -> bytes:
    """So many bytes, past Python's own buffer: the rest is for others."""
    data = b""
    while len(data) < count:
        piece = os.read(0, count - len(data))
        if not piece:
            sys.exit(1)
        data += piece
    return data


def main() -> None:
    """Say so where Python is too old; else be the far end."""
    line = b""
    while line[-1:] != b"\n":
        line += read_exactly(1)
    given = json.loads(read_exactly(int(line)).decode())
    if sys.version_info < (3, 9):  # noqa: UP036
        why = {"ok": False, "kind": "python", "why": "Python is %d.%d" % sys.version_info[:2]}  # noqa: UP031
        sys.stdout.write("\nblocklab-agent " + json.dumps(why) + "\n")
        sys.exit(0)
    sys.modules["blocklab_node"] = types.ModuleType("blocklab_node")
    for name in given["order"]["load"]:
        module = sys.modules["blocklab_node." + name] = types.ModuleType("blocklab_node." + name)
        exec(compile(given["programs"][name], name + ".py", "exec"), module.__dict__)
    sys.modules["blocklab_node.host_agent"].main(given["order"])


if __name__ == "__main__":
    main()
