//! The states of applications, as dashboards spell them.

use monoceros_rules::applications::application_state::ApplicationState;

/// A state as a label.
pub(super) fn label(state: ApplicationState) -> &'static str {
    match state {
        ApplicationState::New => "new",
        ApplicationState::Accepted => "accepted",
        ApplicationState::Running => "running",
        ApplicationState::Resuming => "resuming",
        ApplicationState::Completing => "completing",
        ApplicationState::Completed => "completed",
        ApplicationState::Failing => "failing",
        ApplicationState::Failed => "failed",
        ApplicationState::Rejected => "rejected",
        ApplicationState::Expired => "expired",
        ApplicationState::Removed => "removed",
    }
}
