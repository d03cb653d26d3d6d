//! Which cores this process may use.

use anyhow::{Result, anyhow};
use wirecap_sys::cpu;

use crate::text::ranges;

/// Cores that are tried for the list of usable ones: the size of a `cpu_set_t`.
const MAX_CORES: usize = 1024;

/// Whether every core in `cores` can be used.
///
/// # Errors
/// [`Usage`](crate::exit::Usage) with those that can.
pub(crate) fn check_cores(cores: &[usize]) -> Result<()> {
    // Only trying tells: a process may leave its affinity mask, but not its cpuset.
    let tried = cpu::keeping_affinity(|| {
        let may = |core: usize| cpu::pin_to_core(core).is_ok();
        let refused = cores.iter().copied().find(|&core| !may(core));
        refused.map(|core| (core, (0..MAX_CORES).filter(|&core| may(core)).collect::<Vec<_>>()))
    });
    match tried.map_err(|cause| anyhow!("cannot find out which cores this process may use: {cause}"))? {
        None => Ok(()),
        Some((core, usable)) => Err(usage!(
            "core {core} cannot be used; this process may use {}",
            ranges(usable.into_iter().map(|core| core as u64))
        )
        .into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_core_is_refused_with_the_usable_ones() {
        check_cores(&[]).unwrap();
        let error = check_cores(&[1023]).unwrap_err();
        assert!(error.is::<crate::exit::Usage>(), "{error}");
        assert!(error.to_string().starts_with("core 1023 cannot be used; this process may use "), "{error}");
    }
}
