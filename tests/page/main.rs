//! The page in a real browser: every view, every number against REST, keys, links, tokens, dark, small
//! screens, without anything from elsewhere; and the bundle against its sources.
//!
//! The browser is a Chromium on the path. Where there is none, each test of it says so in one line and is done;
//! so does that of the bundle where there is no npm.
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
mod live;
mod long;
mod numbers;
mod picture;
mod pods;
mod tokens;
