//! Debugging endpoints with paths that tools know: threads and command line. Profiles are not
//! implemented, and their endpoint says so.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;

use axum::http::StatusCode;
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;

use super::failures::Failure;
use super::replies::{Class, EndpointReply, error_object};

/// The folder in which Linux lists the threads of a process.
const THREADS: &str = "/proc/self/task";

/// Most threads that are listed.
const LISTED: usize = 10_000;

const INDEX: &str = "<html><head><title>/debug/pprof/</title></head><body>\
                     <p>Profiles are not taken here. Take one of the process from outside, for \
                     example with <code>perf record -g -p PID</code>.</p>\
                     <ul><li><a href=\"/debug/pprof/cmdline\">cmdline</a></li>\
                     <li><a href=\"/debug/stack\">threads</a></li></ul></body></html>\n";

/// Answers with the threads of the process and the number of tasks, as text.
pub(super) async fn stack() -> Result<EndpointReply, Failure> {
    let runtime = Handle::current().metrics();
    let (workers, tasks) = (runtime.num_workers(), runtime.num_alive_tasks());
    let text = spawn_blocking(move || format!("{workers} workers, {tasks} tasks\n{}", threads()));
    let text = text.await.map_err(|panic| Failure::Document(panic.to_string()))?;
    Ok(EndpointReply::ok(Class::Json, text))
}

/// Answers with the list of profiles.
pub(super) fn index() -> EndpointReply {
    EndpointReply::ok(Class::Html, INDEX)
}

pub(super) fn profile(name: &str) -> EndpointReply {
    if name == "cmdline" {
        let arguments: Vec<_> = std::env::args_os().collect();
        let arguments: Vec<&[u8]> = arguments.iter().map(|text| text.as_bytes()).collect();
        return EndpointReply::ok(Class::Text, arguments.join(&0));
    }
    let status = StatusCode::NOT_IMPLEMENTED;
    let message = "profiles are not taken here; take one of the process from outside";
    EndpointReply::new(status, Class::Json, error_object(status, message))
}

/// Formats a line per thread: number, state, CPU time and name.
fn threads() -> String {
    let Ok(entries) = fs::read_dir(THREADS) else {
        return "this system does not tell of threads\n".to_owned();
    };
    let ids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut ids: Vec<u32> = ids.take(LISTED).collect();
    ids.sort_unstable();
    // A thread may end between the listing and the read of its file.
    let lines = ids
        .iter()
        .filter_map(|id| line(*id, &fs::read_to_string(format!("{THREADS}/{id}/stat")).ok()?));
    lines.collect()
}

/// Formats the line of a thread from its `stat` file.
fn line(id: u32, stat: &str) -> Option<String> {
    // The name is in parentheses and may contain any character.
    let (_, rest) = stat.split_once('(')?;
    let (name, rest) = rest.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split(' ').collect();
    // The kernel's fields from the third on include the state, and the time in user and system
    // mode.
    let (state, user, system) = (fields.first()?, fields.get(11)?, fields.get(12)?);
    Some(format!("thread {id} {state} user={user} system={system} {name}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_with_any_name_is_a_line() {
        let stat = "42 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14";
        assert_eq!(line(42, stat).unwrap(), "thread 42 S user=11 system=12 a) b (c\n");
        assert_eq!(line(42, "42 (cut"), None);
    }
}
