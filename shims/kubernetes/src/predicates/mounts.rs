//! Claims that pods mount, and the volumes chosen for them.

use serde::{Deserialize, Serialize};

use crate::objects::{Meta as _, Pod};

/// The volume that a claim without one gets on a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum VolumeChoice {
    /// An existing volume.
    Existing {
        /// The claim.
        claim: String,
        /// The volume.
        volume: String,
    },
    /// A volume that its class provisions for this node.
    Provisioned {
        /// The claim.
        claim: String,
    },
}

impl VolumeChoice {
    /// Returns the claim.
    pub fn claim(&self) -> &str {
        let (Self::Existing { claim, .. } | Self::Provisioned { claim }) = self;
        claim
    }

    /// Returns the volume, if it exists.
    pub fn volume(&self) -> Option<&str> {
        match self {
            Self::Existing { volume, .. } => Some(volume),
            Self::Provisioned { .. } => None,
        }
    }
}

/// A claim that a pod mounts.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Mounted {
    pub(super) name: String,
    /// `namespace/name`.
    pub(super) key: String,
    /// Whether it must have been created for the pod.
    pub(super) is_own: bool,
}

/// Returns the claims that a pod mounts, each once.
pub(super) fn mounts(pod: &Pod) -> Vec<Mounted> {
    let mut all: Vec<Mounted> = Vec::new();
    for mount in pod.claims() {
        if let Some(known) = all.iter_mut().find(|known| known.name == mount.claim) {
            known.is_own |= mount.is_own;
            continue;
        }
        let key = format!("{}/{}", pod.namespace(), mount.claim);
        all.push(Mounted { name: mount.claim, key, is_own: mount.is_own });
    }
    all
}
