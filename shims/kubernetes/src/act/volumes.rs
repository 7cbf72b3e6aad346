//! Provides the volumes that a pod needs before it is bound.
//!
//! The choice is written once for each claim: the claim of an existing volume, or the node for
//! which a volume is to be provisioned. The volume controllers do the rest, which may take minutes;
//! the watches report the progress.
//!
//! # Invariants
//! * A write holds only for the version of the object that it was decided by.
//! * No request is in flight while the volumes are awaited.
//! * The wait also ends when the pod is no longer placed on the node, or provisioning has stopped.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::{ApiWorker, Call, Failure, NO_RIGHT, Pauses};
use crate::objects::{Meta as _, PersistentVolume, PersistentVolumeClaim};
use crate::predicates::{SELECTED_NODE, VolumeChoice};
use crate::shim::{Bind, open};

const MERGE: &str = "application/merge-patch+json";
/// Marks a volume as bound by a controller: the binding ends with the claim.
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// Most attempts of a write. Pods that share a claim write to the same object.
const ATTEMPTS: u32 = 5;
/// Pause between two checks of the progress.
const POLL: Duration = Duration::from_millis(500);

/// A claim, and the volume chosen for it.
type Objects = (Arc<PersistentVolumeClaim>, Option<Arc<PersistentVolume>>);

/// A write that a choice needs.
#[derive(Debug, PartialEq)]
struct Write {
    call: Call,
    path: String,
    /// Resource version of the object that it was decided by.
    version: String,
    change: Value,
}

impl ApiWorker {
    /// Provides the volumes of the pod, and waits until its claims are bound.
    pub(super) async fn provide(&self, bind: &Bind) -> Result<(), String> {
        let missing = open(&self.scene).missing_volumes(&bind.key, &bind.node)?;
        let is_chosen = |claim: &String| bind.volumes.iter().any(|one| one.claim() == claim);
        if let Some(claim) = missing.iter().find(|claim| !is_chosen(claim)) {
            return Err(format!("the claim `{claim}` has no volume, and none was chosen for it"));
        }
        let mut written = Vec::new();
        for choice in &bind.volumes {
            written.push((choice, self.write_choice(bind, choice).await?));
        }
        let until = Instant::now() + self.settings.volume_timeout;
        loop {
            let missing = open(&self.scene).missing_volumes(&bind.key, &bind.node)?;
            let Some(first) = missing.first() else { return Ok(()) };
            if !self.may_act() {
                return Err(NO_RIGHT.to_owned());
            }
            for (choice, version) in &written {
                let (claim, volume) = self.objects(bind, choice)?;
                check_progress(choice, &bind.node, version.as_deref(), &claim, volume.as_deref())?;
            }
            if Instant::now() >= until {
                let waited = self.settings.volume_timeout;
                return Err(format!("the claim `{first}` was not bound within {waited:?}"));
            }
            sleep(POLL).await;
        }
    }

    /// Writes a choice unless it is written already. Returns the version that the write was based
    /// on.
    async fn write_choice(
        &self,
        bind: &Bind,
        choice: &VolumeChoice,
    ) -> Result<Option<String>, String> {
        let mut pauses = Pauses::new();
        let mut attempt = 1;
        loop {
            let (claim, volume) = self.objects(bind, choice)?;
            let write = needed_write(choice, &bind.node, &claim, volume.as_deref())?;
            let Some(Write { call, path, version, change }) = write else { return Ok(None) };
            let sent = {
                let _permit = self.lanes.volumes.acquire().await;
                if !self.may_act() {
                    return Err(NO_RIGHT.to_owned());
                }
                self.send::<IgnoredAny>("PATCH", &path, MERGE, change.to_string().into()).await
            };
            match sent {
                Ok(_) => return Ok(Some(version)),
                // The watch soon reports the change that came first.
                Err(Failure::Refused(409 | 429, _)) if attempt < ATTEMPTS => {
                    attempt += 1;
                    pauses.wait().await;
                }
                Err(failure) => {
                    self.log_failure(call, &path, &failure);
                    return Err(format!("{path} cannot be changed: {failure}"));
                }
            }
        }
    }

    /// Returns the claim and the volume of a choice, as the watches last reported them.
    fn objects(&self, bind: &Bind, choice: &VolumeChoice) -> Result<Objects, String> {
        let scene = open(&self.scene);
        let claim = choice.claim();
        let found = scene.claim(&format!("{}/{claim}", bind.pod.namespace()));
        let found = found.ok_or_else(|| format!("the claim `{claim}` is gone"))?;
        Ok((found, choice.volume().and_then(|volume| scene.volume(volume))))
    }
}

/// Returns the write that a choice needs. `None` if it is written already.
fn needed_write(
    choice: &VolumeChoice,
    node: &str,
    claim: &PersistentVolumeClaim,
    volume: Option<&PersistentVolume>,
) -> Result<Option<Write>, String> {
    let name = claim.name();
    if claim.volume().is_some() {
        // Another controller was faster. Whether the node reaches that volume is checked later.
        return Ok(None);
    }
    let version = |object: &ObjectMeta| object.resource_version.clone().unwrap_or_default();
    let VolumeChoice::Existing { volume: chosen, .. } = choice else {
        return match claim.annotation(SELECTED_NODE) {
            Some(selected) if selected == node => Ok(None),
            Some(_) => Err(elsewhere(name)),
            None => {
                let version = version(claim.metadata());
                let namespace = claim.namespace();
                Ok(Some(Write {
                    call: Call::PatchClaim,
                    path: format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}"),
                    change: json!({"metadata": {"resourceVersion": version,
                        "annotations": {SELECTED_NODE: node}}}),
                    version,
                }))
            }
        };
    };
    let Some(volume) = volume else { return Err(format!("the volume `{chosen}` is gone")) };
    let reserved = volume.spec.claim_ref.as_ref();
    if reserved.is_some_and(|reserved| reserved.may_be(claim) && reserved.uid().is_some()) {
        return Ok(None);
    }
    if reserved.is_some_and(|reserved| !reserved.may_be(claim)) {
        return Err(format!("the volume `{chosen}` is kept for another claim meanwhile"));
    }
    let version = version(volume.metadata());
    let mut change = json!({"metadata": {"resourceVersion": version}, "spec": {"claimRef": {
        "kind": "PersistentVolumeClaim", "apiVersion": "v1",
        "namespace": claim.namespace(), "name": name, "uid": claim.uid()}}});
    // A volume reserved by its owner stays reserved when the claim is deleted.
    if reserved.is_none() {
        change["metadata"]["annotations"] = json!({BOUND_BY_CONTROLLER: "yes"});
    }
    Ok(Some(Write {
        call: Call::PatchVolume,
        path: format!("/api/v1/persistentvolumes/{chosen}"),
        change,
        version,
    }))
}

/// Checks that a claim may still be bound as it was written. `before` is the version that the write
/// was based on: while the watch still has it, it has not reported the write yet.
fn check_progress(
    choice: &VolumeChoice,
    node: &str,
    before: Option<&str>,
    claim: &PersistentVolumeClaim,
    volume: Option<&PersistentVolume>,
) -> Result<(), String> {
    let name = claim.name();
    let is_before =
        |version: Option<&String>| before.is_some() && version.map(String::as_str) == before;
    if claim.volume().is_some() {
        return Ok(());
    }
    match choice {
        VolumeChoice::Provisioned { .. } if is_before(claim.metadata.resource_version.as_ref()) => {
            Ok(())
        }
        VolumeChoice::Provisioned { .. } => match claim.annotation(SELECTED_NODE) {
            Some(selected) if selected == node => Ok(()),
            Some(_) => Err(elsewhere(name)),
            // The provisioner removes the annotation if it cannot make the volume.
            None => Err(format!("no volume can be made for the claim `{name}` on the node")),
        },
        VolumeChoice::Existing { volume: chosen, .. } => {
            let Some(volume) = volume else { return Err(format!("the volume `{chosen}` is gone")) };
            let reserved = volume.spec.claim_ref.as_ref();
            if is_before(volume.metadata.resource_version.as_ref())
                || reserved
                    .is_some_and(|reserved| reserved.may_be(claim) && reserved.uid().is_some())
            {
                return Ok(());
            }
            Err(format!("the volume `{chosen}` is not kept for the claim `{name}` any more"))
        }
    }
}

fn elsewhere(claim: &str) -> String {
    format!("the volume of the claim `{claim}` is made for another node")
}
