# Short cuts for people who work on blocklab. CI runs ./run-tests, which is `just test`.
# `just` itself comes with `just setup`: .venv/bin/just.

export PATH := justfile_directory() / ".venv/bin:" + env("PATH")

# List the recipes.
default:
    @just --justfile "{{ justfile() }}" --list

# Host packages, .venv with the test tools, and the node image, as far as they are missing.
[script("bash")]
setup:
    set -euo pipefail
    . scripts/setup.sh
    setup_venv dev
    .venv/bin/blocklab setup

# Lint, format, types and the import contracts; changes nothing.
check:
    ruff check src tests bench tools
    ruff format --check src tests bench tools
    mypy
    lint-imports

# All tests, as CI runs them: real nodes and a real browser.
test *options:
    ./run-tests {{ options }}

# Tests without nodes and browser, and those of the repository itself.
unit *options:
    pytest tests/unit tests/fake tests/repo {{ options }}

# Tests on real nodes; they need the node image (`just setup`).
lab *options:
    pytest tests/lab {{ options }}

# Tests that CI has no room for: takeovers, faults, ledgers, most drills, more pages in a browser.
long *options:
    pytest tests -m long {{ options }}

# Tests in virtual time on real kernels; builds the add-on that they need.
virtual *options:
    blocklab image build --with virtual-time
    pytest tests/fake/test_virtual_time.py tests/lab/test_virtual_lab.py {{ options }}

# Tests of the report in headless Chromium.
browser *options:
    pytest tests/browser {{ options }}

# Run benchmarks by name, or the short ones: agent, floor, launch, own_cpu, rebuild, rtt, shim; circle, cluster, counters, coverage, drills, importing, inference, loading, overhead, parsing, predict, reporting, same, ssh, startup, stopping, virtual, volume.
bench *names:
    for name in {{ if names == "" { "agent floor launch own_cpu rebuild rtt shim" } else { names } }}; do \
        python -m "bench.$name" || exit 1; \
    done

# Write the golden files anew; read the difference before you commit it.
golden:
    pytest tests/unit --update-golden

# Write docs/study.schema.json anew.
schema:
    schema=$(blocklab schema) && printf '%s\n' "$schema" > docs/study.schema.json

# Write docs/reference/ anew from the types and their docstrings, and the manual page from the help.
reference:
    python -m tools.reference
    python -m tools.manpage

# Bring the catalogues of messages to what the source says, and list what lacks a translation.
messages:
    python -m tools.messages

# Write the report of a study's folder anew (the newest one without an argument).
report *arguments:
    blocklab report {{ arguments }}
