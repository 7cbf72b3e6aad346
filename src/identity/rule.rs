//! One identity rule of the settings: a holder and its grants.
//!
//! A rule only grants rights. Since no rule denies any, the order of the rules does not matter, and
//! each rule can be understood alone.

use std::fmt;

use serde::Deserialize;

use super::certificate::{Name, NameError};

/// Why a rule cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RuleError {
    /// The rule names no holder, or two.
    #[error("an identity rule has either `certificate` or `token`")]
    Holder,
    /// The certificate name is invalid.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The token name is invalid.
    #[error("an identity rule names a token by its name in the file `identity.tokens`")]
    TokenName,
    /// A pattern of resource managers is invalid.
    #[error("`{0}` is not an rmID, nor the beginning of one and a `*` behind it")]
    Pattern(String),
    /// The rule grants nothing.
    #[error("an identity rule grants something: `rm_ids`, `read` or `admin`")]
    Empty,
}

/// One rule of `identity.rules`.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "RuleText")]
pub struct Rule {
    holder: Holder,
    rm_ids: Vec<RmPattern>,
    read: bool,
    admin: bool,
}

/// The caller to whom a rule applies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// A caller that proves this name by a client certificate.
    Certificate(Name),
    /// A caller that presents the token of this name.
    Token(String),
}

/// A pattern of resource managers: an id, or a prefix of ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RmPattern {
    /// An exact id.
    Exact(String),
    /// A prefix of ids.
    Prefix(String),
}

/// A rule as written in the settings.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleText {
    certificate: Option<String>,
    token: Option<String>,
    #[serde(default)]
    rm_ids: Vec<String>,
    #[serde(default)]
    read: bool,
    #[serde(default)]
    admin: bool,
}

impl Rule {
    /// A rule for clients whose certificate proves `name`, such as `cn=shim-a`.
    pub fn certificate(name: &str, rm_ids: &[&str], admin: bool) -> Result<Self, RuleError> {
        Self::new(Holder::Certificate(name.parse()?), rm_ids.iter().copied(), false, admin)
    }

    /// A rule for clients that present the token called `name`.
    pub fn token(name: &str, rm_ids: &[&str], admin: bool) -> Result<Self, RuleError> {
        Self::new(token(name.to_owned())?, rm_ids.iter().copied(), false, admin)
    }

    /// A rule for clients that present the token called `name` and may read everything.
    pub fn reader(name: &str) -> Result<Self, RuleError> {
        Self::new(token(name.to_owned())?, std::iter::empty(), true, false)
    }

    fn new<'p>(
        holder: Holder,
        rm_ids: impl Iterator<Item = &'p str>,
        read: bool,
        admin: bool,
    ) -> Result<Self, RuleError> {
        let rm_ids = rm_ids.map(RmPattern::parse).collect::<Result<Vec<_>, _>>()?;
        if rm_ids.is_empty() && !read && !admin {
            return Err(RuleError::Empty);
        }
        Ok(Self { holder, rm_ids, read, admin })
    }

    /// The caller to whom the rule applies.
    pub fn holder(&self) -> &Holder {
        &self.holder
    }

    /// The resource managers that the holder may act as and read of.
    pub fn rm_ids(&self) -> &[RmPattern] {
        &self.rm_ids
    }

    /// Whether the holder may read everything.
    pub fn read(&self) -> bool {
        self.read
    }

    /// Whether the holder may administer, which includes everything else.
    pub fn admin(&self) -> bool {
        self.admin
    }
}

fn token(name: String) -> Result<Holder, RuleError> {
    if name.is_empty() || name.contains([':', '#']) || name.trim() != name {
        return Err(RuleError::TokenName);
    }
    Ok(Holder::Token(name))
}

impl TryFrom<RuleText> for Rule {
    type Error = RuleError;

    fn try_from(text: RuleText) -> Result<Self, RuleError> {
        let holder = match (text.certificate, text.token) {
            (Some(name), None) => Holder::Certificate(name.parse()?),
            (None, Some(name)) => token(name)?,
            (None, None) | (Some(_), Some(_)) => return Err(RuleError::Holder),
        };
        let rm_ids = text.rm_ids.iter().map(String::as_str);
        Self::new(holder, rm_ids, text.read, text.admin)
    }
}

impl RmPattern {
    pub(super) fn parse(text: &str) -> Result<Self, RuleError> {
        let (start, is_prefix) = match text.strip_suffix('*') {
            Some(start) => (start, true),
            None => (text, false),
        };
        // No rmID contains `[` or `]`, which delimit it in the full name of a partition.
        let is_wrong = |c: char| c.is_control() || matches!(c, '*' | '[' | ']');
        if start.contains(is_wrong) || (start.is_empty() && !is_prefix) {
            return Err(RuleError::Pattern(text.to_owned()));
        }
        let start = start.to_owned();
        Ok(if is_prefix { Self::Prefix(start) } else { Self::Exact(start) })
    }

    /// Whether the pattern matches `rm_id`.
    pub fn fits(&self, rm_id: &str) -> bool {
        match self {
            Self::Exact(id) => id == rm_id,
            Self::Prefix(start) => rm_id.starts_with(start.as_str()),
        }
    }
}

impl fmt::Display for RmPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(id) => f.write_str(id),
            Self::Prefix(start) => write!(f, "{start}*"),
        }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Certificate(name) => write!(f, "certificate `{name}`"),
            Self::Token(name) => write!(f, "token `{name}`"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pattern_is_an_id_or_a_prefix() {
        let fits = |pattern, rm_id| RmPattern::parse(pattern).unwrap().fits(rm_id);
        assert!(fits("a", "a") && !fits("a", "ab"));
        assert!(fits("a*", "a") && fits("a*", "ab") && !fits("a*", "ba"));
        assert!(fits("*", "anything"));
        for pattern in ["", "*a", "a*b", "a**", "[a]", "a\nb"] {
            assert!(RmPattern::parse(pattern).is_err(), "{pattern}");
        }
    }

    #[test]
    fn rule_has_one_holder_and_some_grant() {
        let rule = |certificate: Option<&str>, token: Option<&str>, rm_ids: &[&str], admin| {
            let owned = |text: &str| text.to_owned();
            Rule::try_from(RuleText {
                certificate: certificate.map(owned),
                token: token.map(owned),
                rm_ids: rm_ids.iter().map(|&id| id.to_owned()).collect(),
                read: false,
                admin,
            })
        };
        assert!(rule(Some("cn=a"), None, &["a"], false).is_ok());
        assert!(rule(None, Some("ci"), &[], true).is_ok());
        assert!(matches!(rule(None, None, &["a"], false), Err(RuleError::Holder)));
        assert!(matches!(rule(Some("cn=a"), Some("ci"), &["a"], false), Err(RuleError::Holder)));
        assert!(Rule::reader("dash").is_ok_and(|rule| rule.read() && !rule.admin()));
        assert!(matches!(rule(Some("a"), None, &["a"], false), Err(RuleError::Name(_))));
        assert!(matches!(rule(None, Some("a:b"), &["a"], false), Err(RuleError::TokenName)));
        assert!(matches!(rule(None, Some("ci"), &[], false), Err(RuleError::Empty)));
    }
}
