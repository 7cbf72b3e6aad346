//! Reads of recent decisions.

use std::sync::Arc;

use monoceros_rules::decisions::CopiedDecision;

use super::SchedulerHandle;
use super::slices::{ask, slices};
use crate::api::listing::{DecisionFilter, Listed, Page};
use crate::api::outcomes::ReadError;
use crate::partition::surveys;
use crate::snapshot::DecisionSnapshot;
use crate::views;

impl SchedulerHandle {
    /// The kept decisions of a partition that match a filter, newest first: allocations, reservations and
    /// evictions ([`SchedulerBuilder::decisions`](super::SchedulerBuilder::decisions)). [`Page::after`] is the
    /// number of a decision here.
    ///
    /// # Errors
    /// [`ReadError::NotAPlace`] if the page is to begin after a text that is no number.
    pub async fn list_decisions(
        &self,
        partition: &str,
        filter: DecisionFilter,
        page: Page,
    ) -> Result<Listed<DecisionSnapshot>, ReadError> {
        let entry = self.find(partition)?;
        let number = |text: String| text.parse().map_err(|_| ReadError::NotAPlace(text));
        let after = page.after.map(number).transpose()?;
        let list = surveys::LastDecisions(Arc::new(filter));
        let shown = |row: CopiedDecision| views::decision(&row);
        let read = slices(&entry, list, after, page.limit, shown).await?;
        let (rows, next, steps) = read.unwrap_or_default();
        Ok(Listed { rows, next: next.map(|number| number.to_string()), steps })
    }

    /// The most decisions that a partition keeps; 0: none.
    ///
    /// # Errors
    /// If there is no such partition.
    pub async fn decisions_kept(&self, partition: &str) -> Result<usize, ReadError> {
        let entry = self.find(partition)?;
        ask(&entry, surveys::DecisionsKept::new).await
    }

    /// The decision with this number, if it is still kept.
    ///
    /// # Errors
    /// If there is no such partition.
    pub async fn decision(
        &self,
        partition: &str,
        number: u64,
    ) -> Result<Option<DecisionSnapshot>, ReadError> {
        let page = Page {
            after: Some(number.saturating_add(1).to_string()),
            limit: Some(1),
            ..Page::default()
        };
        let listed = self.list_decisions(partition, DecisionFilter::default(), page).await?;
        Ok(listed.rows.into_iter().find(|decision| decision.id == number))
    }
}
