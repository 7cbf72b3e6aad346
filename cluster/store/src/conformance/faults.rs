//! Cases of watches, and of servers that go away or back in time.

use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use monoceros_cluster::{Revision, Version};
use tokio::time::{Instant, timeout};

use super::{Bed, Ended, Order, PATIENCE, current, key, win};
use crate::hints::Hints;
use crate::store::{Failure, Kind, Store};

/// Waits for a hint of `version` or later.
async fn hinted(hints: &mut Hints, version: Version) -> Result<()> {
    let wait = async { while hints.next().await.0 < version.0 {} };
    timeout(PATIENCE, wait).await.with_context(|| format!("no hint of {version:?}"))
}

pub(super) async fn a_hint_for_each_change(
    _: &mut dyn Bed,
    store: Arc<dyn Store>,
) -> Result<Ended> {
    let rm = key(Kind::Claims, "rm")?;
    let before = store.read(&rm).await?.revision;
    // The watch begins after this change, and there is a hint for it.
    let first = win(&*store, &rm, None, "first").await?;
    let mut hints = store.watch(Kind::Claims, before);
    hinted(&mut hints, first).await?;
    let second = win(&*store, &rm, Some(first), "second").await?;
    hinted(&mut hints, second).await?;
    Ok(Ended::Passed)
}

pub(super) async fn no_hint_for_other_kinds(
    _: &mut dyn Bed,
    store: Arc<dyn Store>,
) -> Result<Ended> {
    let from = store.read(&key(Kind::Claims, "rm")?).await?.revision;
    let mut members = store.watch(Kind::Members, from);
    let mut claims = store.watch(Kind::Claims, from);
    let written = win(&*store, &key(Kind::Claims, "rm")?, None, "claim").await?;
    hinted(&mut claims, written).await?;
    // The next hint of members is of their own change.
    let member = win(&*store, &key(Kind::Members, "a")?, None, "member").await?;
    let hint = timeout(PATIENCE, members.next()).await.context("no hint")?;
    ensure!(hint.0 >= member.0, "{hint:?} before {member:?}");
    Ok(Ended::Passed)
}

pub(super) async fn a_server_that_is_away(
    bed: &mut dyn Bed,
    store: Arc<dyn Store>,
) -> Result<Ended> {
    let rm = key(Kind::Claims, "rm")?;
    let first = win(&*store, &rm, None, "first").await?;
    if !bed.order(Order::Stop).await? {
        return Ok(Ended::Skipped);
    }
    let begun = Instant::now();
    let written = store.compare_and_set(&rm, Some(first), "second".into()).await;
    ensure!(matches!(written, Err(Failure::NoAnswer(_))), "{written:?}");
    let read = store.read(&rm).await;
    ensure!(matches!(read, Err(Failure::NoAnswer(_))), "{read:?}");
    let listing = store.read_all(Kind::Claims).await;
    ensure!(matches!(listing, Err(Failure::NoAnswer(_))), "{listing:?}");
    ensure!(begun.elapsed() < PATIENCE / 2, "three requests took {:?}", begun.elapsed());
    bed.order(Order::Start).await?;
    let second = win(&*store, &rm, Some(first), "second").await?;
    ensure!(current(&*store, &rm).await?.version == second, "after {second:?}");
    Ok(Ended::Passed)
}

pub(super) async fn hints_after_a_restart(
    bed: &mut dyn Bed,
    store: Arc<dyn Store>,
) -> Result<Ended> {
    let rm = key(Kind::Groups, "g")?;
    let first = win(&*store, &rm, None, "first").await?;
    let mut hints = store.watch(Kind::Groups, Revision(first.0));
    let second = win(&*store, &rm, Some(first), "second").await?;
    hinted(&mut hints, second).await?;
    if !bed.order(Order::Stop).await? {
        return Ok(Ended::Skipped);
    }
    bed.order(Order::Start).await?;
    let third = win(&*store, &rm, Some(second), "third").await?;
    hinted(&mut hints, third).await?;
    Ok(Ended::Passed)
}

pub(super) async fn hints_after_a_compaction(
    bed: &mut dyn Bed,
    store: Arc<dyn Store>,
) -> Result<Ended> {
    let rm = key(Kind::Groups, "g")?;
    let first = win(&*store, &rm, None, "0").await?;
    let mut last = first;
    for number in 1..5 {
        last = win(&*store, &rm, Some(last), &number.to_string()).await?;
    }
    if !bed.order(Order::Compact).await? {
        return Ok(Ended::Skipped);
    }
    // The watch begins at a revision that the server has forgotten.
    let mut hints = store.watch(Kind::Groups, Revision(first.0));
    timeout(PATIENCE, hints.next()).await.context("no hint of what was forgotten")?;
    let next = win(&*store, &rm, Some(last), "next").await?;
    hinted(&mut hints, next).await?;
    Ok(Ended::Passed)
}

pub(super) async fn a_restored_backup_has_a_lower_revision(
    bed: &mut dyn Bed,
    store: Arc<dyn Store>,
) -> Result<Ended> {
    let rm = key(Kind::Claims, "rm")?;
    let first = win(&*store, &rm, None, "0").await?;
    if !bed.order(Order::BackUp).await? {
        return Ok(Ended::Skipped);
    }
    let mut last = first;
    for number in 1..20 {
        last = win(&*store, &rm, Some(last), &number.to_string()).await?;
    }
    let mut hints = store.watch(Kind::Claims, Revision(last.0));
    let before = store.read(&rm).await?.revision;
    bed.order(Order::Restore).await?;
    let begun = Instant::now();
    let reading = loop {
        match store.read(&rm).await {
            Err(Failure::NoAnswer(why)) => ensure!(begun.elapsed() < PATIENCE, "{why}"),
            reading => break reading?,
        }
    };
    ensure!(reading.revision < before, "{:?} after {before:?}", reading.revision);
    ensure!(reading.record.is_some_and(|found| found.version == first), "another record");
    let listing = store.read_all(Kind::Claims).await?;
    ensure!(listing.revision < before, "{:?} after {before:?}", listing.revision);
    let again = win(&*store, &rm, Some(first), "again").await?;
    // A hint of the history that is gone has a higher revision, and does not count.
    let wait = async {
        loop {
            let hint = hints.next().await;
            if (again.0..before.0).contains(&hint.0) {
                return;
            }
        }
    };
    timeout(PATIENCE, wait).await.with_context(|| format!("no hint of {again:?}"))?;
    Ok(Ended::Passed)
}
