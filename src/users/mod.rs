//! Lookup of a user's groups: in the operating system, or in an LDAP directory.
//!
//! `os` is always available. `ldap` needs settings, in files of their own as secrets are mounted:
//! * If their folder exists, they must be valid, or the service does not start.
//! * If it is missing, the service does not start with a file `scheduler.queues` that uses `ldap`.
//! * Otherwise a later configuration that uses `ldap` resolves no user, and each application is
//!   rejected with the reason. There is no fallback, because a user without groups might get access
//!   that the user's groups would deny.
//!
//! A build without the feature `ldap` behaves as one without settings. If the folder exists, it
//! logs that it does not read it.

#[cfg(feature = "ldap")]
mod ldap;
mod os;

use std::io;
use std::path::Path;
use std::sync::Arc;

use monoceros_actors::config;
use monoceros_actors::{Lookup, LookupError, SchedulerBuilder, UserGroupResolver};
#[cfg(feature = "ldap")]
use tokio::runtime::Handle;
#[cfg(feature = "ldap")]
use tracing::info;
#[cfg(not(feature = "ldap"))]
use tracing::warn;

#[cfg(feature = "ldap")]
pub use self::ldap::LdapSettingsError;
#[cfg(feature = "ldap")]
use self::ldap::{LdapResolver, LdapSettings};
use self::os::OsResolver;
use crate::settings::UserSettings;

/// Name of the resolver that needs settings.
const LDAP: &str = "ldap";

/// Registers the resolvers. `queues` is the queue configuration at the start. Call it in a tokio
/// runtime, which runs the LDAP connections.
pub fn apply(
    settings: &UserSettings,
    queues: &str,
    builder: SchedulerBuilder,
) -> Result<SchedulerBuilder, LdapSettingsError> {
    let ldap = ldap_resolver(&settings.ldap_dir, wants_ldap(queues))?;
    Ok(builder
        .user_lookup_timeout(settings.lookup_timeout)
        .user_group_resolver("os", Arc::new(OsResolver))
        .user_group_resolver(LDAP, ldap))
}

/// Makes the LDAP resolver from the files of `directory`. `is_wanted` says whether the queues use
/// it from the start.
#[cfg(feature = "ldap")]
fn ldap_resolver(
    directory: &Path,
    is_wanted: bool,
) -> Result<Arc<dyn UserGroupResolver>, LdapSettingsError> {
    if !is_there(directory) && !is_wanted {
        let directory = directory.display();
        let why = format!("LDAP has no settings, `{directory}` is missing");
        return Ok(Arc::new(Unavailable(why)));
    }
    let settings = LdapSettings::load(directory)?;
    info!(directory = %directory.display(), "users can be looked up by LDAP");
    Ok(Arc::new(LdapResolver::new(settings, Handle::current())))
}

/// The queues use LDAP from the start, and this build has none.
#[cfg(not(feature = "ldap"))]
#[derive(Debug, thiserror::Error)]
#[error("the queue configuration wants LDAP, and {WITHOUT_LDAP}")]
pub struct LdapSettingsError;

#[cfg(not(feature = "ldap"))]
const WITHOUT_LDAP: &str = "this program was built without it (feature `ldap`)";

/// Makes a resolver that fails every lookup.
#[cfg(not(feature = "ldap"))]
fn ldap_resolver(
    directory: &Path,
    is_wanted: bool,
) -> Result<Arc<dyn UserGroupResolver>, LdapSettingsError> {
    if is_wanted {
        return Err(LdapSettingsError);
    }
    if is_there(directory) {
        let directory = directory.display();
        warn!(%directory, "settings of LDAP are not read: {WITHOUT_LDAP}");
    }
    Ok(Arc::new(Unavailable(format!("there is no LDAP: {WITHOUT_LDAP}"))))
}

/// Whether the folder exists. If that cannot be determined, it counts as existing.
fn is_there(directory: &Path) -> bool {
    !directory.metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

fn wants_ldap(queues: &str) -> bool {
    let configuration = config::parse(queues);
    configuration.is_ok_and(|is| is.partitions.iter().any(|partition| partition.resolver == LDAP))
}

/// A resolver that fails every lookup with this reason.
struct Unavailable(String);

impl UserGroupResolver for Unavailable {
    fn look_up(&self, _user: &str) -> Lookup {
        let error = LookupError::new(&self.0);
        Box::pin(async { Err(error) })
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::time::Duration;

    use monoceros_actors::Scheduler;

    use super::*;

    const WANTS: &str = "
partitions:
  - name: default
    usergroupresolver: { type: ldap }
    queues: [ { name: root, submitacl: '*' } ]
";

    fn settings(ldap_dir: PathBuf) -> UserSettings {
        UserSettings { ldap_dir, lookup_timeout: Duration::from_secs(10) }
    }

    #[tokio::test]
    async fn missing_ldap_settings_are_fatal_only_if_used() {
        let missing = settings(PathBuf::from("/does/not/exist"));
        assert!(apply(&missing, "", Scheduler::builder()).is_ok());
        assert!(apply(&missing, &WANTS.replace("ldap", "os"), Scheduler::builder()).is_ok());
        let error = apply(&missing, WANTS, Scheduler::builder()).unwrap_err().to_string();
        let why = if cfg!(feature = "ldap") { "`/does/not/exist`" } else { "built without it" };
        assert!(error.contains(why), "{error}");
    }

    #[cfg(not(feature = "ldap"))]
    #[tokio::test]
    async fn a_build_without_ldap_reports_ignored_settings() {
        let there = settings(std::env::temp_dir());
        assert!(apply(&there, "", Scheduler::builder()).is_ok());
        let resolver = ldap_resolver(&there.ldap_dir, false).unwrap();
        let error = resolver.look_up("ada").await.unwrap_err().to_string();
        assert!(error.contains("built without it"), "{error}");
    }

    #[cfg(feature = "ldap")]
    #[tokio::test]
    async fn existing_ldap_settings_must_be_valid() {
        let file = std::env::current_exe().unwrap();
        assert!(apply(&settings(file), "", Scheduler::builder()).is_err());
    }

    #[tokio::test]
    async fn unset_ldap_fails_lookups_with_the_reason() {
        let error = Unavailable("no settings".to_owned()).look_up("ada").await.unwrap_err();
        assert_eq!(error.to_string(), "no settings");
    }
}
