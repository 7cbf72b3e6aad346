//! Test set-up: a registry and its scheduler in virtual time.

use std::sync::Arc;

use monoceros_actors::{Scheduler, SchedulerHandle};

use super::registry::Registry;
use crate::settings::{Flags, Settings};

/// Runs a test with a registry whose settings are the defaults as changed by `set`.
pub(super) fn with_registry<F: Future<Output = ()>>(
    set: impl FnOnce(&mut Settings),
    story: impl FnOnce(SchedulerHandle, Arc<Registry>) -> F,
) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    tokio::task::LocalSet::new().block_on(&runtime.unwrap(), async {
        let handle = Scheduler::builder().start_local().unwrap();
        let mut settings = Settings::load(None, &Flags::default()).unwrap();
        set(&mut settings);
        let registry = Arc::new(Registry::new(handle.clone(), &settings, None));
        story(handle, registry).await;
    });
}
