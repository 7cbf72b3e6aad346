//! Cases of reading and writing.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use futures::future::{join_all, try_join_all};
use monoceros_cluster::{Revision, Version, Versioned};
use tokio::time::{sleep, timeout};

use super::{Bed, Ended, PATIENCE, current, key, win, win_again, write};
use crate::store::{ClusterName, Failure, Kind, MAX_ID, RecordKey, Store, Written};

pub(super) async fn no_record_at_first(_: &mut dyn Bed, store: Arc<dyn Store>) -> Result<Ended> {
    let reading = store.read(&key(Kind::Claims, "rm")?).await?;
    ensure!(reading.record.is_none() && reading.revision > Revision(0), "{reading:?}");
    for kind in [Kind::Members, Kind::Claims, Kind::Groups, Kind::Era] {
        let listing = store.read_all(kind).await?;
        ensure!(listing.records.is_empty() && listing.revision >= reading.revision, "{listing:?}");
    }
    Ok(Ended::Passed)
}

pub(super) async fn a_write_is_won_by_version(
    _: &mut dyn Bed,
    store: Arc<dyn Store>,
) -> Result<Ended> {
    let rm = key(Kind::Claims, "rm")?;
    let lost = write(&*store, &rm, Some(Version(1)), "early").await?;
    ensure!(matches!(lost, Written::Lost(None, _)), "{lost:?}");
    let first = win(&*store, &rm, None, "first").await?;
    let found = current(&*store, &rm).await?;
    ensure!(found == Versioned { version: first, value: "first".into() }, "{found:?}");

    // A second creation is lost, and shows the first.
    match write(&*store, &rm, None, "again").await? {
        Written::Lost(Some(shown), revision) => {
            ensure!(shown == found && revision.0 >= first.0, "{shown:?} at {revision:?}");
        }
        other => anyhow::bail!("{other:?}"),
    }
    let second = win(&*store, &rm, Some(first), "second").await?;
    ensure!(second > first, "{second:?} after {first:?}");
    match write(&*store, &rm, Some(first), "late").await? {
        Written::Lost(Some(shown), _) => {
            ensure!(shown == Versioned { version: second, value: "second".into() }, "{shown:?}");
        }
        other => anyhow::bail!("{other:?}"),
    }
    // A write that changes nothing is won, and the revision does not go back.
    let before = store.read(&rm).await?.revision;
    match store.compare_and_set(&rm, Some(second), "second".into()).await? {
        Written::Won(_, revision) => ensure!(revision >= before, "{revision:?} after {before:?}"),
        lost @ Written::Lost(..) => anyhow::bail!("{lost:?}"),
    }
    Ok(Ended::Passed)
}

/// Adds one to the number in a record until `times` writes were won. Returns the won versions.
async fn count(store: &dyn Store, at: &RecordKey, name: usize, times: u64) -> Result<Vec<Version>> {
    let mut won = Vec::new();
    let mut seen = store.read(at).await?.record;
    while (won.len() as u64) < times {
        let number = seen.as_ref().map_or(Ok(0), |found| number_in(&found.value))?;
        let expected = seen.as_ref().map(|found| found.version);
        let value = format!("{} by {name}", number + 1);
        match write(store, at, expected, &value).await? {
            Written::Won(version, _) => {
                won.push(version);
                seen = Some(Versioned { version, value: value.into() });
            }
            Written::Lost(current, _) => seen = current,
        }
    }
    Ok(won)
}

fn number_in(value: &Bytes) -> Result<u64> {
    let text = std::str::from_utf8(value)?;
    Ok(text.split(' ').next().context("no number")?.parse()?)
}

pub(super) async fn one_of_many_writers_wins_each_version(
    _: &mut dyn Bed,
    store: Arc<dyn Store>,
) -> Result<Ended> {
    let rm = key(Kind::Claims, "rm")?;
    let writers = (0..8).map(|name| count(&*store, &rm, name, 5));
    let mut won: Vec<_> = try_join_all(writers).await?.into_iter().flatten().collect();
    won.sort_unstable();
    won.dedup();
    ensure!(won.len() == 40, "{} versions of 40 writes", won.len());
    let found = current(&*store, &rm).await?;
    ensure!(number_in(&found.value)? == 40, "{found:?}");
    ensure!(Some(&found.version) == won.last(), "{found:?}");
    Ok(Ended::Passed)
}

/// Gives writes up at various moments: they may have been carried out, or not.
pub(super) async fn a_write_without_an_answer_is_known_when_sent_again(
    _: &mut dyn Bed,
    store: Arc<dyn Store>,
) -> Result<Ended> {
    let rm = key(Kind::Claims, "rm")?;
    let mut version = win(&*store, &rm, None, "0").await?;
    let mut given_up = 0;
    for number in 1..=40_u64 {
        let value = number.to_string();
        let sent = store.compare_and_set(&rm, Some(version), Bytes::from(value.clone()));
        match tokio::time::timeout(Duration::from_micros(number * 100), sent).await {
            Ok(written) => ensure!(matches!(written, Ok(Written::Won(..))), "{written:?}"),
            Err(_) => given_up += 1,
        }
        version = win_again(&*store, &rm, Some(version), &value).await?;
        let found = current(&*store, &rm).await?;
        ensure!(found == Versioned { version, value: value.into() }, "{found:?}, {version:?}");
    }
    ensure!(given_up > 0, "all writes were answered before they could be given up");
    Ok(Ended::Passed)
}

pub(super) async fn all_of_a_kind_at_one_revision(
    bed: &mut dyn Bed,
    store: Arc<dyn Store>,
) -> Result<Ended> {
    // More than two pages, and neighbours whose records are not meant.
    let ids: Vec<String> = (0..17).map(|number| format!("rm-{number}")).collect();
    let writes = ids.iter().map(async |id| win(&*store, &key(Kind::Claims, id)?, None, id).await);
    let versions = join_all(writes).await;
    let other = bed.store(&ClusterName::new("case")?);
    win(&*other, &key(Kind::Claims, "theirs")?, None, "theirs").await?;
    win(&*store, &key(Kind::Members, "a")?, None, "a").await?;

    let listing = store.read_all(Kind::Claims).await?;
    ensure!(listing.records.len() == 17, "{} records", listing.records.len());
    for (id, version) in ids.iter().zip(versions) {
        let found = listing.records.get(id.as_str()).with_context(|| id.clone())?;
        ensure!(found.version == version? && found.value == *id, "{id}: {found:?}");
        ensure!(found.version.0 <= listing.revision.0, "{id}: {found:?}");
    }
    let members = store.read_all(Kind::Members).await?;
    ensure!(members.records.len() == 1 && members.revision >= listing.revision, "{members:?}");
    let counted = async {
        while store.count(Kind::Claims).await? != 17 || store.count(Kind::Members).await? != 1 {
            sleep(Duration::from_millis(20)).await;
        }
        Ok::<_, anyhow::Error>(())
    };
    timeout(PATIENCE, counted).await.context("another count of records")??;
    ensure!(store.count(Kind::Groups).await? == 0, "a group that nobody has added");
    Ok(Ended::Passed)
}

/// Two records are written in turn; the second is always as old as the first, or one step older.
pub(super) async fn all_of_a_kind_while_others_write(
    _: &mut dyn Bed,
    store: Arc<dyn Store>,
) -> Result<Ended> {
    let (first, last) = (key(Kind::Claims, "a")?, key(Kind::Claims, "z")?);
    for number in 0..12 {
        win(&*store, &key(Kind::Claims, &format!("m{number}"))?, None, "between").await?;
    }
    let writes = async {
        let (mut one, mut two) = (None, None);
        for number in 0..40 {
            let value = number.to_string();
            one = Some(win(&*store, &first, one, &value).await?);
            two = Some(win(&*store, &last, two, &value).await?);
        }
        Ok::<_, anyhow::Error>(())
    };
    let reads = async {
        let mut revision = Revision(0);
        loop {
            let listing = store.read_all(Kind::Claims).await?;
            ensure!(listing.revision >= revision, "{:?} after {revision:?}", listing.revision);
            revision = listing.revision;
            let number = |id: &str| match listing.records.get(id) {
                Some(found) => number_in(&found.value).map(|number| number + 1),
                None => Ok(0),
            };
            let (one, two) = (number("a")?, number("z")?);
            ensure!(one == two || one == two + 1, "{one} and {two} at {revision:?}");
            if two == 40 {
                return Ok(());
            }
        }
    };
    tokio::try_join!(writes, reads)?;
    Ok(Ended::Passed)
}

pub(super) async fn ids_of_any_text(_: &mut dyn Bed, store: Arc<dyn Store>) -> Result<Ended> {
    let long = "x".repeat(MAX_ID);
    let ids = ["a/b", "a%2Fb", "a", "A", "../a", ".", "rm 1\n", "\0", "räm-Ω-🦄", "\"{}", &long];
    for kind in [Kind::Members, Kind::Claims] {
        for id in ids {
            win(&*store, &key(kind, id)?, None, id).await?;
        }
        let listing = store.read_all(kind).await?;
        ensure!(listing.records.len() == ids.len(), "{:?}", listing.records.keys());
        for id in ids {
            let found = current(&*store, &key(kind, id)?).await?;
            ensure!(found.value == *id && listing.records.get(id) == Some(&found), "{id:?}");
        }
    }
    for bad in ["", &"x".repeat(MAX_ID + 1)] {
        let refused = RecordKey::new(Kind::Claims, &bad.into());
        ensure!(matches!(refused, Err(Failure::BadId { .. })), "{refused:?}");
    }
    Ok(Ended::Passed)
}

pub(super) async fn records_of_any_size_up_to_the_bound(
    _: &mut dyn Bed,
    store: Arc<dyn Store>,
) -> Result<Ended> {
    // Configurations are compressed: bytes of any value.
    let bytes = |size| -> Bytes { (0..=u8::MAX).rev().cycle().take(size).collect() };
    for (kind, sizes) in [(Kind::Claims, [0, 16 * 1024]), (Kind::Groups, [1, 900 * 1024])] {
        for size in sizes {
            let at = key(kind, &format!("of-{size}"))?;
            let value = bytes(size);
            let written = store.compare_and_set(&at, None, value.clone()).await?;
            ensure!(matches!(written, Written::Won(..)), "{at}");
            ensure!(current(&*store, &at).await?.value == value, "{at}");
        }
        let at = key(kind, "more")?;
        let more = bytes(kind.max_value() + 1);
        let refused = store.compare_and_set(&at, None, more).await;
        ensure!(matches!(refused, Err(Failure::TooLarge { .. })), "{at}");
        ensure!(store.read(&at).await?.record.is_none(), "{at}");
        ensure!(store.read_all(kind).await?.records.len() == 2, "{at}");
    }
    Ok(Ended::Passed)
}
