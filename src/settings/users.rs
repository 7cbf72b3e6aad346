//! Settings of how users are looked up.
//!
//! Which kind of lookup is used is not among them: the configuration of the queues says that, and a
//! resource manager may bring it. Here is what only the host knows.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use super::seconds;

/// Section `users`.
#[derive(Clone, Debug, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a section (with keys `users.KEY` or MONOCEROS__USERS__KEY)"
)]
pub struct UserSettings {
    /// Folder of the files with the settings of LDAP, read at the start. Default
    /// `/run/secrets/ldap`, where it need not be.
    pub ldap_dir: PathBuf,
    /// How long a lookup may take before the user counts as one that cannot be resolved. Default
    /// 10 s; what the resource manager sends meanwhile waits.
    #[serde(deserialize_with = "seconds::deserialize")]
    pub lookup_timeout: Duration,
}
