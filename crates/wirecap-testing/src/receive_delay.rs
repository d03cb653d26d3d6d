//! How late the kernel does its receive work.

use std::{
    net::UdpSocket,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use wirecap_lab::Namespace;
use wirecap_sys::cpu;

/// Measures, on each core, how long a packet takes through the loopback interface of a namespace. That is how
/// long packets to other interfaces may take to arrive: a core does its receive work for all interfaces in
/// turn (NAPI), and on a busy machine that work waits for its turn among the processes.
#[derive(Debug)]
pub struct ReceiveDelay {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Duration>>,
}

impl ReceiveDelay {
    /// Begins to measure.
    ///
    /// # Panics
    /// If the loopback interface does not work.
    pub fn watch(namespace: &Namespace, cores: usize) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let measure = |core| {
            let stop = Arc::clone(&stop);
            let socket = namespace.enter(|| UdpSocket::bind("127.0.0.1:0")).unwrap();
            socket.connect(socket.local_addr().unwrap()).unwrap();
            thread::spawn(move || {
                cpu::pin_to_core(core).unwrap();
                let mut worst = Duration::ZERO;
                while !stop.load(Ordering::Relaxed) {
                    let begun = Instant::now();
                    socket.send(b"x").unwrap();
                    socket.recv(&mut [0]).unwrap();
                    worst = worst.max(begun.elapsed());
                    thread::sleep(Duration::from_millis(1));
                }
                worst
            })
        };
        let threads = (0..cores).map(measure).collect();
        Self { stop, threads }
    }

    /// The longest delay so far.
    pub fn worst(self) -> Duration {
        self.stop.store(true, Ordering::Relaxed);
        let worst = self.threads.into_iter().map(|thread| thread.join().unwrap());
        worst.max().unwrap_or_default()
    }
}
