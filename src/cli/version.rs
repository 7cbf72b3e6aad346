//! Which build this is: `monoceros --version`, and the first line of the log.

/// What a build is told apart by.
#[derive(Clone, Copy, Debug)]
pub struct Build {
    /// The version, such as `0.1.0`.
    pub version: &'static str,
    /// The beginning of the id of the commit, or `unknown`.
    pub commit: &'static str,
    /// System and processor, such as `x86_64-unknown-linux-gnu`.
    pub target: &'static str,
}

/// This build.
pub const BUILD: Build = Build {
    version: env!("CARGO_PKG_VERSION"),
    commit: env!("BUILT_COMMIT"),
    target: env!("BUILT_TARGET"),
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
        let Build { version, commit, target } = BUILD;
        assert_eq!(TEXT, format!("{version} (commit {commit}, {target})"));
        assert!(!commit.is_empty() && target.contains('-'), "{TEXT}");
    }
}
