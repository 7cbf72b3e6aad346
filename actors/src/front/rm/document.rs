//! A configuration text that was read: what it means, in the forms in which it is needed.
//!
//! # Why it is read elsewhere
//! Thousands of queues take longer to read than an allocation may wait, and all resource managers
//! share one front. So a text is read once, before it is sent there, by the caller's thread, or a
//! long one by a thread for such work (`api/scheduler/reading`). The front, a session and its partitions
//! share the result; the text for RMs that bring none was read when it was set.

use std::sync::Arc;

use monoceros_config as config;
use monoceros_config::{ConfigErrors, ConfigWarning};

use crate::partition::Wanted;

/// A configuration text with its checksum and what it means for each partition.
#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) text: Arc<str>,
    pub(crate) checksum: String,
    pub(crate) warnings: Vec<ConfigWarning>,
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
            partitions: configuration.partitions.into_iter().map(wanted).collect(),
            text,
        }))
    }
}
