//! System calls that a filter refuses with SIGSYS: named on standard error, and failed with EPERM.
//!
//! ```text
//!   thread ── system call ──► filter: SECCOMP_RET_TRAP ──► SIGSYS ──► a line on standard error
//!      ◄───────────── EPERM, as if the kernel had refused ────────────┘
//! ```
//!
//! Rule: a call that was forgotten in a list fails where it is made, and is never a silent death of the
//! process: the program counts on each of its calls failing.

use std::{
    io, mem, ptr,
    sync::atomic::{AtomicU64, Ordering},
};

/// What the line says before and after its two facts: the number of the call, and the thread's name.
const PARTS: [&str; 3] = [
    "wirecap: BUG: the sandbox refuses system call ",
    " to the thread ",
    "; please report it, and use --no-sandbox until it is mended\n",
];

/// Numbers below this are reported once each.
const KNOWN_CALLS: u64 = 512;

/// Bits of the calls that were reported. Written by signal handlers, orders nothing else.
static REPORTED: [AtomicU64; (KNOWN_CALLS / 64) as usize] =
    [const { AtomicU64::new(0) }; (KNOWN_CALLS / 64) as usize];

/// From now on, a call that a filter traps is reported and fails with EPERM, in all threads of the process.
///
/// # Errors
/// The kernel's error.
pub fn report_and_fail() -> io::Result<()> {
    // SAFETY: all zeros is a valid sigaction: no flags, an empty mask, the default action.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = handle as extern "C" fn(_, _, _) as usize;
    // On the alternative stack, where a thread has one: its own may be full.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
    // SAFETY: the action is valid and outlives the call; the handler calls async-signal-safe functions only.
    let result = unsafe { libc::sigaction(libc::SIGSYS, &raw const action, ptr::null_mut()) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

extern "C" fn handle(_: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    /// `SYS_SECCOMP` of <asm-generic/siginfo.h>.
    const BY_FILTER: libc::c_int = 1;
    // SAFETY: with SA_SIGINFO the kernel hands over both, which are its own for the time of the call.
    let (code, context) = unsafe { ((*info).si_code, &mut *context.cast::<libc::ucontext_t>()) };
    if code != BY_FILTER {
        // Someone sent the signal, which asks for nothing.
        return;
    }
    let call = fail(context);
    if is_new(call) {
        // SAFETY: errno is the thread's own; the interrupted code finds it as it was.
        let errno = unsafe { *libc::__errno_location() };
        report(call);
        // SAFETY: as above.
        unsafe { *libc::__errno_location() = errno };
    }
}

/// Has the call that was trapped fail with EPERM, and returns its number.
fn fail(context: &mut libc::ucontext_t) -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        let result = &mut context.uc_mcontext.gregs[libc::REG_RAX as usize];
        // The kernel has put the number back, as if the call had not begun.
        mem::replace(result, -i64::from(libc::EPERM)) as u64
    }
    #[cfg(target_arch = "aarch64")]
    {
        let call = context.uc_mcontext.regs[8];
        context.uc_mcontext.regs[0] = (-i64::from(libc::EPERM)) as u64;
        call
    }
    // There is no filter on other machines, so nothing is trapped.
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        let _ = context;
        0
    }
}

/// Whether the call was not reported before.
fn is_new(call: u64) -> bool {
    match REPORTED.get((call / 64) as usize) {
        Some(word) => word.fetch_or(1 << (call % 64), Ordering::Relaxed) & (1 << (call % 64)) == 0,
        None => true,
    }
}

/// Writes the line, if standard error takes it at once.
fn report(call: u64) {
    let mut name = [0_u8; 16];
    // SAFETY: the kernel writes 16 bytes at most, the last of which is 0.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr(), 0, 0, 0) };
    let mut line = Line::default();
    line.add(PARTS[0].as_bytes());
    line.add_number(call);
    line.add(PARTS[1].as_bytes());
    line.add(name.split(|&byte| byte == 0).next().unwrap_or_default());
    line.add(PARTS[2].as_bytes());
    let mut stderr = libc::pollfd { fd: libc::STDERR_FILENO, events: libc::POLLOUT, revents: 0 };
    let no_time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: one entry, which outlives the call, as does the time; no signal mask.
    if unsafe { libc::ppoll(&raw mut stderr, 1, &raw const no_time, ptr::null()) } == 1 {
        // SAFETY: the bytes are the line's own. A pipe that has room takes a short line as a whole.
        unsafe { libc::write(libc::STDERR_FILENO, line.bytes.as_ptr().cast(), line.len) };
    }
}

/// A line that needs no memory but its own.
struct Line {
    bytes: [u8; 192],
    len: usize,
}

impl Default for Line {
    fn default() -> Self {
        Self { bytes: [0; 192], len: 0 }
    }
}

impl Line {
    /// Adds as many of these bytes as fit.
    fn add(&mut self, more: &[u8]) {
        for (to, from) in self.bytes[self.len..].iter_mut().zip(more) {
            *to = *from;
            self.len += 1;
        }
    }

    fn add_number(&mut self, number: u64) {
        let mut digits = [0_u8; 20];
        let (mut at, mut rest) = (digits.len(), number);
        loop {
            at -= 1;
            digits[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        self.add(&digits[at..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_number_and_the_name() {
        let text = |number, name: &str| {
            let mut line = Line::default();
            line.add(PARTS[0].as_bytes());
            line.add_number(number);
            line.add(name.as_bytes());
            String::from_utf8(line.bytes[..line.len].to_vec()).unwrap()
        };
        assert_eq!(text(0, "x"), format!("{}0x", PARTS[0]));
        assert_eq!(text(u64::MAX, ""), format!("{}{}", PARTS[0], u64::MAX));
        let longest = PARTS.concat().len() + 20 + 16;
        assert!(longest <= Line::default().bytes.len(), "{longest}");
        assert_eq!(text(1, &"n".repeat(300)).len(), Line::default().bytes.len(), "what is too long is cut");
    }

    #[test]
    fn each_call_is_reported_once() {
        assert!(is_new(451) && !is_new(451) && is_new(452));
        assert!(is_new(KNOWN_CALLS) && is_new(KNOWN_CALLS), "numbers that no kernel has");
    }
}
