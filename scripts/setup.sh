# Sourced by quickstart and run-tests in the repository's root. Brings this machine to where blocklab runs:
# host packages, .venv, node image. Each step looks first, so on a machine that is set up nothing is fetched.
# shellcheck shell=bash

UV_VERSION=0.13.8

say() { printf '%s\n' "$*" >&2; }

doctor() { python3 -I src/blocklab/sites/uml/doctor.py "$@"; }

# install WHY PACKAGE...: with apt-get, through sudo only where that is needed.
install() {
    local why="$1" sudo=()
    shift
    say "missing on this machine: $*"
    say "  needed $why"
    if ! command -v apt-get >/dev/null; then
        say "There is no apt-get here. Install what corresponds to these Debian packages, then start again."
        exit 1
    fi
    if [ "$(id -u)" != 0 ]; then
        if ! command -v sudo >/dev/null; then
            say "Neither root nor sudo. Ask an administrator for: apt-get install --no-install-recommends $*"
            exit 1
        fi
        sudo=(sudo)
    fi
    say "  installing with apt-get${sudo[*]:+ (sudo may ask for your password)}"
    # A source of somebody else's that is down need not stop us; what counts is that the install works.
    "${sudo[@]}" apt-get update -qq || say "  apt-get update had errors; trying all the same"
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$@" >/dev/null || {
        say "That did not work. Please install them yourself: apt-get install --no-install-recommends $*"
        exit 1
    }
}

setup_host() {
    command -v python3 >/dev/null || install "to start at all" python3
    local missing
    missing=$(doctor --host-packages)
    # shellcheck disable=SC2086  # a list of words
    [ -z "$missing" ] || install "to build the node image and to run nodes without root" $missing
    doctor --problems >&2 || { say "blocklab cannot work here as it is: see FAIL above."; exit 1; }
}

# setup_venv run|dev: .venv as uv.lock says; dev has the test tools too.
setup_venv() {
    # Inexact: never take the test tools away again. Compiled once: each start takes 2 s less than where Python may not
    # or cannot keep what it compiles.
    local wanted found="" place="" here uv=uv options=(--frozen --inexact --compile-bytecode)
    wanted=$(cat uv.lock pyproject.toml | sha256sum)
    here=$(pwd -P)
    if [ -x .venv/bin/python ] && [ -e .venv/.synced ]; then
        { read -r found && read -r place; } <.venv/.synced || true
        # It works in one place only: in a copied clone it would run what stands in the other one.
        if [ "$place" != "$here" ]; then
            say "removing .venv, which was made for another folder"
            rm -rf .venv
            found=""
        fi
    fi
    [ "$found" != "$wanted $1" ] && [ "$found" != "$wanted dev" ] || return 0
    if ! command -v uv >/dev/null; then
        uv=.tools/uv/bin/uv
        if [ ! -x "$uv" ]; then
            say "fetching uv $UV_VERSION into .tools/"
            python3 -m venv .tools/uv
            .tools/uv/bin/pip install --quiet --disable-pip-version-check "uv==$UV_VERSION"
        fi
    fi
    [ "$1" = dev ] || options+=(--no-dev)
    say "bringing .venv to uv.lock"
    "$uv" sync --quiet "${options[@]}"
    .venv/bin/python -m compileall -q src/blocklab
    printf '%s\n' "$wanted $1" "$here" >.venv/.synced
}

setup_image() {
    doctor --image || .venv/bin/blocklab image build >&2
}
