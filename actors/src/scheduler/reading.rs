//! Where configuration texts are read and compared.
//!
//! A long text may take seconds of a processor and hundreds of megabytes, and comes from outside. So
//! it is not read by the thread that brings it; texts from outside take turns, a few at a time for
//! the whole process, and who waits for a turn is told after a while that there was none. A turn
//! ends with its work, not with the patience of the caller: there are never more at work. A short
//! one is read at once, so that it keeps its place among what its caller sends.

use std::sync::Arc;
use std::time::Duration;

use monoceros_config::ConfigErrors;
use monoceros_rules::specs::quotas::Quotas;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::api::outcomes::TooBusy;
use crate::front::document::Document;

/// Bytes of text below which it is read, or compared, at once.
const LONG_TEXT: usize = 64 << 10;
/// Texts from outside that are read at once.
const AT_ONCE: usize = 2;
/// How long a caller waits, for its turn and for its answer.
const PATIENCE: Duration = Duration::from_secs(5);

static TURNS: Semaphore = Semaphore::const_new(AT_ONCE);

/// Reads a text that an RM brings, with no more in it than one may have, whenever there is a turn.
pub(super) async fn read_in_turn(
    text: String,
    quotas: Quotas,
) -> Result<Arc<Document>, ConfigErrors> {
    in_turn(text.len(), move || Document::read_within(text, &quotas)).await
}

/// [`read_in_turn`], if there is a turn soon.
pub(super) async fn read_soon(
    text: String,
    quotas: Quotas,
) -> Result<Result<Arc<Document>, ConfigErrors>, TooBusy> {
    soon(in_turn(text.len(), move || Document::read_within(text, &quotas))).await
}

/// Reads a text of the operator's.
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

/// Computes on a thread for such work what would take a while. Without a runtime, or for little,
/// the caller's own has to do.
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
