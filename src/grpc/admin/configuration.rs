//! The configuration calls of the admin service.
//!
//! A configuration with errors is answered with `success` false and the reason, as clients of every
//! revision expect, and so is one that is in force only in part. A status is returned only for a
//! call that is invalid as a whole, or may succeed when it is made again. The checksums
//! of the old and the new configuration are in the metadata of the reply, since the message has no
//! field for them. The reason of a success lists the differences, one sentence per line, with
//! present usage.
//!
//! A resource manager may change its own configuration if it is alone in its policy group
//! (`docs/reloading.md#who-may-change-it`). A caller that may read a configuration may also try a
//! new one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use monoceros_actors::{ConfigurationError, ConfigurationUpdate, SchedulerHandle};
use monoceros_proto::si::v1 as si;
use monoceros_proto::v1;
use tonic::codegen::Bytes;
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Response, Status};
use tracing::info;

use super::defaults;
use super::refusal::CallRefusal;
use super::target::resource_manager;
use crate::grpc::GrpcEdge;
use crate::grpc::end::{Cause, ChangeRefusal, StreamEnd};
use crate::grpc::registry::{Configurations, GroupChange, Tried};
use crate::grpc::shared::{self, Reads};
use crate::identity::{Identity, Right};
use crate::locked::locked;
use crate::logging::AUDIT;
use crate::reads::Kind;
use crate::secrets;

/// Reply metadata: checksum of the configuration before the call.
const OLD_CHECKSUM: &str = "x-si-checksum-old";
/// Reply metadata: checksum of the configuration now in force, or of the one tried.
const NEW_CHECKSUM: &str = "x-si-checksum-new";
/// Request metadata: `true` makes the resource manager store the configuration first.
const PERSIST: &str = "x-si-persist";

/// Most lines of differences in a reply.
const MOST_DIFFERENCES: usize = 1_000;
/// Most bytes of the differences and warnings: 64 KiB, far below the usual limit of gRPC clients (4
/// MiB).
const MOST_DIFFERENCE_BYTES: usize = 64 << 10;
/// Prefix of warnings in a reply.
const WARNING: &str = "warning: ";
/// Prefix of the reason for which a resource manager did not store a configuration.
const NOT_KEPT: &str = "the resource manager did not keep it";

/// Whether a configuration is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Enforcement {
    /// Applies the configuration if it has no errors.
    Apply,
    /// Changes nothing; the caller wants to know the effect of the configuration. In a cluster the
    /// other members try it, too, if the caller may see all resource managers of the policy group.
    Try,
    /// Changes nothing; another member of the cluster asks all resource managers of the policy
    /// group, of which this is one.
    TryHere,
}

/// A configuration call.
pub(super) struct ConfigChange {
    pub(super) request: si::UpdateConfigurationRequest,
    pub(super) enforcement: Enforcement,
    /// Whether the resource manager stores the configuration before it is applied.
    pub(super) persist: bool,
}

/// Locks that let one change per resource manager proceed at a time, so that the configuration it
/// stores is the one in force.
///
/// A trial for another member takes no lock: that member holds one of its own while it waits for the
/// trial. The compare-and-set of the policy group's record orders changes at several members.
#[derive(Default)]
pub(super) struct ChangeLocks(Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>);

impl ChangeLocks {
    fn of(&self, rm_id: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut locks = locked(&self.0);
        // An entry that only this table references is not in use.
        locks.retain(|_, turn| Arc::strong_count(turn) > 1);
        Arc::clone(locks.entry(rm_id.to_owned()).or_default())
    }
}

/// Answers `UpdateConfig` and `ValidateConfig`.
pub(super) async fn change(
    edge: &GrpcEdge,
    locks: &ChangeLocks,
    caller: &Identity,
    change: ConfigChange,
) -> Result<Response<si::UpdateConfigurationResponse>, Status> {
    let handle = &edge.handle;
    let ConfigChange { mut request, enforcement, persist } = change;
    let right = match enforcement {
        Enforcement::Apply => Right::Act,
        Enforcement::Try | Enforcement::TryHere => Right::Read,
    };
    request.rm_id = resource_manager(handle, caller, right, &request.rm_id).await?;
    let _turn = match enforcement {
        Enforcement::Apply | Enforcement::Try => Some(locks.of(&request.rm_id).lock_owned().await),
        Enforcement::TryHere => None,
    };
    let present = handle.configuration(&request.rm_id).await.map_err(status)?;
    if enforcement == Enforcement::Apply && !caller.may_administer() {
        check_alone(edge, &request.rm_id, &present.policy_group).await?;
    }
    let (old_config, group) = (present.config, present.policy_group);
    let given = if request.config.is_empty() { &request.configs } else { &request.config }.clone();
    let extra = std::mem::take(&mut request.extra_config);
    request.extra_config = match secrets::unmasked(extra, &present.extra_config) {
        Ok(extra) => extra,
        Err(key) => {
            let reason = format!("`{key}` is masked, and there is no value that it could mean");
            return Err(CallRefusal::field("extraConfig", reason).into());
        }
    };
    let tried = handle.validate_configuration(request.clone()).await;
    let outcome = match (tried, enforcement) {
        (Ok(_), Enforcement::Apply) => {
            carry_out(edge, caller, Change { request, given, group, persist }).await
        }
        (Ok(update), Enforcement::Try) if caller.may_administer() => {
            let tried = SharedChange::begin(edge, caller, &update.rm_id, group, &given).await;
            tried.map(|_| update).map_err(Unfinished::from)
        }
        (tried, _) => tried.map_err(Unfinished::from),
    };
    match outcome {
        Ok(update) => Ok(accepted(&update)),
        Err(Unfinished::Refused(reason)) => Ok(refused(old_config, reason)),
        Err(Unfinished::Failed(status)) => Err(status),
    }
}

/// Why a configuration is not in force, or not wholly.
#[derive(Debug)]
enum Unfinished {
    /// Another call gets the same answer: `success` is false, and this is the reason.
    Refused(String),
    /// The call is invalid, or may succeed when it is made again.
    Failed(Status),
}

impl From<ConfigurationError> for Unfinished {
    fn from(error: ConfigurationError) -> Self {
        match error {
            ConfigurationError::PolicyGroup { .. }
            | ConfigurationError::Invalid(_)
            | ConfigurationError::TypeInUse(_) => Self::Refused(error.to_string()),
            error => Self::Failed(status(error)),
        }
    }
}

impl From<ChangeRefusal> for Unfinished {
    fn from(refusal: ChangeRefusal) -> Self {
        match refusal {
            ChangeRefusal::Refused(reason) => Self::Refused(reason),
            refusal => Self::Failed(Status::from(&refusal)),
        }
    }
}

/// A configuration that the resource manager can have.
struct Change {
    request: si::UpdateConfigurationRequest,
    /// The text of the call.
    given: String,
    group: String,
    persist: bool,
}

/// Carries out a change. In a cluster the record of the policy group is written first: whoever loses
/// the compare-and-set changes nothing.
async fn carry_out(
    edge: &GrpcEdge,
    caller: &Identity,
    change: Change,
) -> Result<ConfigurationUpdate, Unfinished> {
    let Change { request, given, group, persist } = change;
    let shared = SharedChange::begin(edge, caller, &request.rm_id, group, &given).await?;
    let Some(shared) = shared else {
        let kept = if persist { keep(edge, &request).await } else { Ok(()) };
        kept.map_err(|reason| Unfinished::Refused(format!("{NOT_KEPT}: {reason}")))?;
        return apply(edge, caller, request, given).await.map_err(Unfinished::from);
    };
    let version = shared.write(caller).await?;
    let kept = if persist { keep(edge, &request).await } else { Ok(()) };
    let applied = apply(edge, caller, request, given).await;
    // A newer text may have been written meanwhile, or this one could not be applied.
    shared.shared.applied(&shared.change.policy_group);
    match (applied, kept) {
        (Ok(update), Ok(())) => Ok(update),
        (Ok(_), Err(reason)) => Err(Unfinished::Refused(format!(
            "the configuration of the policy group is changed, but {NOT_KEPT}: {reason}"
        ))),
        (Err(error), kept) => Err(written_only(&shared.change, version, error, kept.err())),
    }
}

/// The answer to a change that was written for the policy group, and not applied here: the work has
/// changed since the trial. Other members apply it, and this one tries it again.
fn written_only(
    change: &GroupChange,
    version: u64,
    error: ConfigurationError,
    not_kept: Option<String>,
) -> Unfinished {
    let GroupChange { rm_id, policy_group, .. } = change;
    let not_kept = not_kept.map(|reason| format!("\n{NOT_KEPT}: {reason}")).unwrap_or_default();
    let text = format!(
        "the configuration of policy group `{policy_group}` is changed (version {version}), and is \
         not in force for `{rm_id}`, where its queues are tried again and the settings of \
         `extraConfig` are not: {error}{not_kept}"
    );
    match Unfinished::from(error) {
        Unfinished::Refused(_) => Unfinished::Refused(text),
        Unfinished::Failed(status) => {
            let details = Bytes::copy_from_slice(status.details());
            let metadata = status.metadata().clone();
            let status = Status::with_details_and_metadata(status.code(), text, details, metadata);
            Unfinished::Failed(status)
        }
    }
}

/// A change that all members of a cluster have tried.
struct SharedChange {
    shared: Arc<dyn Configurations>,
    change: GroupChange,
    tried: Tried,
}

impl SharedChange {
    /// Has all members try the text. `None` without a cluster, and for an empty text, which means
    /// the configuration that the policy group has. Fails with the reasons of the members.
    async fn begin(
        edge: &GrpcEdge,
        caller: &Identity,
        rm_id: &str,
        policy_group: String,
        given: &str,
    ) -> Result<Option<Self>, ChangeRefusal> {
        let Some(shared) = edge.registry.configurations().filter(|_| !given.is_empty()) else {
            return Ok(None);
        };
        let change =
            GroupChange { rm_id: rm_id.to_owned(), policy_group, config: given.to_owned() };
        let tried = shared.try_on_all(&change, caller).await?;
        Ok(Some(Self { shared, change, tried }))
    }

    /// Writes the text for all members. Returns its version. Fails if it has changed since the
    /// trial.
    async fn write(&self, caller: &Identity) -> Result<u64, ChangeRefusal> {
        self.shared.set(&self.change, self.tried, caller).await
    }
}

/// Applies a configuration, and the new terms of the session. `given` is the text of the call.
async fn apply(
    edge: &GrpcEdge,
    caller: &Identity,
    request: si::UpdateConfigurationRequest,
    given: String,
) -> Result<ConfigurationUpdate, ConfigurationError> {
    let extra = request.extra_config.clone();
    let update = edge.handle.update_configuration(request).await?;
    edge.registry.reconfigured(&update.rm_id, given, &extra);
    let ConfigurationUpdate { rm_id, changed, new_checksum, .. } = &update;
    info!(
        target: AUDIT,
        by = caller.name(),
        from = caller.from(),
        rm = rm_id,
        changed,
        checksum = new_checksum,
        "configuration updated"
    );
    Ok(update)
}

/// Fails if another resource manager is in this policy group, here or at another member of the
/// cluster.
async fn check_alone(edge: &GrpcEdge, rm_id: &str, policy_group: &str) -> Result<(), Status> {
    let handle = &edge.handle;
    if let Some(shared) = edge.registry.configurations()
        && shared.is_shared(policy_group, rm_id).await.map_err(|why| Status::from(&why))?
    {
        return Err(CallRefusal::GroupShared(policy_group.to_owned()).into());
    }
    for other in handle.resource_managers() {
        if other == rm_id {
            continue;
        }
        // A resource manager that was just removed does not count.
        let Ok(other) = handle.configuration(&other).await else { continue };
        if other.policy_group == policy_group {
            return Err(CallRefusal::GroupShared(policy_group.to_owned()).into());
        }
    }
    Ok(())
}

/// Answers `GetConfig`.
pub(super) async fn read(
    handle: &SchedulerHandle,
    reads: &Reads,
    caller: &Identity,
    mut request: v1::GetConfigRequest,
) -> Result<Response<v1::GetConfigResponse>, Status> {
    if defaults::concern_none(handle, caller, &request.rm_id)? {
        let handle = handle.clone();
        let read = move || async move { defaults::configuration(&handle).await };
        return shared::read(reads, Kind::Configuration, "", &request, read).await;
    }
    let rm_id = resource_manager(handle, caller, Right::Read, &request.rm_id).await?;
    request.rm_id.clear();
    let (handle, of, wanted) = (handle.clone(), rm_id.clone(), request.clone());
    let read = move || async move { of_rm(&handle, &rm_id, request).await };
    shared::read(reads, Kind::Configuration, &of, &wanted, read).await
}

async fn of_rm(
    handle: &SchedulerHandle,
    rm_id: &str,
    request: v1::GetConfigRequest,
) -> Result<v1::GetConfigResponse, CallRefusal> {
    let present = handle.configuration(rm_id).await.map_err(|error| match error {
        ConfigurationError::NotRegistered(rm_id) => CallRefusal::NotRegistered(rm_id),
        ConfigurationError::Stopped => CallRefusal::Stopped,
        error => CallRefusal::field("rm_id", error.to_string()),
    })?;
    if !request.policy_group.is_empty() && request.policy_group != present.policy_group {
        let (given, registered) = (request.policy_group, present.policy_group);
        let reason = format!("`{given}` is not `{registered}`, that of `{rm_id}`");
        return Err(CallRefusal::field("policy_group", reason));
    }
    Ok(v1::GetConfigResponse {
        config: present.config,
        extra_config: secrets::masked(present.extra_config),
        checksum: present.checksum,
        policy_group: present.policy_group,
        is_default: false,
    })
}

/// Whether the metadata of a call ask the resource manager to store the configuration.
pub(super) fn persists(metadata: &MetadataMap) -> Result<bool, CallRefusal> {
    match metadata.get(PERSIST).map(MetadataValue::as_bytes) {
        None | Some(b"false") => Ok(false),
        Some(b"true") => Ok(true),
        Some(_) => Err(CallRefusal::field(PERSIST, "is neither `true` nor `false`")),
    }
}

fn accepted(update: &ConfigurationUpdate) -> Response<si::UpdateConfigurationResponse> {
    let ConfigurationUpdate { old_config, old_checksum, new_checksum, .. } = update;
    // The only text field of the message; clients that read it only after a failure miss nothing
    // vital.
    let warnings = warnings(update, MOST_DIFFERENCE_BYTES / 2);
    let left = MOST_DIFFERENCE_BYTES - warnings.len();
    let reason = (warnings + &update.difference.text(MOST_DIFFERENCES, left)).trim_end().to_owned();
    let old_config = old_config.clone();
    let message = si::UpdateConfigurationResponse { success: true, old_config, reason };
    let mut response = Response::new(message);
    for (key, checksum) in [(OLD_CHECKSUM, old_checksum), (NEW_CHECKSUM, new_checksum)] {
        let checksum = checksum.parse().expect("hexadecimal digits are ASCII");
        response.metadata_mut().insert(key, checksum);
    }
    response
}

/// Returns one line per warning, in at most `bytes`. If warnings are left out, one more line counts
/// them.
fn warnings(update: &ConfigurationUpdate, bytes: usize) -> String {
    let mut text = String::new();
    for (n_listed, warning) in update.warnings.iter().enumerate() {
        let line = format!("{WARNING}{warning}\n");
        if text.len() + line.len() > bytes {
            let n_more = update.warnings.len() - n_listed;
            let rest = format!("{WARNING}{n_more} more warnings are left out\n");
            text += &rest;
            break;
        }
        text += &line;
    }
    text
}

fn refused(old_config: String, reason: String) -> Response<si::UpdateConfigurationResponse> {
    Response::new(si::UpdateConfigurationResponse { success: false, old_config, reason })
}

fn status(error: ConfigurationError) -> Status {
    match error {
        ConfigurationError::RmIdMissing => CallRefusal::NobodyRegistered.into(),
        ConfigurationError::NotRegistered(rm_id) => CallRefusal::NotRegistered(rm_id).into(),
        ConfigurationError::Stopped => CallRefusal::Stopped.into(),
        ConfigurationError::TooBusy(busy) => CallRefusal::TooBusy(busy).into(),
        ConfigurationError::PartitionLost(_) => {
            Status::from(&StreamEnd::ResyncRequired(Cause::StateLost(error.to_string())))
        }
        ConfigurationError::PolicyGroup { .. }
        | ConfigurationError::Invalid(_)
        | ConfigurationError::TypeInUse(_) => {
            CallRefusal::field("config", error.to_string()).into()
        }
    }
}

/// Lets the resource manager store the configuration.
async fn keep(edge: &GrpcEdge, request: &si::UpdateConfigurationRequest) -> Result<(), String> {
    let session = edge.registry.session(&request.rm_id).ok_or("it has no session")?;
    let text = if request.config.is_empty() { &request.configs } else { &request.config };
    session.attachment().save_config(text.clone(), request.extra_config.clone()).await
}

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;
    use crate::grpc::REASON_TRAILER;
    use crate::grpc::end::ClaimRefusal;

    fn change() -> GroupChange {
        let [rm_id, policy_group, config] = ["one", "etl", "partitions: []"].map(str::to_owned);
        GroupChange { rm_id, policy_group, config }
    }

    const BEGINS: &str = "the configuration of policy group `etl` is changed (version 3), and is \
                          not in force for `one`, where its queues are tried again and the \
                          settings of `extraConfig` are not: ";

    #[test]
    fn a_change_that_was_only_written_says_so_with_all_reasons() {
        let error = || {
            let (given, registered) = ("a".to_owned(), "b".to_owned());
            ConfigurationError::PolicyGroup { given, registered }
        };
        let said = format!("{BEGINS}{}", error());
        let Unfinished::Refused(reason) = written_only(&change(), 3, error(), None) else {
            panic!("another call may succeed")
        };
        assert_eq!(reason, said);
        let not_kept = Some("its disk is full".to_owned());
        let Unfinished::Refused(reason) = written_only(&change(), 3, error(), not_kept) else {
            panic!("another call may succeed")
        };
        let lines = [&*said, "the resource manager did not keep it: its disk is full"];
        assert_eq!(reason, lines.join("\n"));
    }

    #[test]
    fn a_change_that_was_only_written_is_a_status_where_another_call_may_succeed() {
        let error = ConfigurationError::NotRegistered("one".to_owned());
        let said = format!("{BEGINS}{error}");
        let Unfinished::Failed(status) = written_only(&change(), 3, error, None) else {
            panic!("no other call may succeed")
        };
        assert_eq!((status.code(), status.message()), (Code::FailedPrecondition, &*said));
        assert_eq!(status.metadata().get(REASON_TRAILER).unwrap(), "RM_NOT_REGISTERED");
    }

    #[test]
    fn passing_failures_of_the_cluster_are_no_refusals() {
        let failed =
            |refusal: ChangeRefusal| matches!(Unfinished::from(refusal), Unfinished::Failed(_));
        assert!(!failed(ChangeRefusal::Refused(String::new())));
        for passing in [
            ChangeRefusal::Untried(String::new()),
            ChangeRefusal::ChangedMeanwhile(String::new()),
            ChangeRefusal::NotKept(String::new()),
            ClaimRefusal::ArbiterUnavailable.into(),
        ] {
            assert!(failed(passing.clone()), "{passing:?}");
        }
    }
}
