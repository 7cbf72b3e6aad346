//! Broken and twisted messages on every stream and call: the body of the fuzz targets, run on the
//! golden messages of every revision and on some mutations of them, the same in every run.
//! `docs/fuzzing.md` says how to let a fuzzer look on.

#[path = "../../../fuzz/src/lib.rs"]
#[allow(unreachable_pub, reason = "a crate of its own, included as a module")]
mod edge;
mod seeds;

use std::fs;
use std::path::Path;

use edge::{Edge, Kind, configuration};

/// Each kind, and the name of its fuzz target.
const KINDS: [(Kind, &str); 8] = [
    (Kind::Allocation, "allocation"),
    (Kind::Application, "application"),
    (Kind::Node, "node"),
    (Kind::Update, "update"),
    (Kind::Register, "register"),
    (Kind::Callback, "callback"),
    (Kind::Greeting, "greeting"),
    (Kind::Admin, "admin"),
];

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
    for (kind, name) in KINDS {
        let seeds = seeds::of(kind);
        assert!(!seeds.is_empty(), "{name}");
        for seed in &seeds {
            edge.feed(kind, seed);
        }
        for _ in 0..60 {
            let seed = &seeds[dice.roll(seeds.len())];
            edge.feed(kind, &dice.mutate(seed));
        }
    }
}

/// As the other test does for messages; a text is read in no time, so there are more of them.
#[test]
fn whatever_is_written_a_configuration_is_read_or_refused() {
    let mut dice = Dice(1);
    for text in seeds::CONFIGURATIONS {
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        configuration(text.as_bytes());
        for _ in 0..300 {
            configuration(&dice.mutate(text.as_bytes()));
            // Lines elsewhere, more than once or not at all are still YAML now and then.
            let mut moved = lines.clone();
            for _ in 0..=dice.roll(3) {
                let line = lines[dice.roll(lines.len())];
                moved.insert(dice.roll(moved.len()), line);
                moved.remove(dice.roll(moved.len()));
            }
            configuration(moved.concat().as_bytes());
        }
    }
}

/// Writes the seeds where cargo-fuzz looks for them, if `WRITE_CORPUS` names a folder.
#[test]
fn the_corpus_is_written_on_demand() {
    let Some(folder) = std::env::var_os("WRITE_CORPUS") else { return };
    let write = |name: &str, seeds: &[Vec<u8>]| {
        let folder = Path::new(&folder).join(name);
        fs::create_dir_all(&folder).unwrap();
        for (n, seed) in seeds.iter().enumerate() {
            fs::write(folder.join(format!("seed-{n}")), seed).unwrap();
        }
    };
    for (kind, name) in KINDS {
        write(name, &seeds::of(kind));
    }
    write("configuration", &seeds::CONFIGURATIONS.map(|text| text.as_bytes().to_vec()));
}
