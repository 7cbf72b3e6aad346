//! Which build this is: `monoceros --version`, and the first line of the log.

pub use monoceros_actors::metrics::Build;

/// This build.
pub const BUILD: Build = Build {
    version: env!("CARGO_PKG_VERSION"),
    commit: env!("BUILT_COMMIT"),
    target: env!("BUILT_TARGET"),
    rustc: env!("BUILT_RUSTC"),
};

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
    }
}
