"""The image's programs in Go: go-tpc, and blocklab's own writer of ``native/ledger``. Both come from one tree,
so that Go and the drivers that they share are fetched once."""

from __future__ import annotations

from pathlib import Path

from blocklab.sites.uml.sources import NATIVE, version, written

GO_TPC_VERSION = "1.0.12"
GO_TPC_MODULE = "github.com/pingcap/go-tpc"

LEDGER = NATIVE / "ledger"
# go-tpc's module, with the checksums of it and of all that it is built from, and what is added to its sources.
GO_TPC = NATIVE / "go_tpc"

_GO_TPC_FOLDER = "$root/build/go-tpc/cmd/go-tpc"

# The Go proxy has no list of go-tpc's versions, so `go install ...@v1.0.12` fails where a module that requires it
# does not. Left to itself the program says that its version is "dev".
# GOPROXY and the proxy variables come from the user's environment; certificates from Debian and from this machine
# (a company may have its own; in a user namespace not every file can be read). What is fetched is checked against
# our go.sum, which a build never adds to (-mod=readonly), so that the user's GOSUMDB decides nothing.
# TMPDIR is not the module's folder, since Go ignores a go.mod in the folder for temporary files.
_SCRIPT = f"""\
mkdir -p "$root/build/module" "$root/build/ledger" "$root/build/tmp" "$out/tree/usr/bin"
for file in "${{SSL_CERT_FILE:-}}" /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt; do
    if [ -r "$file" ]; then cp -L "$file" "$root/build/ca.crt"; break; fi
done
go() {{
    module="$1"
    shift
    env HOME=/build TMPDIR=/build/tmp \\
        SSL_CERT_FILE=/build/ca.crt SSL_CERT_DIR=/usr/share/ca-certificates/mozilla \\
        GOROOT=/usr/lib/go GOPATH=/build/path GOCACHE=/build/cache GOENV=off GO111MODULE=on GOWORK=off \\
        GOTOOLCHAIN=local GOOS=linux GOARCH=amd64 CGO_ENABLED=0 \\
        GOFLAGS= GOSUMDB=sum.golang.org \\
        chroot "$root" /usr/lib/go/bin/go -C "/build/$module" "$@"
}}
@FILES@
go module mod download {GO_TPC_MODULE}
cp -R "$root/build/path/pkg/mod/{GO_TPC_MODULE}@v{GO_TPC_VERSION}" "$root/build/go-tpc"
chmod -R u+w "$root/build/go-tpc"
@ADDED@
go module mod edit -replace {GO_TPC_MODULE}=../go-tpc
go module build -mod=readonly -trimpath -ldflags "-s -w -X main.version=v{GO_TPC_VERSION}" -o go-tpc \\
    {GO_TPC_MODULE}/cmd/go-tpc
install -m 755 "$root/build/module/go-tpc" "$out/tree/usr/bin/go-tpc"
echo "go-tpc {GO_TPC_VERSION}" > "$out/packages"
go ledger build -mod=readonly -trimpath -ldflags "-s -w -X main.version=@VERSION@" -o blocklab-ledger .
install -m 755 "$root/build/ledger/blocklab-ledger" "$out/tree/usr/bin/blocklab-ledger"
echo "blocklab-ledger @VERSION@" >> "$out/packages"
# Static, so that hosts which are no nodes can have them too.
mkdir "$out/tools"
cp "$out/tree/usr/bin/go-tpc" "$out/tree/usr/bin/blocklab-ledger" "$out/tools/"
"""


def ledger_sources(folder: Path = LEDGER) -> dict[str, str]:
    """File name -> text of the writer's module: what its build needs, tests left out."""
    found = sorted((*folder.glob("*.go"), *folder.glob("go.*")))
    return {path.name: path.read_text() for path in found if not path.name.endswith("_test.go")}


def go_tpc_sources(folder: Path = GO_TPC) -> dict[str, str]:
    """File name -> text of go-tpc's module."""
    return {path.name: path.read_text() for path in sorted(folder.glob("go.*"))}


def script(head: str, sources: dict[str, str]) -> str:
    """The script of the part that builds both, which begins with ``head``. The sources are in it, so that the
    part's key follows from them. Raises ``ValueError`` for a source that the script cannot hold."""
    files = "\n".join((written(go_tpc_sources(), "$root/build/module"), written(sources, "$root/build/ledger")))
    added = written({path.name: path.read_text() for path in sorted(GO_TPC.glob("*.go"))}, _GO_TPC_FOLDER)
    text = _SCRIPT.replace("@VERSION@", version(sources)).replace("@FILES@", files).replace("@ADDED@", added)
    return head + text
