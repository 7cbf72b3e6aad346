//! Broken and twisted messages on every stream and call (scheduler-interface chapter, VT2): the
//! body of the fuzz targets, run on the golden messages of every revision and on a few thousand
//! mutations of them, the same in every run. `docs/fuzzing.md` says how to let a fuzzer look on.
#![allow(clippy::unwrap_used)]

#[path = "../fuzz/src/lib.rs"]
#[allow(clippy::missing_panics_doc, reason = "a crate of its own, included as a module")]
mod edge;

use std::fs;
use std::path::Path;

use edge::{Edge, Kind};

const GOLDEN: [&str; 4] = [
    include_str!("golden/l.hex"),
    include_str!("golden/m.hex"),
    include_str!("golden/n.hex"),
    include_str!("golden/t.hex"),
];

/// Each kind, the name of its fuzz target, and the message it takes.
const KINDS: [(Kind, &str, &str); 7] = [
    (Kind::Allocation, "allocation", "AllocationRequest"),
    (Kind::Application, "application", "ApplicationRequest"),
    (Kind::Node, "node", "NodeRequest"),
    (Kind::Update, "update", "UpdateRequest"),
    (Kind::Register, "register", "RegisterResourceManagerRequest"),
    (Kind::Callback, "callback", "PredicatesArgs"),
    (Kind::Admin, "admin", "UpdateConfigurationRequest"),
];

/// The golden bytes of a message, of every revision that has it.
fn golden(message: &str) -> Vec<Vec<u8>> {
    let lines = GOLDEN.iter().flat_map(|fixtures| fixtures.lines());
    let hex = lines.filter_map(|line| line.strip_prefix(&format!("{message} ")));
    let byte = |hex: &str, at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    let mut all: Vec<Vec<u8>> =
        hex.map(|hex| (0..hex.len()).step_by(2).map(|at| byte(hex, at)).collect()).collect();
    all.sort();
    all.dedup();
    all
}

/// What a kind is fed with first. For the callback: each of its messages with another message
/// inside; for the administration: each call with the same message.
fn seeds(kind: Kind, message: &str) -> Vec<Vec<u8>> {
    let golden = golden(message);
    match kind {
        Kind::Callback => (2..=10_u8)
            .flat_map(|body| {
                golden.iter().map(move |inner| {
                    let length = u8::try_from(inner.len()).unwrap();
                    [&[body << 3 | 2, length], &inner[..]].concat()
                })
            })
            .collect(),
        Kind::Admin => (0..13_u8)
            .flat_map(|call| golden.iter().map(move |inner| [&[call], &inner[..]].concat()))
            .collect(),
        _ => golden,
    }
}

/// Numbers without a pattern, the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % sides.max(1)
    }

    /// A few changes of a few bytes.
    fn mutate(&mut self, seed: &[u8]) -> Vec<u8> {
        let mut bytes = seed.to_vec();
        for _ in 0..=self.roll(4) {
            let at = self.roll(bytes.len());
            match self.roll(5) {
                0 => bytes.truncate(at),
                1 if !bytes.is_empty() => bytes[at] ^= 1 << self.roll(8),
                2 => bytes.insert(at.min(bytes.len()), u8::try_from(self.roll(256)).unwrap()),
                3 if !bytes.is_empty() => drop(bytes.remove(at)),
                _ => {
                    let from = self.roll(seed.len());
                    bytes.extend(&seed[from..]);
                }
            }
        }
        bytes
    }
}

#[test]
fn whatever_is_sent_the_books_agree_and_others_do_not_notice() {
    let edge = Edge::start();
    let mut dice = Dice(1);
    for (kind, _, message) in KINDS {
        let seeds = seeds(kind, message);
        assert!(!seeds.is_empty(), "{message}");
        for seed in &seeds {
            edge.feed(kind, seed);
        }
        for _ in 0..150 {
            let seed = &seeds[dice.roll(seeds.len())];
            edge.feed(kind, &dice.mutate(seed));
        }
    }
}

/// Writes the seeds where cargo-fuzz looks for them, if `WRITE_CORPUS` names a folder.
#[test]
fn the_corpus_is_written_on_demand() {
    let Some(folder) = std::env::var_os("WRITE_CORPUS") else { return };
    for (kind, name, message) in KINDS {
        let folder = Path::new(&folder).join(name);
        fs::create_dir_all(&folder).unwrap();
        for (n, seed) in seeds(kind, message).iter().enumerate() {
            fs::write(folder.join(format!("golden-{n}")), seed).unwrap();
        }
    }
}
