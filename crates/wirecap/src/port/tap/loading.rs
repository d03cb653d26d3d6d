//! The programs of a tap, loaded and attached with as much in them as the kernel takes.
//!
//! ```text
//!   with tags and filter ── refused ──► with tags ── refused, or not on this device ──► with the filter ── refused ──► without either
//! ```

use std::sync::Arc;

use wirecap_filter::UserFilter;
use wirecap_sys::{
    bpf::{self, FrameLength},
    netdev::{HardwareType, Interface},
};

use super::attachment::TapLinks;
use crate::{
    Diagnostic, Error, TapHook,
    diagnostic::{Cause, KernelRefusal, TapRefusal},
    filter::PortFilter,
    nic::stamping::Stamping,
    port::vlan_tags::{self, VlanTags},
    program::{
        Counters, Packing,
        tap::{TapPlan, TapPrograms},
    },
};

/// A tap that is being opened.
#[derive(Debug, Clone)]
pub(super) struct Tap<'a> {
    pub(super) interface: &'a Interface,
    pub(super) hook: TapHook,
    pub(super) packing: &'a Packing,
    pub(super) counters: &'a Counters,
    pub(super) streams: u32,
    pub(super) filter: Option<&'a PortFilter>,
    /// The same filter in user space, which decides what the programs leave to it: see `program/tap.rs`.
    pub(super) user: Option<&'a Arc<UserFilter>>,
    pub(super) stamping: Option<&'a Stamping>,
    /// The cookie of a socket whose packets are left out.
    pub(super) own_sender: Option<u64>,
    pub(super) tags: VlanTags,
}

/// The programs of a tap on their interface, and what they do.
#[derive(Debug)]
pub(super) struct AttachedTap {
    pub(super) links: TapLinks,
    /// Why the filter is not in the programs, if it is not.
    pub(super) not_in_kernel: Option<Diagnostic>,
    /// Whether VLAN tags are put back by the XDP program.
    pub(super) puts_tags_back: bool,
    /// That VLAN tags are missing, and why, if they are.
    pub(super) missing_tags: Vec<Diagnostic>,
}

impl Tap<'_> {
    /// Loads the programs, and attaches them: tags that cannot be put back do not keep the tap from working.
    pub(super) fn attach(mut self) -> Result<AttachedTap, Error> {
        let attached = self.try_attach();
        let for_tags = attached.as_ref().err().filter(|_| self.tags.is_ok());
        let Some(cause) = for_tags.and_then(vlan_tags::blame) else { return attached };
        self.tags = Err(Some(cause));
        self.try_attach()
    }

    fn try_attach(&self) -> Result<AttachedTap, Error> {
        let (programs, not_in_kernel) = self.load()?;
        let links = TapLinks::attach(programs, self.interface.ifindex);
        let links = links.map_err(|source| self.of_hook(self.program_error(source)))?;
        let mut missing_tags = Vec::new();
        if let (TapHook::Xdp, Err(cause)) = (self.hook, &self.tags) {
            missing_tags.extend(cause.clone().map(|cause| Diagnostic::VlanTagsNotPutBack { cause }));
            missing_tags.extend(vlan_tags::lost(self.interface));
        }
        Ok(AttachedTap { links, not_in_kernel, puts_tags_back: self.tags.is_ok(), missing_tags })
    }

    /// Loads the programs, with the filter in them if the kernel takes it, or with the reason why not.
    fn load(&self) -> Result<(TapPrograms, Option<Diagnostic>), Error> {
        let load = |filter| {
            let plan = TapPlan {
                ifindex: self.interface.ifindex,
                streams: self.streams,
                outgoing: self.interface.hardware_type != HardwareType::LOOPBACK,
                hook: self.hook,
                length: self.length(),
                tags: self.tags.as_ref().ok().copied(),
                stamping: self.stamping.map(|stamping| stamping.asked),
                own_sender: self.own_sender,
                filter,
            };
            TapPrograms::load(self.packing, self.counters, &plan)
        };
        let refusal = match load(self.filter) {
            Ok(programs) => return Ok((programs, None)),
            Err(error) => error,
        };
        let Some(user) = self.user else { return Err(self.load_error(refusal)) };
        // If it was not for the filter, it fails again.
        let programs = load(None).map_err(|error| self.load_error(error))?;
        let interpreted = user.interpreted().map(Cause::of);
        let reason = KernelRefusal::from(&refusal);
        Ok((programs, Some(Diagnostic::FilterNotInKernel { reason, interpreted, drops_unwanted: false })))
    }

    /// How a program of XDP finds the length of a packet. Classifiers have it in their context.
    fn length(&self) -> FrameLength {
        match self.hook {
            TapHook::Tcx => FrameLength::by_helper(),
            TapHook::Xdp => FrameLength::of_kernel(),
        }
    }

    /// Only errors that the hook can be to blame for recommend another hook.
    fn of_hook(&self, error: Error) -> Error {
        match self.hook {
            TapHook::Tcx => error,
            TapHook::Xdp => error.of_xdp_tap(&self.interface.name),
        }
    }

    fn load_error(&self, error: wirecap_filter::Error) -> Error {
        use wirecap_filter::Error::{Kernel, KernelPrivilege};
        match error {
            KernelPrivilege(_) => {
                Error::NotTapped { name: self.interface.name.clone(), reason: TapRefusal::NotPermitted }
            }
            Kernel(cause) => self.program_error(cause),
            error => error.into(),
        }
    }

    fn program_error(&self, source: bpf::Error) -> Error {
        program_error(self.interface, source)
    }
}

/// What a refusal of the kernel means to the user.
pub(super) fn program_error(interface: &Interface, source: bpf::Error) -> Error {
    match source {
        bpf::Error::NotPermitted { .. } => Error::NotPermitted(source.to_string()),
        source => Error::Program { name: interface.name.clone(), source },
    }
}

#[cfg(test)]
mod tests;
