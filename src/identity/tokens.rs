//! Bearer tokens from a file with one `name:token` per line.
//!
//! Two lines may have the same name: while clients change from one token to the next, both are
//! valid. Empty lines and lines that begin with `#` are ignored.
//!
//! # Invariant
//! Neither an error nor the debug form shows a token or a line of the file.

use std::fmt;
use std::path::PathBuf;

use subtle::{Choice, ConstantTimeEq as _};

/// Why a token file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokensError {
    /// The file is not text.
    #[error("the file of tokens is not UTF-8")]
    NotText,
    /// A line is not of the form `name:token`.
    #[error("line {0} of the file of tokens is not `name:token`, without blanks in the token")]
    Line(usize),
    /// Two lines have the same token, so its name would be ambiguous.
    #[error("lines {0} and {1} of the file of tokens have the same token")]
    Repeated(usize, usize),
}

/// A token file that cannot be used, with its path.
#[derive(Debug, thiserror::Error)]
#[error("`{}`: {error}", path.display())]
pub struct TokenFileError {
    /// Path of the file.
    pub path: PathBuf,
    /// The error. It is part of the message, so it is no source.
    pub error: TokensError,
}

/// The tokens of a file with their names.
#[derive(Default)]
pub struct Tokens(Vec<Token>);

struct Token {
    name: String,
    secret: String,
    line: usize,
}

impl Tokens {
    /// Parses the content of a file.
    pub fn parse(content: &[u8]) -> Result<Self, TokensError> {
        let content = std::str::from_utf8(content).map_err(|_| TokensError::NotText)?;
        let mut tokens: Vec<Token> = Vec::new();
        for (line, text) in (1..).zip(content.lines()) {
            let text = text.trim();
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            let (name, secret) = text.split_once(':').ok_or(TokensError::Line(line))?;
            let (name, secret) = (name.trim(), secret.trim());
            // A header can only hold visible ASCII.
            let is_token = !secret.is_empty() && secret.chars().all(|c| c.is_ascii_graphic());
            if name.is_empty() || !is_token {
                return Err(TokensError::Line(line));
            }
            if let Some(earlier) = tokens.iter().find(|token| token.secret == secret) {
                return Err(TokensError::Repeated(earlier.line, line));
            }
            tokens.push(Token { name: name.to_owned(), secret: secret.to_owned(), line });
        }
        Ok(Self(tokens))
    }

    /// The name of the token `shown`. The time depends on the number and lengths of the tokens
    /// only, not on their content: all are compared completely.
    pub fn name_of(&self, shown: &[u8]) -> Option<&str> {
        let mut found = None;
        for token in &self.0 {
            let same: Choice = token.secret.as_bytes().ct_eq(shown);
            if same.into() {
                found = Some(token.name.as_str());
            }
        }
        found
    }

    /// Whether the file has a token of this name.
    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|token| token.name == name)
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|token| &token.name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_matches_whole_and_by_any_line() {
        let file = b"# of the shims\nshim-a: s3cr3t:with-colon\n\nops:first\nops:second\n";
        let tokens = Tokens::parse(file).unwrap();
        assert_eq!(tokens.name_of(b"s3cr3t:with-colon"), Some("shim-a"));
        assert_eq!(tokens.name_of(b"first"), Some("ops"));
        assert_eq!(tokens.name_of(b"second"), Some("ops"));
        for wrong in ["", "firs", "firstx", "ops", "FIRST"] {
            assert_eq!(tokens.name_of(wrong.as_bytes()), None, "{wrong}");
        }
        assert!(tokens.has("ops") && !tokens.has("first"));
    }

    #[test]
    fn error_names_lines_without_content() {
        for (file, error) in [
            (&b"a:hidden\nhidden"[..], TokensError::Line(2)),
            (b"a:", TokensError::Line(1)),
            (b":hidden", TokensError::Line(1)),
            (b"a:hid den", TokensError::Line(1)),
            (b"a:hidden\n\nb:hidden", TokensError::Repeated(1, 3)),
            (b"\xff", TokensError::NotText),
        ] {
            let found = Tokens::parse(file).unwrap_err();
            assert_eq!(found, error);
            assert!(!found.to_string().contains("hid"));
        }
        let tokens = Tokens::parse(b"a:hidden").unwrap();
        assert_eq!(format!("{tokens:?}"), r#"["a"]"#);
    }
}
