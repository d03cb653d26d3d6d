//! The engine from C: what <wirecap.h> declares, function by function. The header says what each does.
//!
//! Safety, of all of them: pointers are null where the header allows that, or were returned by this library
//! and are not freed; a worker and its batches are used by one thread at a time.

mod account;
mod batch;
mod capture;
mod handles;
