//! The programs of a tap on their interface: attached, looked after, detached.

use wirecap_core::Direction;
use wirecap_sys::{
    bpf::{self, Link, Program, XdpMode},
    netdev::{Interface, PromiscuousMode},
};

use crate::{
    Diagnostic, PortEvent, TapHook,
    diagnostic::{Cause, Recovery},
    nic::{place::Place, xdp_watch::XdpWatch},
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
    /// Attaches all programs to an interface of the calling thread's network namespace. Then they begin.
    pub(super) fn attach(programs: TapPrograms, ifindex: u32) -> Result<Self, bpf::Error> {
        let hook = programs.hook;
        let attach = |(direction, program)| attach(program, ifindex, direction, hook);
        let links = programs.by_direction().map(attach).collect::<Result<_, _>>()?;
        programs.begin()?;
        Ok(Self { programs, place: Place::new(ifindex), links })
    }

    /// The number of its XDP program, if one copies what comes in.
    fn xdp_program(&self) -> Option<u32> {
        // The program of what comes in is the first.
        let inbound = self.links.first().filter(|_| self.programs.hook == TapHook::Xdp)?;
        inbound.attached_program().ok().flatten()
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
    promiscuous: Option<PromiscuousMode>,
    detachment: Detachment,
    xdp: XdpWatch,
}

impl TapBackend {
    pub(super) fn new(interface: &Interface, links: TapLinks, promiscuous: Option<PromiscuousMode>) -> Self {
        let xdp = XdpWatch::new(interface, links.xdp_program());
        Self { links: Some(links), promiscuous, detachment: Detachment::default(), xdp }
    }

    fn look(&mut self) {
        let Some(links) = &mut self.links else { return };
        self.xdp.look();
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
        let detached = self.detachment.report_once().map(|recovery| Diagnostic::TapDetached { recovery });
        let warnings = detached.into_iter().chain(self.xdp.report_once());
        warnings.map(|warning| PortEvent::Warning { port: port.into(), warning }).collect()
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

    /// The programs stay as long as a process has their links open.
    fn abandon(&mut self) {
        self.links = None;
        self.promiscuous = None;
    }

    fn report(&mut self, report: &mut PortReport) {
        self.look();
        let detached = self.detachment.last().map(|recovery| Diagnostic::TapDetached { recovery });
        report.warnings.extend(detached);
        report.warnings.extend_from_slice(self.xdp.warnings());
    }
}
