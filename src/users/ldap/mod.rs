//! Groups from a directory that speaks LDAP (`usergroupresolver.type: ldap`).
//!
//! Each lookup opens a connection, binds, searches and closes it. The scheduler caches the result,
//! so no connection is kept open. Lookups run on the service's own threads, not on the thread that
//! all resource managers share.
//!
//! # Invariants
//! * A user's name stays one value in the filter, whatever it contains.
//! * Error texts of the directory are only logged. The submitter receives a result code.

mod settings;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use ldap3::{LdapConnAsync, LdapConnSettings, LdapError, Scope, SearchEntry, ldap_escape};
use monoceros_actors::{Lookup, LookupError, UserGroupResolver};
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tracing::warn;

pub(crate) use self::settings::LdapSettings;
pub use self::settings::LdapSettingsError;
use self::settings::USER;

/// Looks users up in a directory. Each lookup is a task of `runtime`.
pub(super) struct LdapResolver {
    settings: Arc<LdapSettings>,
    runtime: Handle,
}

impl LdapResolver {
    pub(super) fn new(settings: LdapSettings, runtime: Handle) -> Self {
        Self { settings: Arc::new(settings), runtime }
    }
}

impl UserGroupResolver for LdapResolver {
    fn look_up(&self, user: &str) -> Lookup {
        let (settings, user) = (Arc::clone(&self.settings), user.to_owned());
        // Dropping the lookup drops the set, which cancels the task.
        let mut tasks = JoinSet::new();
        tasks.spawn_on(async move { groups_of(&settings, &user).await }, &self.runtime);
        Box::pin(async move {
            match tasks.join_next().await {
                Some(Ok(groups)) => groups,
                _ => Err(LookupError::new("LDAP: the answer cannot be read")),
            }
        })
    }
}

/// Returns a group named like the user, then the groups of the directory.
async fn groups_of(settings: &LdapSettings, user: &str) -> Result<Vec<String>, LookupError> {
    let mut groups = vec![user.to_owned()];
    match found(settings, user, &mut groups).await {
        Ok(()) => Ok(groups),
        Err(why) => Err(LookupError { why, groups }),
    }
}

async fn found(
    settings: &LdapSettings,
    user: &str,
    groups: &mut Vec<String>,
) -> Result<(), String> {
    let connect = LdapConnSettings::new().set_no_tls_verify(settings.insecure);
    let (connection, mut directory) = LdapConnAsync::with_settings(connect, &url(settings))
        .await
        .map_err(|error| failed("connect", &error))?;
    let mut driver = JoinSet::new();
    driver.spawn(async move {
        if let Err(error) = connection.drive().await {
            warn!(%error, "LDAP connection");
        }
    });
    directory
        .simple_bind(&settings.bind_user, settings.bind_password.reveal())
        .await
        .and_then(ldap3::LdapResult::success)
        .map_err(|error| failed("bind", &error))?;
    let filter = settings.filter.replace(USER, &ldap_escape(user));
    let result = directory
        .search(&settings.base_dn, Scope::Subtree, &filter, attributes(settings))
        .await
        .map_err(|error| failed("search", &error))?;
    for entry in result.0 {
        if entry.is_ref() || entry.is_intermediate() {
            continue;
        }
        for group in values(SearchEntry::construct(entry), &settings.group_attribute) {
            if !groups.contains(&group) {
                groups.push(group);
            }
        }
    }
    let end = result.1.success();
    let _ = directory.unbind().await;
    end.map(drop).map_err(|error| failed("search", &error))
}

fn url(settings: &LdapSettings) -> String {
    let scheme = if settings.ssl { "ldaps" } else { "ldap" };
    let LdapSettings { host, port, .. } = settings;
    // An IPv6 address needs brackets here.
    if host.contains(':') && !host.starts_with('[') {
        return format!("{scheme}://[{host}]:{port}");
    }
    format!("{scheme}://{host}:{port}")
}

/// Returns the attributes to search for: the configured ones, and the attribute with the groups.
fn attributes(settings: &LdapSettings) -> Vec<&str> {
    let group = settings.group_attribute.as_str();
    let mut names: Vec<_> = settings.return_attributes.iter().map(String::as_str).collect();
    if !names.iter().any(|name| name.eq_ignore_ascii_case(group)) {
        names.push(group);
    }
    names
}

/// Logs the error, and returns the text for the submitter.
fn failed(step: &'static str, error: &LdapError) -> String {
    warn!(step, %error, "LDAP lookup");
    match error {
        LdapError::LdapResult { result } => format!("LDAP {step}: result {}", result.rc),
        LdapError::Io { source } => format!("LDAP {step}: {}", source.kind()),
        _ => format!("LDAP {step} failed"),
    }
}

/// Returns the groups in an entry's attribute, in the directory's order.
fn values(entry: SearchEntry, attribute: &str) -> Vec<String> {
    let is_it = |name: &str| name.eq_ignore_ascii_case(attribute);
    let texts = entry.attrs.into_iter().filter(|(name, _)| is_it(name));
    let mut groups: Vec<_> =
        texts.flat_map(|(_, values)| values).filter_map(|value| common_name(&value)).collect();
    // If one value is not UTF-8, the library returns all of them as bytes.
    let bytes = entry.bin_attrs.into_iter().filter(|(name, _)| is_it(name));
    let readable = bytes.flat_map(|(_, values)| values).filter_map(|v| String::from_utf8(v).ok());
    groups.extend(readable.filter_map(|value| common_name(&value)));
    groups
}

/// Returns the value of the first part of a distinguished name if it is a `CN`: `dev, ops` for
/// `CN=dev\, ops,OU=groups` (RFC 4514).
fn common_name(name: &str) -> Option<String> {
    let (attribute, rest) = name.split_once('=')?;
    if !attribute.trim().eq_ignore_ascii_case("CN") {
        return None;
    }
    let rest = rest.trim_start();
    // A value that begins with `#` is an encoding.
    if rest.starts_with('#') {
        return None;
    }
    let (mut value, mut rest) = (Vec::new(), rest.bytes());
    while let Some(byte) = rest.next() {
        match byte {
            b',' | b'+' => break,
            b'\\' => {
                let escaped = rest.next()?;
                value.push(match hex(escaped) {
                    Some(high) => high << 4 | hex(rest.next()?)?,
                    None => escaped,
                });
            }
            plain => value.push(plain),
        }
    }
    let value = String::from_utf8(value).ok()?;
    let value = value.trim_end();
    (!value.is_empty()).then(|| value.to_owned())
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}
