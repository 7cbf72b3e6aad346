//! A configuration text as read, in the forms in which the engine needs it.
//!
//! # Why the front does not read texts
//! Reading thousands of queues takes longer than an allocation may wait, and all resource managers
//! share one front. So a text is read once before it is sent to the front: by the caller's thread, a
//! long one by a thread for such work (`scheduler/reading`). The front, a session and its partitions
//! share the result. A default configuration is read when it is set.

use std::sync::Arc;

use monoceros_config as config;
use monoceros_config::{ConfigError, ConfigErrors, ConfigWarning, NamedTypes, QueueConfig};
use monoceros_rules::specs::quotas::{OverQuota, Quota, Quotas};

use crate::partition::PartitionDocument;

/// A configuration text with its checksum and the configuration of each partition.
#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) text: Arc<str>,
    pub(crate) checksum: String,
    pub(crate) warnings: Vec<ConfigWarning>,
    /// The resource types that are named in quotas.
    pub(crate) types: NamedTypes,
    /// The configuration of each partition, in the order of the text.
    pub(crate) partitions: Vec<PartitionDocument>,
}

impl Document {
    pub(crate) fn read(text: String) -> Result<Arc<Self>, ConfigErrors> {
        let configuration = config::parse(&text)?;
        let text = Arc::from(text);
        let wanted = |config| PartitionDocument::new(&text, config);
        Ok(Arc::new(Self {
            checksum: configuration.checksum,
            warnings: configuration.warnings,
            types: configuration.types,
            partitions: configuration.partitions.into_iter().map(wanted).collect(),
            text,
        }))
    }

    /// As [`Self::read`], for the text of an RM: refused if it has more partitions or queues than the
    /// quotas of an RM allow.
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
                return Err(ConfigErrors { reported: vec![error], n_more: 0 });
            }
        }
        Ok(document)
    }
}

/// The number of queues in a tree.
fn n_queues(queue: &QueueConfig) -> u64 {
    1 + queue.children.iter().map(n_queues).sum::<u64>()
}
