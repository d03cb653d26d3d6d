//! The programs of a tap on their interface: attached, looked after, detached.

use wirecap_core::Direction;
use wirecap_sys::{
    bpf::{self, Link, Program, XdpMode},
    netdev::Promiscuous,
};

use crate::{
    Diagnostic, PortEvent, TapHook,
    diagnostic::{Cause, Recovery},
    nic::place::Place,
    port::{detachment::Detachment, open_port::PortBackend},
    program::tap::TapPrograms,
    report::PortReport,
};

/// The programs of a tap, each with its link.
#[derive(Debug)]
pub(super) struct TapLinks {
    programs: TapPrograms,
    place: Place,
    /// In the order of [`TapPrograms::by_direction`].
    links: Vec<Link>,
}

impl TapLinks {
    /// Attaches all programs to an interface of the calling thread's network namespace.
    pub(super) fn attach(programs: TapPrograms, ifindex: u32) -> Result<Self, bpf::Error> {
        let hook = programs.hook;
        let attach = |(direction, program)| attach(program, ifindex, direction, hook);
        let links = programs.by_direction().map(attach).collect::<Result<_, _>>()?;
        Ok(Self { programs, place: Place::new(ifindex), links })
    }

    /// Whether all programs are on the interface. What cannot be asked may be as it was.
    fn are_attached(&self) -> bool {
        self.links.iter().all(|link| !matches!(link.ifindex(), Ok(None)))
    }

    /// Attaches those programs again that are not on the interface any more. `None` if it is gone.
    fn restore(&mut self) -> Option<Recovery> {
        let Self { programs, place, links } = self;
        let again = place.enter(|| {
            for ((direction, program), link) in programs.by_direction().zip(links) {
                if let Ok(None) = link.ifindex() {
                    let again = attach(program, place.ifindex, direction, programs.hook);
                    *link = again.map_err(Cause::from)?;
                }
            }
            Ok(())
        });
        match again {
            Ok(None) => None,
            Ok(Some(())) => Some(Recovery::Restored),
            Err(cause) => Some(Recovery::Failed(cause)),
        }
    }

    /// Whether a program is missing on an interface that is still there.
    fn is_lost(&self) -> bool {
        !self.are_attached() && matches!(self.place.enter(|| Ok(())), Ok(Some(())) | Err(_))
    }

    /// Detaches them. The kernel waits until none of them runs.
    fn detach(self) {
        for link in self.links {
            // It fails when the interface is gone; closing the link is all there is to do then.
            let _ = link.detach();
        }
    }
}

fn attach(program: &Program, ifindex: u32, direction: Direction, hook: TapHook) -> Result<Link, bpf::Error> {
    match (direction, hook) {
        (Direction::In, TapHook::Xdp) => Link::attach_xdp(program, ifindex, XdpMode::Native),
        _ => Link::attach_tcx(program, ifindex, direction),
    }
}

/// What a tap keeps while it is captured.
#[derive(Debug)]
pub(super) struct TapBackend {
    /// `None` once the port is closed.
    links: Option<TapLinks>,
    promiscuous: Option<Promiscuous>,
    detachment: Detachment,
}

impl TapBackend {
    pub(super) fn new(links: TapLinks, promiscuous: Option<Promiscuous>) -> Self {
        Self { links: Some(links), promiscuous, detachment: Detachment::default() }
    }

    fn look(&mut self) {
        let Some(links) = &mut self.links else { return };
        if !self.detachment.is_due() || links.are_attached() {
            return;
        }
        if let Some(recovery) = links.restore() {
            self.detachment.note(recovery);
        }
    }
}

impl PortBackend for TapBackend {
    fn look_after(&mut self, port: &str) -> Vec<PortEvent> {
        self.look();
        let warning = self.detachment.report_once();
        warning.map(|warning| PortEvent::Warning { port: port.into(), warning }).into_iter().collect()
    }

    fn close(&mut self, is_gone: bool) -> bool {
        let Some(links) = self.links.take() else { return false };
        if !is_gone && links.is_lost() {
            self.detachment.note(Recovery::Ended);
        }
        links.detach();
        self.promiscuous = None;
        true
    }

    fn settle(&mut self) -> Option<Diagnostic> {
        None
    }

    fn report(&mut self, report: &mut PortReport) {
        self.look();
        report.warnings.extend(self.detachment.warning());
    }
}
