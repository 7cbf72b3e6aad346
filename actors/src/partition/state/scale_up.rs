//! The state of the scale-up signal to the RM.

/// The state of the scale-up signal. `S` is the survey that determines the requests.
#[derive(Default)]
pub(in crate::partition) enum Signal<S> {
    #[default]
    Idle,
    /// The survey begins when the deadline is over.
    Armed,
    /// The survey is under way, slice by slice.
    Looking {
        /// The survey, between two slices; `None` while a slice is under way.
        rest: Option<S>,
        /// Whether another offer came home without result during the survey, which is then
        /// repeated.
        again: bool,
    },
}
