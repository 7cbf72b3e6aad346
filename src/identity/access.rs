//! The present rules and tokens: from a caller's credentials to its identity.
//!
//! Tokens are reloaded while the service runs, so an identity is determined for each call and never
//! kept with a connection: a token that was removed is invalid at once.

use axum::http::HeaderValue;
use tracing::warn;

use super::Identity;
use super::certificate::Names;
use super::rule::{Holder, Rule};
#[cfg(test)]
use super::tokens::TokensError;
use super::tokens::{TokenFileError, Tokens};
use crate::files::{FromFiles, LoadError, Refresh};
use crate::settings::IdentitySettings;

/// Why the identity settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// A rule names a token, and no token file is configured.
    #[error("identity.rules: token `{0}` needs `identity.tokens`, the file of tokens")]
    NoTokens(String),
    /// The token file cannot be used.
    #[error("identity.tokens: {reason}")]
    Tokens {
        /// The error, which names the file. It is part of the message, so it is no source.
        reason: LoadError<TokenFileError>,
    },
}

/// The rules and tokens in force.
#[derive(Debug, Default)]
pub struct Access {
    rules: Vec<Rule>,
    tokens: Option<FromFiles<Tokens, TokenFileError>>,
}

impl Access {
    /// No rules: every caller may do everything.
    pub fn open() -> Self {
        Self::default()
    }

    /// Loads the rules of the settings and the token file.
    pub fn load(settings: &IdentitySettings) -> Result<Self, AccessError> {
        let mut tokens = None;
        if let Some(path) = &settings.tokens {
            let (files, path) = (vec![path.clone()], path.clone());
            let parse = move |contents: &[Vec<u8>]| {
                let parsed = Tokens::parse(&contents.concat());
                parsed.map_err(|error| TokenFileError { path: path.clone(), error })
            };
            let loaded = FromFiles::load("identity.tokens", files, parse);
            tokens = Some(loaded.map_err(|reason| AccessError::Tokens { reason })?);
        }
        Self { rules: settings.rules.clone(), tokens }.checked()
    }

    /// These rules and a token file of this content, for tests.
    #[cfg(test)]
    pub(crate) fn with_tokens(rules: Vec<Rule>, content: &[u8]) -> Result<Self, TokensError> {
        let tokens = FromFiles::fixed("identity.tokens", Tokens::parse(content)?);
        Ok(Self { rules, tokens: Some(tokens) })
    }

    fn checked(self) -> Result<Self, AccessError> {
        let tokens = self.tokens.as_ref().map(FromFiles::current);
        for rule in &self.rules {
            let Holder::Token(name) = rule.holder() else { continue };
            let Some(tokens) = &tokens else {
                return Err(AccessError::NoTokens(name.clone()));
            };
            if !tokens.has(name) {
                warn!(token = %name, "a rule names a token that is not in the file of tokens");
            }
        }
        Ok(self)
    }

    /// Whether there are rules.
    pub fn is_restricted(&self) -> bool {
        !self.rules.is_empty()
    }

    /// Whether a rule requires a client certificate.
    pub fn needs_certificates(&self) -> bool {
        self.rules.iter().any(|rule| matches!(rule.holder(), Holder::Certificate(_)))
    }

    /// Whether a rule requires a token, which can be read on the network without TLS.
    pub fn has_tokens(&self) -> bool {
        self.rules.iter().any(|rule| matches!(rule.holder(), Holder::Token(_)))
    }

    /// Identifies a caller by the names of its certificate and its `Authorization` header.
    pub fn identify(
        &self,
        certificate: Option<&Names>,
        authorization: Option<&HeaderValue>,
    ) -> Identity {
        if !self.is_restricted() {
            return Identity::anybody();
        }
        let tokens = self.tokens.as_ref().map(FromFiles::current);
        let shown = authorization.and_then(bearer);
        let token = tokens.as_ref().zip(shown).and_then(|(tokens, shown)| tokens.name_of(shown));
        Identity::granted(self.rules.iter().filter(|rule| match rule.holder() {
            Holder::Certificate(name) => certificate.is_some_and(|names| names.prove(name)),
            Holder::Token(name) => token == Some(name),
        }))
    }
}

impl Refresh for Access {
    fn refresh(&self) {
        if let Some(tokens) = &self.tokens {
            tokens.refresh();
        }
    }
}

/// The token of a header `Bearer TOKEN`.
fn bearer(header: &HeaderValue) -> Option<&[u8]> {
    let bytes = header.as_bytes();
    let (scheme, token) = bytes.split_at_checked("Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then(|| token.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access() -> Access {
        let rules = vec![
            Rule::token("ops", &[], true).unwrap(),
            Rule::token("shim", &["a*"], false).unwrap(),
        ];
        Access::with_tokens(rules, b"ops:0ps\nshim:sh1m\nstray:str4y").unwrap()
    }

    #[test]
    fn token_gets_the_grants_of_its_rule() {
        let may = |header: &'static str| {
            let identity = access().identify(None, Some(&HeaderValue::from_static(header)));
            (identity.check_rm("a1").is_ok(), identity.may_administer())
        };
        assert_eq!(may("Bearer 0ps"), (false, true));
        assert_eq!(may("bearer  sh1m"), (true, false));
        for header in ["Bearer sh1", "Bearer shim", "Basic sh1m", "sh1m", "", "Bearer str4y"] {
            assert_eq!(may(header), (false, false), "{header}");
        }
    }

    #[test]
    fn token_without_rule_is_nobody() {
        let stray = HeaderValue::from_static("Bearer str4y");
        assert!(access().identify(None, Some(&stray)).check_known().is_err());
        assert!(access().identify(None, None).check_known().is_err());
    }

    #[test]
    fn token_rule_needs_a_token_file() {
        let rules = vec![Rule::token("ops", &["a"], false).unwrap()];
        let error = Access::load(&IdentitySettings { tokens: None, rules }).unwrap_err();
        assert!(error.to_string().contains("identity.tokens"), "{error}");
    }

    #[test]
    fn a_bad_token_file_is_reported_once_with_its_path() {
        let path = std::env::temp_dir().join(format!("monoceros-tokens-{}", std::process::id()));
        std::fs::write(&path, "no colon").unwrap();
        let settings = IdentitySettings { tokens: Some(path.clone()), rules: Vec::new() };
        let error = anyhow::Error::new(Access::load(&settings).unwrap_err()).context("settings");
        std::fs::remove_file(&path).unwrap();
        let text = format!("{error:#}");
        assert_eq!(text.matches("line 1 of the file of tokens").count(), 1, "{text}");
        assert!(text.starts_with(&format!("settings: identity.tokens: `{}`: ", path.display())));
    }
}
