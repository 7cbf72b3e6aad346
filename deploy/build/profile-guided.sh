#!/bin/sh
# Builds the program like a release, with profile-guided optimization: a first build counts under
# load which code runs often (https://doc.rust-lang.org/rustc/profile-guided-optimization.html). A
# decision then takes a fifth to a quarter less CPU. The two builds and the counting take more than
# an hour on two cores.
#
#   profile-guided.sh                          builds target/release/monoceros
#   profile-guided.sh bench --bench figures    `cargo bench` in target/profile-guided
#
# The profile is kept until `cargo clean`, or until the compiler, a dependency or the path changes.
# Code changed since then is built without a profile. The program's behaviour is the same in any
# case. The script needs a toolchain with `llvm-tools` (`rustup component add llvm-tools`), and
# ignores compiler flags of your own.
set -eu
cd "$(dirname "$0")/../.."

# The load: what a service does all day, and what must not become slow for lack of load. Each line
# is a benchmark with its arguments.
load='scheduling shapes
gangs
features apart
features racks
queues
grpc
callback
recovery
reload
waiting
preemption reclaim
explain
reads
cluster fill
cluster gangs'

host=$(rustc --version --verbose | sed -n 's/^host: //p')
profdata=$(rustc --print target-libdir)/../bin/llvm-profdata
if ! [ -x "$profdata" ]; then
    echo "profile-guided.sh: there is no $profdata; 'rustup component add llvm-tools' brings it" >&2
    exit 1
fi

export CARGO_TARGET_DIR="$PWD/target/profile-guided"
# With a target the flags do not apply to build scripts and macros.
export CARGO_BUILD_TARGET="$host"
# Either would send the counts elsewhere.
unset BENCH_SERVICE LLVM_PROFILE_FILE
# Names in a profile depend on the compiler, the dependencies and the path of the project.
names=$({ rustc --version --verbose; cat Cargo.lock; pwd; } | cksum | cut -d ' ' -f 1)
learnt=$CARGO_TARGET_DIR/learnt-$names.profdata

learn() {
    counts=$CARGO_TARGET_DIR/counts
    rm -rf "$counts"
    mkdir -p "$counts"
    export CARGO_ENCODED_RUSTFLAGS="-Cprofile-generate=$counts"
    # shellcheck disable=SC2046 # Two words for each benchmark.
    cargo bench --locked --no-run $(echo "$load" | sed 's/^\([a-z_]*\).*/--bench \1/' | sort -u)
    echo "$load" | while read -r bench arguments; do
        echo "profile-guided.sh: counting: $bench $arguments" >&2
        # shellcheck disable=SC2086 # The arguments are words.
        cargo bench --quiet --locked --bench "$bench" -- $arguments </dev/null >/dev/null
    done
    "$profdata" merge --output "$learnt.new" "$counts"
    mv "$learnt.new" "$learnt"
    rm -rf "$counts"
}

[ -f "$learnt" ] || learn
export CARGO_ENCODED_RUSTFLAGS="-Cprofile-use=$learnt"
if [ $# -gt 0 ]; then
    exec cargo "$@"
fi
# Built with a benchmark, and so with the same dependencies and features as the profile. In the
# workspace the feature `kubernetes` is always on.
cargo bench --locked --no-run --bench grpc
program=$CARGO_TARGET_DIR/$host/release/monoceros
"$program" kubernetes --help >/dev/null
mkdir -p target/release
# The old file may be a hard link to one of another build.
rm -f target/release/monoceros
cp "$program" target/release/monoceros
