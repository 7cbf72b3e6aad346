//! Connections of this machine by their processes.

use std::fs;
use std::net::SocketAddr;

/// Whether a process has the connection whose end is at this address. False where the system does
/// not tell.
pub fn is_of(process: u32, address: SocketAddr) -> bool {
    let connections = fs::read_to_string("/proc/net/tcp").unwrap_or_default();
    let port = format!(":{:04X}", address.port());
    let number = connections.lines().skip(1).find_map(|line| {
        let fields: Vec<_> = line.split_whitespace().collect();
        fields.get(1)?.ends_with(&port).then(|| fields.get(9).copied())?
    });
    let Some(number) = number else { return false };
    let link = format!("socket:[{number}]");
    let open = fs::read_dir(format!("/proc/{process}/fd"));
    open.is_ok_and(|mut open| {
        open.any(|file| {
            let to = file.and_then(|file| fs::read_link(file.path()));
            to.is_ok_and(|to| to.to_str() == Some(link.as_str()))
        })
    })
}
