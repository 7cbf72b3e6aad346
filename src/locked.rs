//! Locking of mutexes whose holders never panic.
//!
//! A panic could leave the data half changed, so a poisoned lock is not used: the panic spreads to
//! the next thread that locks.

use std::sync::{Mutex, MutexGuard};

/// Locks the mutex.
pub(crate) fn locked<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no holder panics")
}
