#!/bin/sh
# Builds the program as a release has it: the compiler knows what runs often, because a first build counted it under
# load (https://doc.rust-lang.org/rustc/profile-guided-optimization.html). A decision takes a fifth to a quarter less
# CPU so; to build, count and build again takes an hour and more on two cores.
#
#   profile-guided.sh                          the program, as target/release/monoceros
#   profile-guided.sh bench --bench figures    `cargo bench` with what the load has taught; its files are in
#                                              target/profile-guided
#
# What was counted is kept until `cargo clean`, or until the compiler, a dependency or the path is another; code that was changed
# since is built as if nothing were known of it. What the program does is the same in any case. It wants a toolchain
# with `llvm-tools` (`rustup component add llvm-tools`), and flags of one's own for the compiler do not count here.
set -eu
cd "$(dirname "$0")/../.."

# What a service does all day, and what must not become slow because no load ever came there. Each line is a
# benchmark with its arguments.
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
# With a target the flags are not for what runs while others are built.
export CARGO_BUILD_TARGET="$host"
# Either would have counts go elsewhere.
unset BENCH_SERVICE LLVM_PROFILE_FILE
# Names in a profile are those of one compiler and of one set of dependencies, and have the path of the project in them.
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
# With a benchmark, and so with the dependencies, and their features, that it counted with. In the workspace the
# feature `kubernetes` is always on.
cargo bench --locked --no-run --bench grpc
program=$CARGO_TARGET_DIR/$host/release/monoceros
"$program" kubernetes --help >/dev/null
mkdir -p target/release
# What is there may be the same file as one that another build keeps.
rm -f target/release/monoceros
cp "$program" target/release/monoceros
