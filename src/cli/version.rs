//! The version of this build, for `monoceros --version` and the first line of the log.

pub use monoceros_actors::metrics::Build;
use monoceros_actors::rfc3339;

/// This build.
pub const BUILD: Build = Build {
    version: env!("CARGO_PKG_VERSION"),
    commit: env!("BUILT_COMMIT"),
    target: env!("BUILT_TARGET"),
    rustc: env!("BUILT_RUSTC"),
};

/// Returns the time of the build in RFC 3339. A build of a commit for release has the time of the
/// commit.
pub fn build_date() -> String {
    let seconds: i64 = env!("BUILT_SECONDS").parse().unwrap_or_default();
    rfc3339(seconds.saturating_mul(1_000_000_000))
}

/// The output of `monoceros --version` after the name.
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
    fn the_version_has_number_commit_and_target() {
        let Build { version, commit, target, rustc } = BUILD;
        assert_eq!(TEXT, format!("{version} (commit {commit}, {target})"));
        assert!(!commit.is_empty() && target.contains('-'), "{TEXT}");
        assert!(rustc.starts_with(|first: char| first.is_ascii_digit()), "{rustc}");
        assert!(build_date().starts_with("20"), "{}", build_date());
    }
}
