//! Errors in terms of a file of settings.

use wirecap::{
    Error,
    diagnostic::{PackingRefusal, TapRefusal},
};
use wirecap_core::GeometryError;
use wirecap_sys::packed::PackedError;

use crate::{
    exit::{self, Exit, WrongFile, WrongSettings},
    sources::{RefusedSettings, Setting, Sources},
    text,
};

/// The error with the keys and the places of the settings that it is about, if they come from the file.
pub(crate) fn explain(error: anyhow::Error, sources: &Sources) -> anyhow::Error {
    if let Some(refused) = error.downcast_ref::<RefusedSettings>() {
        return WrongSettings(refused.describe(sources)).into();
    }
    if exit::code_of(&error) != Exit::Usage {
        return error;
    }
    let message = text::error::describe(&error);
    let mut settings = concerned(&error).iter().filter(|setting| may_be_wrong(**setting, &error, sources));
    let placed = settings.find_map(|setting| sources.at(setting.key(), &message));
    placed.map_or(error, |placed| WrongFile(placed).into())
}

/// Whether an error can be about this setting of several: a wrong filter is that with the error's expression.
fn may_be_wrong(setting: Setting, error: &anyhow::Error, sources: &Sources) -> bool {
    match error.downcast_ref() {
        Some(Error::Filter(wirecap_filter::Error::Expression { expression, .. })) => {
            sources.text(setting) == Some(expression)
        }
        _ => true,
    }
}

/// The settings that an error of the library is about.
fn concerned(error: &anyhow::Error) -> &'static [Setting] {
    if let Some(error) = error.downcast_ref() {
        return of_geometry(error);
    }
    match error.downcast_ref() {
        Some(Error::Geometry(error)) => of_geometry(error),
        Some(Error::NoWorker | Error::IdleWorkers { .. } | Error::TooMany { what: "workers", .. }) => {
            &[Setting::Workers]
        }
        Some(
            Error::PortTwice(_)
            | Error::Interface(_)
            | Error::QueueSet { .. }
            | Error::PassiveQueues { .. }
            | Error::TooMany { what: "ports", .. },
        ) => &[Setting::Ports],
        Some(Error::LittleMemory { .. } | Error::MuchMemory { .. }) => {
            &[Setting::PoolSize, Setting::CellsPerChunk]
        }
        Some(Error::OnlyPassive { .. }) => &[Setting::XdpMode, Setting::Ports],
        Some(Error::NotPacked { reason: PackingRefusal::Rings, .. }) => &[Setting::RingEntries],
        Some(Error::NotPacked { reason: PackingRefusal::Sending, .. }) => &[Setting::XdpMode],
        Some(Error::NotTapped { reason: TapRefusal::SeveralWorkers { .. }, .. }) => {
            &[Setting::Fanout, Setting::Workers]
        }
        Some(
            Error::NotTapped { reason: TapRefusal::SmallChunks { .. }, .. }
            | Error::Packed { source: PackedError::SmallBlock { .. }, .. },
        ) => &[Setting::CellsPerChunk],
        Some(
            Error::NotTapped { reason: TapRefusal::FewChunks, .. }
            | Error::Packed { source: PackedError::FewBlocks { .. }, .. },
        ) => &[Setting::PoolSize],
        Some(Error::Filter(_)) => &[Setting::Filter, Setting::Pass, Setting::Drop],
        _ => &[],
    }
}

fn of_geometry(error: &GeometryError) -> &'static [Setting] {
    match error {
        GeometryError::CellsPerChunk { .. } => &[Setting::CellsPerChunk],
        GeometryError::ChunksPerPool { .. } => &[Setting::PoolSize],
        GeometryError::CellsPerPool { .. } => &[Setting::PoolSize, Setting::CellsPerChunk],
        GeometryError::CellBytes { .. } => &[Setting::CellBytes],
        GeometryError::Ring { .. } => &[Setting::RingEntries],
        GeometryError::Threshold { .. } => &[Setting::Mode],
        _ => &[],
    }
}

#[cfg(test)]
mod tests;
