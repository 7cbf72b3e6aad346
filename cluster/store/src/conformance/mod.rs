//! The cases that every store has to pass, with servers that are made by the caller.
//!
//! [`run`] runs them one after the other on one [`Bed`], each in a cluster of its own name.

mod faults;
mod records;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use futures::future::BoxFuture;
use monoceros_cluster::{Version, Versioned};

use crate::store::{ClusterName, Failure, Kind, RecordKey, Store, Written};

/// Time for which a case waits for a server.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server on which a store keeps its records.
pub trait Bed: Send {
    /// The store of a cluster, with pages of a few records if it has pages.
    fn store(&self, cluster: &ClusterName) -> Arc<dyn Store>;

    /// Carries out an order. `false`: this server cannot.
    fn order(&mut self, order: Order) -> BoxFuture<'_, Result<bool>>;
}

/// An order to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Ends the server as a failure does.
    Stop,
    /// Starts it again, and waits until it answers.
    Start,
    /// Forgets all revisions but the newest.
    Compact,
    /// Copies all records.
    BackUp,
    /// Replaces all by the copy.
    Restore,
}

/// Result of a case that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Passed,
    /// The server cannot carry out an order of the case.
    Skipped,
}

/// A case.
type Case = for<'b> fn(&'b mut dyn Bed, Arc<dyn Store>) -> BoxFuture<'b, Result<Ended>>;

macro_rules! cases {
    ($($module:ident::$case:ident,)*) => {
        [$((stringify!($case), |bed, store| Box::pin($module::$case(bed, store)))),*]
    };
}

/// All cases by name.
const CASES: [(&str, Case); 14] = cases![
    records::no_record_at_first,
    records::a_write_is_won_by_version,
    records::one_of_many_writers_wins_each_version,
    records::a_write_without_an_answer_is_known_when_sent_again,
    records::all_of_a_kind_at_one_revision,
    records::all_of_a_kind_while_others_write,
    records::ids_of_any_text,
    records::records_of_any_size_up_to_the_bound,
    faults::a_hint_for_each_change,
    faults::no_hint_for_other_kinds,
    faults::a_server_that_is_away,
    faults::hints_after_a_restart,
    faults::hints_after_a_compaction,
    faults::a_restored_backup_has_a_lower_revision,
];

/// Runs the cases whose names contain one of the words, or all without words. Returns a line for
/// each, and fails with those that failed.
pub async fn run(bed: &mut dyn Bed, words: &[&str]) -> Result<Vec<String>> {
    let (mut lines, mut failed) = (Vec::new(), Vec::new());
    for (number, (name, case)) in CASES.into_iter().enumerate() {
        if !words.is_empty() && !words.iter().any(|word| name.contains(word)) {
            continue;
        }
        let store = bed.store(&ClusterName::new(&format!("case-{number}"))?);
        let begun = tokio::time::Instant::now();
        let result = case(bed, store).await;
        let took = begun.elapsed().as_secs_f64();
        match result {
            Ok(Ended::Passed) => lines.push(format!("{name} ... ok ({took:.2} s)")),
            Ok(Ended::Skipped) => lines.push(format!("{name} ... skipped")),
            Err(why) => failed.push(format!("{name} ... FAILED ({took:.2} s): {why:#}")),
        }
    }
    ensure!(failed.is_empty(), "{}", failed.join("\n"));
    Ok(lines)
}

fn key(kind: Kind, id: &str) -> Result<RecordKey> {
    Ok(RecordKey::new(kind, &id.into())?)
}

/// Sends a compare-and-set until its result is known.
async fn write(
    store: &dyn Store,
    key: &RecordKey,
    expected: Option<Version>,
    value: &str,
) -> Result<Written> {
    send(store, key, expected, value, false).await
}

/// Sends a compare-and-set until its result is known. Once it is sent again, it may be lost to
/// itself, which is won.
async fn send(
    store: &dyn Store,
    key: &RecordKey,
    expected: Option<Version>,
    value: &str,
    mut is_again: bool,
) -> Result<Written> {
    let value = Bytes::from(value.to_owned());
    let begun = tokio::time::Instant::now();
    loop {
        match store.compare_and_set(key, expected, value.clone()).await {
            Ok(Written::Lost(Some(current), revision)) if is_again && current.value == value => {
                return Ok(Written::Won(current.version, revision));
            }
            Ok(written) => return Ok(written),
            Err(Failure::NoAnswer(why)) => {
                ensure!(begun.elapsed() < PATIENCE, "no result: {why}");
                is_again = true;
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            Err(why) => return Err(why.into()),
        }
    }
}

/// Writes a record that is expected to be won.
async fn win(
    store: &dyn Store,
    key: &RecordKey,
    expected: Option<Version>,
    value: &str,
) -> Result<Version> {
    won(key, write(store, key, expected, value).await?)
}

/// Sends a write again that is expected to be won, now or before.
async fn win_again(
    store: &dyn Store,
    key: &RecordKey,
    expected: Option<Version>,
    value: &str,
) -> Result<Version> {
    won(key, send(store, key, expected, value, true).await?)
}

fn won(key: &RecordKey, written: Written) -> Result<Version> {
    match written {
        Written::Won(version, revision) => {
            ensure!(version.0 <= revision.0, "{version:?} is above {revision:?}");
            Ok(version)
        }
        lost @ Written::Lost(..) => anyhow::bail!("{key}: {lost:?}"),
    }
}

/// The record, which has to be there.
async fn current(store: &dyn Store, key: &RecordKey) -> Result<Versioned<Bytes>> {
    store.read(key).await?.record.with_context(|| format!("no record `{key}`"))
}
