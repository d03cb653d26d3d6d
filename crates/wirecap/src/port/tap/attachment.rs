//! The programs of a tap on their interface: attached, looked after, detached.

use std::time::{Duration, Instant};

use wirecap_core::Direction;
use wirecap_sys::{
    bpf::{self, Link, Program, XdpMode},
    netdev::Promiscuous,
};

use crate::{
    Diagnostic, PortEvent, TapHook,
    diagnostic::{Cause, Recovery},
    nic::place::Place,
    port::open_port::PortBackend,
    program::tap::TapPrograms,
    report::PortReport,
};

/// Time between two looks at the links.
const PERIOD: Duration = Duration::from_secs(1);

/// The programs of a tap, each with its link.
#[derive(Debug)]
pub(super) struct TapLinks {
    programs: TapPrograms,
    place: Place,
    links: Vec<(Direction, Link)>,
}

impl TapLinks {
    /// Attaches all programs to an interface of the calling thread's network namespace.
    pub(super) fn attach(programs: TapPrograms, ifindex: u32) -> Result<Self, bpf::Error> {
        let hook = programs.hook;
        let attach = |(direction, program)| Ok((direction, attach(program, ifindex, (direction, hook))?));
        let links = programs.by_direction().map(attach).collect::<Result<_, bpf::Error>>()?;
        Ok(Self { programs, place: Place::new(ifindex), links })
    }

    /// Whether all programs are on the interface. What cannot be asked may be as it was.
    fn are_attached(&self) -> bool {
        self.links.iter().all(|(_, link)| !matches!(link.ifindex(), Ok(None)))
    }

    /// Attaches those programs again that are not on the interface any more. `None` if it is gone.
    fn restore(&mut self) -> Option<Recovery> {
        let Self { programs, place, links } = self;
        let again = place.enter(|| {
            for (direction, link) in links {
                let program = programs.by_direction().find(|(of, _)| of == direction);
                if let (Ok(None), Some((_, program))) = (link.ifindex(), program) {
                    let again = attach(program, place.ifindex, (*direction, programs.hook));
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
        for (_, link) in self.links {
            // It fails when the interface is gone; closing the link is all there is to do then.
            let _ = link.detach();
        }
    }
}

fn attach(
    program: &Program,
    ifindex: u32,
    (direction, hook): (Direction, TapHook),
) -> Result<Link, bpf::Error> {
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
    looked: Instant,
    /// The last time that a program was not on the interface, and whether that was reported.
    detached: Option<(Recovery, bool)>,
}

impl TapBackend {
    pub(super) fn new(links: TapLinks, promiscuous: Option<Promiscuous>) -> Self {
        Self { links: Some(links), promiscuous, looked: Instant::now(), detached: None }
    }

    fn look(&mut self) {
        let Some(links) = &mut self.links else { return };
        if self.looked.elapsed() < PERIOD {
            return;
        }
        self.looked = Instant::now();
        if links.are_attached() {
            return;
        }
        let Some(recovery) = links.restore() else { return };
        // A program that cannot be attached again is missing at each look, and reported once.
        let is_known =
            matches!((&self.detached, &recovery), (Some((Recovery::Failed(_), true)), Recovery::Failed(_)));
        self.detached = Some((recovery, is_known));
    }
}

impl PortBackend for TapBackend {
    fn look_after(&mut self, port: &str) -> Vec<PortEvent> {
        self.look();
        let Some((recovery, is_reported @ false)) = &mut self.detached else { return Vec::new() };
        *is_reported = true;
        let warning = Diagnostic::Detached { recovery: recovery.clone() };
        vec![PortEvent::Warning { port: port.into(), warning }]
    }

    fn close(&mut self, is_gone: bool) -> bool {
        let Some(links) = self.links.take() else { return false };
        if !is_gone && links.is_lost() {
            self.detached = Some((Recovery::Ended, false));
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
        let detached = self.detached.as_ref().map(|(recovery, _)| recovery.clone());
        report.warnings.extend(detached.map(|recovery| Diagnostic::Detached { recovery }));
    }
}
