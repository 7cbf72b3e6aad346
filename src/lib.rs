//! The Monoceros service: the edges around the scheduler of `monoceros-actors`.
//!
//! An edge translates and hands on; no scheduling decision is made here.
//!
//! Reading order: [`cli`], [`input`], [`settings`], [`serve`], [`files`], [`identity`], [`grpc`],
//! [`rest`], [`dump`], [`demo`], [`simulate`], [`validate`].

pub mod cli;
pub mod demo;
pub mod dump;
pub mod files;
pub mod grpc;
pub mod identity;
pub mod input;
pub mod rest;
pub mod serve;
pub mod settings;
pub mod simulate;
pub mod validate;

/// The examples of the README, so that they keep compiling.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
