//! Where the service looks up which groups a user is in: the operating system, or a directory that
//! speaks LDAP.
//!
//! `os` is always there. `ldap` needs settings, in files of their own as secrets are mounted:
//! * where their directory is there, they must be right, or the service does not start;
//! * where it is not, a file `scheduler.queues` that wants `ldap` cannot be served either;
//! * otherwise whoever comes later with a configuration that wants `ldap` has no user resolved, and
//!   is told why with each application. A user without groups might get in where the user's groups
//!   would be kept out, so there is nothing to fall back to.
//!
//! A build without the feature `ldap` is as one without settings; where they are there, it says in the
//! log that it does not read them.

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

/// The type of the resolver that needs settings.
const LDAP: &str = "ldap";

/// Lets the scheduler look users up as `settings` say; `queues` is the queue configuration that is
/// there from the start. In a tokio runtime, on which a directory is spoken to.
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

/// Who looks users up by LDAP, as the files of `directory` say; `is_wanted` from the start or not.
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

/// LDAP is wanted from the start, and this build has none.
#[cfg(not(feature = "ldap"))]
#[derive(Debug, thiserror::Error)]
#[error("the queue configuration wants LDAP, and {WITHOUT_LDAP}")]
pub struct LdapSettingsError;

#[cfg(not(feature = "ldap"))]
const WITHOUT_LDAP: &str = "this program was built without it (feature `ldap`)";

/// Whoever is to be looked up by LDAP cannot be.
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

/// A directory that cannot be looked at counts as there.
fn is_there(directory: &Path) -> bool {
    !directory.metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

fn wants_ldap(queues: &str) -> bool {
    let configuration = config::parse(queues);
    configuration.is_ok_and(|is| is.partitions.iter().any(|partition| partition.resolver == LDAP))
}

/// Says of everybody why nobody can be looked up.
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
    async fn without_settings_ldap_is_fatal_only_where_the_queue_file_wants_it() {
        let missing = settings(PathBuf::from("/does/not/exist"));
        assert!(apply(&missing, "", Scheduler::builder()).is_ok());
        assert!(apply(&missing, &WANTS.replace("ldap", "os"), Scheduler::builder()).is_ok());
        let error = apply(&missing, WANTS, Scheduler::builder()).unwrap_err().to_string();
        let why = if cfg!(feature = "ldap") { "`/does/not/exist`" } else { "built without it" };
        assert!(error.contains(why), "{error}");
    }

    #[cfg(not(feature = "ldap"))]
    #[tokio::test]
    async fn a_build_without_ldap_starts_beside_its_settings_and_says_so() {
        let there = settings(std::env::temp_dir());
        assert!(apply(&there, "", Scheduler::builder()).is_ok());
        let resolver = ldap_resolver(&there.ldap_dir, false).unwrap();
        let error = resolver.look_up("ada").await.unwrap_err().to_string();
        assert!(error.contains("built without it"), "{error}");
    }

    #[cfg(feature = "ldap")]
    #[tokio::test]
    async fn settings_that_are_there_must_be_right_whoever_wants_them() {
        let file = std::env::current_exe().unwrap();
        assert!(apply(&settings(file), "", Scheduler::builder()).is_err());
    }

    #[tokio::test]
    async fn whoever_wants_ldap_without_settings_is_told_so() {
        let error = Unavailable("no settings".to_owned()).look_up("ada").await.unwrap_err();
        assert_eq!(error.to_string(), "no settings");
    }
}
