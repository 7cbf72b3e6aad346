//! Connections of this machine by their processes.

use std::fs;
use std::net::SocketAddr;

/// Whether a process has opened the connection between two addresses of IPv4. False where the system
/// does not tell.
pub fn is_of(process: u32, from: SocketAddr, to: SocketAddr) -> bool {
    let connections = fs::read_to_string("/proc/net/tcp").unwrap_or_default();
    let port = |address: SocketAddr| format!(":{:04X}", address.port());
    let (from, to) = (port(from), port(to));
    let number = connections.lines().skip(1).find_map(|line| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let is_it = fields.get(1)?.ends_with(&from) && fields.get(2)?.ends_with(&to);
        is_it.then(|| fields.get(9).copied())?
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
