//! The web UI in a real browser: every view, every number compared with REST, keys, links, tokens,
//! dark mode and small screens, without external resources; and the bundle compared with its
//! sources.
//!
//! The browser is a Chromium on the path. If there is none, each of its tests prints a line and
//! passes, and so does the bundle's test without npm.
#![allow(clippy::unwrap_used)]

#[path = "../harness/mod.rs"]
mod harness;
#[path = "../rest/scene.rs"]
#[allow(dead_code, reason = "golden files are compared elsewhere")]
mod scene;

mod accounts;
mod behaviour;
mod browser;
mod bundle;
mod devtools;
mod finding;
mod history;
mod live;
mod long;
mod long_names;
mod long_scene;
mod members;
mod numbers;
mod picture;
mod pods;
mod scale;
mod tokens;
