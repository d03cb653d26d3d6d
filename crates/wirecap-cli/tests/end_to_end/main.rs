//! The command itself, in network namespaces, with numbered frames.
//!
//! Each test makes a veth pair, runs the built `wirecap` on one end of it, sends from the other, and compares
//! the packets in the file with the frames sent. Every test checks the account.

mod captures;
mod compressed;
mod confidential;
mod control;
mod copies;
mod doctor;
mod endings;
mod errors;
mod extcap;
mod faults;
mod file_per_queue;
mod filters;
mod filters_all;
mod forward;
mod frames;
mod generate;
mod habits;
mod host_use;
mod idle;
mod interfaces;
mod lab;
mod limits;
mod loss;
mod manual;
mod manual_pages;
mod memory;
mod messages;
mod metrics;
mod order;
mod outputs;
mod passive;
mod printed;
mod printing;
mod queues;
mod replacing;
mod replay;
mod replay_order;
mod restarts;
mod rotation;
mod run;
mod sandbox;
mod send_traces;
mod service;
mod settings;
mod stalls;
mod start;
mod streams;
mod terminal;
mod threads;
mod timestamps;
mod tools;
mod top;
mod widths;
