//! Which build this is: `monoceros --version`, and the first line of the log.

pub use monoceros_actors::metrics::Build;
use monoceros_actors::rfc3339;

/// This build.
pub const BUILD: Build = Build {
    version: env!("CARGO_PKG_VERSION"),
    commit: env!("BUILT_COMMIT"),
    target: env!("BUILT_TARGET"),
    rustc: env!("BUILT_RUSTC"),
};

/// When this was built, as RFC 3339 has it: of what is built from a commit to be released, when that
/// was made.
pub fn build_date() -> String {
    let seconds: i64 = env!("BUILT_SECONDS").parse().unwrap_or_default();
    rfc3339(seconds.saturating_mul(1_000_000_000))
}

/// What `monoceros --version` says behind the name.
pub(super) const TEXT: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (commit ",
    env!("BUILT_COMMIT"),
    ", ",
    env!("BUILT_TARGET"),
    ")"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_has_the_number_the_commit_and_the_target() {
        let Build { version, commit, target, rustc } = BUILD;
        assert_eq!(TEXT, format!("{version} (commit {commit}, {target})"));
        assert!(!commit.is_empty() && target.contains('-'), "{TEXT}");
        assert!(rustc.starts_with(|first: char| first.is_ascii_digit()), "{rustc}");
        assert!(build_date().starts_with("20"), "{}", build_date());
    }
}
