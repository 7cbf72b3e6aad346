//! Reading and comparing configuration texts.
//!
//! A long text is external input and may take seconds of processor time and hundreds of megabytes. So it is
//! read on another thread than the caller's, and external texts take turns, a few at a time for the whole
//! process. A caller that waits too long for a turn gets an error. A turn lasts until its work is done, even
//! if the caller has stopped waiting, so that the bound holds. A short text is read at once, so that it keeps
//! its order among the requests of its caller.

use std::sync::Arc;
use std::time::Duration;

use monoceros_config::ConfigErrors;
use monoceros_rules::specs::quotas::Quotas;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::api::outcomes::TooBusy;
use crate::front::document::Document;

/// Texts of at least this many bytes are read and compared on another thread.
const LONG_TEXT: usize = 64 << 10;
/// The most external texts that are read at the same time.
const AT_ONCE: usize = 2;
/// The timeout of a caller, for its turn and the result together.
const PATIENCE: Duration = Duration::from_secs(5);

static TURNS: Semaphore = Semaphore::const_new(AT_ONCE);

/// Reads the text of an RM within its quotas, waiting for a turn as long as necessary.
pub(super) async fn read_in_turn(
    text: String,
    quotas: Quotas,
) -> Result<Arc<Document>, ConfigErrors> {
    in_turn(text.len(), move || Document::read_within(text, &quotas)).await
}

/// As [`read_in_turn`], with a timeout.
pub(super) async fn read_soon(
    text: String,
    quotas: Quotas,
) -> Result<Result<Arc<Document>, ConfigErrors>, TooBusy> {
    soon(in_turn(text.len(), move || Document::read_within(text, &quotas))).await
}

/// Reads a text of the operator, without waiting for a turn.
pub(super) async fn read(text: String) -> Result<Arc<Document>, ConfigErrors> {
    off_thread(text.len(), move || Document::read(text)).await
}

async fn soon<T>(work: impl Future<Output = T>) -> Result<T, TooBusy> {
    match tokio::runtime::Handle::try_current() {
        Ok(_) => timeout(PATIENCE, work).await.map_err(|_| TooBusy),
        Err(_) => Ok(work.await),
    }
}

async fn in_turn<T: Send + 'static>(bytes: usize, work: impl FnOnce() -> T + Send + 'static) -> T {
    if bytes < LONG_TEXT {
        return work();
    }
    let turn = TURNS.acquire().await.expect("the turns are never closed");
    off_thread(bytes, move || {
        let result = work();
        drop(turn);
        result
    })
    .await
}

/// Runs work about a long text on a thread for blocking work. Short work, or work without a runtime, runs on
/// the caller's thread.
pub(super) async fn off_thread<T: Send + 'static>(
    bytes: usize,
    compute: impl FnOnce() -> T + Send + 'static,
) -> T {
    if bytes < LONG_TEXT {
        return compute();
    }
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => match runtime.spawn_blocking(compute).await {
            Ok(computed) => computed,
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        },
        Err(_) => compute(),
    }
}
