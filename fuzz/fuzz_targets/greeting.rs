#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use monoceros_fuzz::{Edge, Kind};

static EDGE: LazyLock<Edge> = LazyLock::new(Edge::start);

fuzz_target!(|data: &[u8]| EDGE.feed(Kind::Greeting, data));
