//! Section `users`: lookup of users and their groups.
//!
//! The kind of lookup is not set here but in the queue configuration, which a resource manager may
//! bring. These settings depend on the host.

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
    /// Folder of the files with the LDAP settings, read at the start. Default `/run/secrets/ldap`,
    /// which need not exist.
    pub ldap_dir: PathBuf,
    /// Longest lookup before the user counts as unresolvable. Default 10 s. Messages of the
    /// resource manager wait during the lookup.
    #[serde(deserialize_with = "seconds::deserialize")]
    pub lookup_timeout: Duration,
}
