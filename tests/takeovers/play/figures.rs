//! Times of takeovers, as a table.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use super::faults::Cause;
use super::rm::Kind;

/// One takeover.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    pub cause: Cause,
    pub kind: Kind,
    /// Time from the fault to the first new allocation.
    pub took: Duration,
}

/// Returns a row for each cause and kind of client, and for each cause that ended no session.
pub fn table(samples: &[Sample], faults: &BTreeMap<Cause, usize>) -> String {
    let mut by: BTreeMap<(Cause, Kind), Vec<Duration>> = BTreeMap::new();
    for sample in samples {
        by.entry((sample.cause, sample.kind)).or_default().push(sample.took);
    }
    let mut text = "| cause | client | takeovers | p50, s | p99, s | worst, s |\n\
                    |---|---|---|---|---|---|"
        .to_owned();
    for ((cause, kind), mut times) in by {
        times.sort();
        let of = |share: f64| {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index")]
            let at = ((times.len() - 1) as f64 * share).ceil() as usize;
            times[at].as_secs_f64()
        };
        let (name, client, n) = (cause.name(), kind.name(), times.len());
        let [median, late, worst] = [0.5, 0.99, 1.0].map(of);
        let _ =
            write!(text, "\n| {name} | {client} | {n} | {median:.2} | {late:.2} | {worst:.2} |");
    }
    for (cause, n) in faults {
        if samples.iter().all(|sample| sample.cause != *cause) {
            let name = cause.name();
            let _ = write!(text, "\n| {name} | all, {n} times | 0 | | | |");
        }
    }
    text
}
