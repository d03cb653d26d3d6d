//! The process: its signals, threads, cores and privileges.
//!
//! | to read about | open |
//! |---|---|
//! | signals | [`signals`]; long steps that a signal ends: [`step`] |
//! | threads that are started early | [`idle_thread`] |
//! | cores that may be used | [`cores`] |
//! | notifications to systemd | [`service_manager`] |
//! | ending with the parent | [`parent`] |
//! | which users may run a program with capabilities | [`privileges`] |
//! | what threads give up once everything is open | [`sandbox`] |

pub(crate) mod cores;
pub(crate) mod executable;
pub(crate) mod idle_thread;
pub(crate) mod parent;
pub(crate) mod privileges;
pub(crate) mod sandbox;
pub(crate) mod service_manager;
pub(crate) mod signals;
pub(crate) mod step;
