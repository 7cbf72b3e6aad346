//! Malformed messages and random sessions: the bodies of the fuzz targets, run on the golden
//! messages of every revision, on mutations of them, and on random choices, the same in every run.
//! `docs/fuzzing.md` explains how to use a fuzzer.

mod seeds;
#[path = "../../../fuzz/src/lib.rs"]
#[allow(
    unreachable_pub,
    dead_code,
    unused_imports,
    reason = "a crate of its own, included as a module; not all of it is used here"
)]
mod targets;

use std::fs;
use std::path::Path;

use crate::harness::Dice;

use targets::{Edge, Kind, configuration, conversation, message, request};

/// Returns random bytes, up to a length.
fn bytes(dice: &mut Dice, most: usize) -> Vec<u8> {
    let n = dice.below(most);
    (0..n).map(|_| u8::try_from(dice.below(256)).unwrap()).collect()
}

/// Changes a few bytes.
fn mutate(dice: &mut Dice, seed: &[u8]) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..=dice.below(4) {
        let at = dice.below(bytes.len().max(1));
        match dice.below(5) {
            0 => bytes.truncate(at),
            1 if !bytes.is_empty() => bytes[at] ^= 1 << dice.below(8),
            2 => bytes.insert(at, u8::try_from(dice.below(256)).unwrap()),
            3 if !bytes.is_empty() => drop(bytes.remove(at)),
            _ => bytes.extend(&seed[dice.below(seed.len().max(1)).min(seed.len())..]),
        }
    }
    bytes
}

#[test]
fn fuzzed_messages_keep_the_books_and_others() {
    let edge = Edge::start();
    let mut dice = Dice(1);
    for kind in Kind::ALL {
        let seeds = seeds::of(kind);
        assert!(!seeds.is_empty(), "{kind:?}");
        for seed in &seeds {
            edge.feed(kind, seed);
        }
        for _ in 0..60 {
            let seed = &seeds[dice.below(seeds.len())];
            edge.feed(kind, &mutate(&mut dice, seed));
        }
    }
}

/// Items are fuzzed without a service, so there is time for many more.
#[test]
fn fuzzed_items_have_one_outcome() {
    let mut dice = Dice(1);
    // Other tests use memory at the same time.
    let unknown = || 0;
    let seeds = messages();
    for seed in &seeds {
        message(seed, unknown);
        for _ in 0..20 {
            let mut twisted = mutate(&mut dice, &seed[1..]);
            twisted.insert(0, seed[0]);
            message(&twisted, unknown);
        }
    }
}

#[test]
fn fuzzed_requests_have_one_outcome_per_item() {
    let mut dice = Dice(1);
    for _ in 0..500 {
        request(&bytes(&mut dice, 2_000));
    }
}

#[test]
fn fuzzed_sessions_answer_each_question_once() {
    let mut dice = Dice(1);
    let n_read: usize = (0..1_000).map(|_| conversation(&bytes(&mut dice, 2_000))).sum();
    assert!(n_read > 10_000, "{n_read}: much happens");
}

/// The seeds of all kinds in the format of the targets: the first byte is the kind.
fn messages() -> Vec<Vec<u8>> {
    let of = |(kind, first): (Kind, u8)| {
        seeds::of(kind).into_iter().map(move |seed| [&[first], &seed[..]].concat())
    };
    Kind::ALL.into_iter().zip(0..).flat_map(of).collect()
}

#[test]
fn fuzzed_configurations_are_read_or_refused() {
    let mut dice = Dice(1);
    for text in seeds::CONFIGURATIONS {
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        configuration(text.as_bytes());
        for _ in 0..300 {
            configuration(&mutate(&mut dice, text.as_bytes()));
            // Lines that are moved, repeated or removed are still YAML now and then.
            let mut moved = lines.clone();
            for _ in 0..=dice.below(3) {
                let line = lines[dice.below(lines.len())];
                moved.insert(dice.below(moved.len()), line);
                moved.remove(dice.below(moved.len()));
            }
            configuration(moved.concat().as_bytes());
        }
    }
}

/// Writes the seeds for cargo-fuzz, if `WRITE_CORPUS` names a folder.
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
    let mut dice = Dice(1);
    let choices: Vec<_> = (0..20).map(|_| bytes(&mut dice, 500)).collect();
    write("message", &messages());
    write("edge", &messages());
    write("request", &choices);
    write("conversation", &choices);
    write("configuration", &seeds::CONFIGURATIONS.map(|text| text.as_bytes().to_vec()));
}
