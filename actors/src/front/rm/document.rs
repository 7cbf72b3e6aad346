//! A configuration text that was read: what it means, in the forms in which it is needed.
//!
//! # Why it is read elsewhere
//! Thousands of queues take longer to read than an allocation may wait, and all resource managers
//! share one front. So a text is read once, before it is sent there, by the caller's thread, or a
//! long one by a thread for such work (`api/scheduler/reading`). The front, a session and its partitions
//! share the result; the text for RMs that bring none was read when it was set.

use std::sync::Arc;

use monoceros_config as config;
use monoceros_config::{ConfigError, ConfigErrors, ConfigWarning, NamedTypes, QueueConfig};
use monoceros_rules::specs::quotas::{OverQuota, Quota, Quotas};

use crate::partition::Wanted;

/// A configuration text with its checksum and what it means for each partition.
#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) text: Arc<str>,
    pub(crate) checksum: String,
    pub(crate) warnings: Vec<ConfigWarning>,
    /// The resource types that quotas name.
    pub(crate) types: NamedTypes,
    /// The configuration of each partition, in the order of the text.
    pub(crate) partitions: Vec<Wanted>,
}

impl Document {
    pub(crate) fn read(text: String) -> Result<Arc<Self>, ConfigErrors> {
        let configuration = config::parse(&text)?;
        let text = Arc::from(text);
        let wanted = |config| Wanted::new(&text, config);
        Ok(Arc::new(Self {
            checksum: configuration.checksum,
            warnings: configuration.warnings,
            types: configuration.types,
            partitions: configuration.partitions.into_iter().map(wanted).collect(),
            text,
        }))
    }

    /// [`Self::read`] of a text that an RM brings: it has no more partitions and queues than one may
    /// have.
    pub(crate) fn read_within(text: String, quotas: &Quotas) -> Result<Arc<Self>, ConfigErrors> {
        let document = Self::read(text)?;
        let n_partitions = document.partitions.len() as u64;
        let n_queues = document.partitions.iter().map(|wanted| n_queues(&wanted.config.root)).sum();
        for (quota, n) in [(Quota::Partitions, n_partitions), (Quota::Queues, n_queues)] {
            let limit = quotas.of(quota);
            if n > limit {
                let over = OverQuota { quota, limit };
                let error = ConfigError {
                    code: if quota == Quota::Queues { "E_QUOTA_QUEUES" } else { quota.code() },
                    line: 1,
                    column: 1,
                    path: "partitions".to_owned(),
                    message: format!("there are {n}: {over}"),
                };
                return Err(ConfigErrors { told: vec![error], n_more: 0 });
            }
        }
        Ok(document)
    }
}

/// The queue and all below it.
fn n_queues(queue: &QueueConfig) -> u64 {
    1 + queue.children.iter().map(n_queues).sum::<u64>()
}
