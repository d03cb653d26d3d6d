//! The words of the doctor: what a rule saw, what that costs, what helps, and the settings.
//!
//! | value | words |
//! |---|---|
//! | `Evidence` | [`evidence`] |
//! | `Rule` | [`advice`] |
//! | `Setting`, `Value`, `Change` | [`setting`] |
//! | `Disk` | [`disk`] |

pub(crate) mod advice;
pub(crate) mod disk;
pub(crate) mod evidence;
pub(crate) mod setting;
