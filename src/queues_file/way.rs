//! The way to a file: every name on its path, links followed.
//!
//! # Why the whole way
//! A path leads to another file when any name on it changes: a directory is replaced by another of
//! the same name, or a link is changed. A watch of the file alone would keep watching the old file.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

/// Most links that are followed one after another: as many as Linux follows.
const MOST_LINKS: usize = 40;

/// The file or folder that is watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WatchTarget {
    File(PathBuf),
    /// Every `*.yaml` directly in this folder.
    Folder(PathBuf),
}

impl WatchTarget {
    pub(super) fn path(&self) -> &Path {
        match self {
            Self::File(path) | Self::Folder(path) => path,
        }
    }

    /// Follows the present way to the target.
    pub(super) fn way(&self) -> Way {
        let mut way = Way::default();
        let end = way.follow(self.path());
        if let Self::Folder(_) = self {
            for entry in end.read_dir().into_iter().flatten().flatten() {
                if is_yaml(&entry.path()) {
                    way.follow(&entry.path());
                }
            }
            way.near.insert(end.clone());
            way.folder = Some(end);
        }
        way
    }
}

/// Names on the way to files. All paths are absolute, and only their last name may be a link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Way {
    /// All names on the ways, including the files or the folder at their ends.
    names: BTreeSet<PathBuf>,
    /// The name at the end of each way.
    ends: BTreeSet<PathBuf>,
    /// The directories that contain a link on the ways, or the file or folder at their ends. An
    /// event occurs in one of them when a file is written or a link is set.
    near: BTreeSet<PathBuf>,
    /// The folder whose `*.yaml` files count.
    folder: Option<PathBuf>,
}

impl Way {
    /// Adds the way to a path, and returns its end, which may not exist.
    fn follow(&mut self, path: &Path) -> PathBuf {
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let mut at = PathBuf::from("/");
        let mut left = steps(&absolute);
        let mut n_links = 0;
        while let Some(step) = left.pop() {
            let name = match step {
                PathStep::Root => {
                    at = PathBuf::from("/");
                    continue;
                }
                PathStep::Up => {
                    at.pop();
                    continue;
                }
                PathStep::Down(name) => name,
            };
            let entry = at.join(name);
            let target = entry.read_link().ok();
            if target.is_some() || left.is_empty() {
                self.near.insert(at.clone());
            }
            match target {
                Some(_) if n_links == MOST_LINKS => left.clear(),
                Some(target) => {
                    n_links += 1;
                    left.extend(steps(&target));
                }
                None => at.clone_from(&entry),
            }
            self.names.insert(entry);
        }
        self.ends.insert(at.clone());
        at
    }

    /// Returns the directories in which an event occurs when a file is written or a link set.
    pub(super) fn near(&self) -> &BTreeSet<PathBuf> {
        &self.near
    }

    /// Returns the directories of [`near`](Self::near), and those of all other names on the way.
    pub(super) fn directories(&self) -> BTreeSet<PathBuf> {
        let above = self.names.iter().filter_map(|name| name.parent());
        above.map(Path::to_owned).chain(self.near.iter().cloned()).collect()
    }

    pub(super) fn ends_at(&self, path: &Path) -> bool {
        self.ends.contains(path) && self.folder.as_deref() != Some(path)
    }

    /// Whether a change of this path may change the files that are read.
    pub(super) fn leads_through(&self, changed: &Path) -> bool {
        let is_in_folder = self.folder.is_some() && changed.parent() == self.folder.as_deref();
        self.names.contains(changed) || (is_in_folder && is_yaml(changed))
    }
}

enum PathStep {
    Root,
    Up,
    Down(OsString),
}

/// Returns the steps of a path in reverse.
fn steps(path: &Path) -> Vec<PathStep> {
    let step = |component| match component {
        Component::RootDir => Some(PathStep::Root),
        Component::ParentDir => Some(PathStep::Up),
        Component::Normal(name) => Some(PathStep::Down(name.to_owned())),
        Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().rev().filter_map(step).collect()
}

/// Whether a file of a folder is read, by its name.
pub(super) fn is_yaml(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "yaml")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn every_link_is_followed_and_every_name_counts() {
        let folder = std::env::temp_dir().join(format!("monoceros-way-{}", std::process::id()));
        fs::create_dir_all(folder.join("releases/1")).unwrap();
        let folder = folder.canonicalize().unwrap();
        symlink("releases/1", folder.join("current")).unwrap();
        symlink("./../current/q", folder.join("releases/link")).unwrap();
        symlink("releases/link", folder.join("queues.yaml")).unwrap();
        symlink("loop", folder.join("loop")).unwrap();

        let way = WatchTarget::File(folder.join("queues.yaml")).way();
        let inside =
            ["queues.yaml", "releases", "releases/link", "current", "releases/1", "releases/1/q"];
        for name in inside {
            assert!(way.leads_through(&folder.join(name)), "{name}");
        }
        assert!(way.leads_through(&folder) && !way.leads_through(&folder.join("loop")));
        let near = ["", "releases", "releases/1"].map(|name| folder.join(name));
        assert_eq!(way.near(), &BTreeSet::from(near.map(|path| path.components().collect())));
        assert!(way.directories().contains(Path::new("/")));

        let way = WatchTarget::File(folder.join("loop/over")).way();
        assert!(way.leads_through(&folder.join("loop")), "a loop ends");
        let way = WatchTarget::Folder(folder.join("current")).way();
        assert!(way.leads_through(&folder.join("releases/1/new.yaml")));
        assert!(!way.leads_through(&folder.join("releases/1/new.txt")));
        assert!(way.near().contains(&folder.join("releases/1")));
        fs::remove_dir_all(&folder).unwrap();
    }
}
