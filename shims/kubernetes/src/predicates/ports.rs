//! Host ports.

use crate::objects::Pod;

/// The address that stands for all addresses.
const ANY: &str = "0.0.0.0";

/// A port of the node that a pod uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HostPort {
    ip: String,
    protocol: String,
    port: i32,
}

impl HostPort {
    /// Returns the host ports of a pod.
    pub(super) fn of(pod: &Pod) -> Vec<Self> {
        let sidecars = pod.spec.init_containers.iter();
        let sidecars = sidecars.filter(|one| one.restart_policy.as_deref() == Some("Always"));
        let ports = pod.spec.containers.iter().chain(sidecars).flat_map(|one| &one.ports);
        let host_ports = ports.filter_map(|port| {
            let ip = port.host_ip.as_deref().filter(|ip| !ip.is_empty()).unwrap_or(ANY);
            let protocol = port.protocol.as_deref().unwrap_or("TCP").to_owned();
            let number = port.host_port.filter(|number| *number > 0)?;
            Some(Self { ip: ip.to_owned(), protocol, port: number })
        });
        host_ports.collect()
    }

    /// Returns the port number.
    pub(super) fn number(&self) -> i32 {
        self.port
    }

    /// Returns whether both ports cannot be used on one node.
    pub(super) fn collides(&self, other: &Self) -> bool {
        self.port == other.port
            && self.protocol == other.protocol
            && (self.ip == other.ip || self.ip == ANY || other.ip == ANY)
    }

    /// Formats the port for people.
    pub(super) fn shown(&self) -> String {
        format!("{}/{}", self.port, self.protocol)
    }
}
