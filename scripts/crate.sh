#!/bin/sh
# Lints core/native, or runs its tests, with as much of Rust as there is.
# Usage: crate.sh lint | test
set -eu
cd "$(dirname -- "$0")/../core/native"
venv=$PWD/../../.venv
# Where it could not be built, this would not do any better.
[ -s "$venv/.native" ] || exit 0
export PYO3_PYTHON="$venv/bin/python"

# Whether cargo has a subcommand: some systems package them apart.
has() {
    cargo "$1" --version >/dev/null 2>&1 || { echo "core/native: no cargo $1" && false; }
}

case $1 in
lint)
    ! has fmt || cargo fmt --check
    ! has clippy || cargo clippy --quiet --locked --all-targets -- --deny warnings
    ;;
test)
    # Their programs are linked with Python's library, which many systems package apart.
    library=$("$PYO3_PYTHON" -c 'import sysconfig as s; print(s.get_config_var("LIBDIR"))')
    if [ -z "$(ls "$library"/libpython3* 2>/dev/null)" ]; then
        echo "core/native: its tests need a libpython3 in $library"
        exit 0
    fi
    LD_LIBRARY_PATH=$library${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} cargo test --quiet --locked --lib
    ;;
esac
