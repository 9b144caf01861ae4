# Sourced by quickstart and run-tests in the repository's root: what has to be there before `blocklab setup` can run.
# shellcheck shell=bash

UV_VERSION=0.13.8

say() { printf '%s\n' "$*" >&2; }

# apt_get WORD...: through ${sudo[@]}, again and again while another program holds a lock of apt's: on a machine that
# has just booted unattended upgrades do, for minutes. apt itself waits for dpkg's only, and says nothing.
apt_get() {
    local said told="" until=$((SECONDS + ${APT_WAIT_SECONDS:-900}))
    until said=$("${sudo[@]}" env LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
        apt-get "$1" -qq -o DPkg::Lock::Timeout=30 "${@:2}" 2>&1); do
        case "$said" in
        *"E: Could not get lock "* | *"E: Unable to acquire "* | *"E: Unable to lock "*) ;;
        *)
            say "$said"
            return 1
            ;;
        esac
        if [ "$SECONDS" -ge "$until" ]; then
            say "$said"
            return 1
        fi
        [ -n "$told" ] || say "waiting, 15 minutes at most, for another program that uses apt: $(grep -m 1 '^E: ' <<<"$said")"
        told=yes
        sleep "${APT_AGAIN_SECONDS:-5}"
    done
}

# install WHY PACKAGE...: with apt-get, through sudo only where that is needed. sudo may ask for a password.
install() {
    local why="$1" sudo=()
    shift
    say "missing on this machine: $* ($why)"
    [ "$(id -u)" = 0 ] || sudo=(sudo)
    # A source of somebody else's that is down need not stop us; what counts is that the install works.
    apt_get update || say "apt-get update had errors; trying all the same"
    apt_get install -y --no-install-recommends "$@" || {
        say "That did not work. Ask an administrator for: apt-get install --no-install-recommends $*"
        exit 1
    }
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
            python3 -c "import ensurepip" 2>/dev/null || install "to make .venv" python3 python3-venv
            say "fetching uv $UV_VERSION into .tools/"
            python3 -m venv .tools/uv
            .tools/uv/bin/pip install --quiet --disable-pip-version-check "uv==$UV_VERSION"
        fi
    fi
    if [ "$1" = dev ]; then options+=(--all-extras); else options+=(--no-dev); fi
    say "bringing .venv to uv.lock"
    "$uv" sync --quiet "${options[@]}"
    .venv/bin/python -m compileall -q src/blocklab
    printf '%s\n' "$wanted $1" "$here" >.venv/.synced
}
