//! Which cores this process may use.

use anyhow::{Result, anyhow};
use wirecap_sys::cpu;

use crate::exit::Usage;

/// Cores that are tried when those there are shall be listed: as many as a `cpu_set_t` has.
const MOST_CORES: usize = 1024;

/// Whether every core in `cores` can be used.
///
/// # Errors
/// [`Usage`] with those that can.
pub(crate) fn check_cores(cores: &[usize]) -> Result<()> {
    // Trying is the only way to know: a process may leave its affinity mask, but not its cpuset.
    let tried = cpu::keeping_affinity(|| {
        let may = |core: usize| cpu::pin_to_core(core).is_ok();
        let refused = cores.iter().copied().find(|&core| !may(core));
        refused.map(|core| (core, (0..MOST_CORES).filter(|&core| may(core)).collect::<Vec<_>>()))
    });
    match tried.map_err(|cause| anyhow!("cannot ask which cores this process may use: {cause}"))? {
        None => Ok(()),
        Some((core, usable)) => {
            let message = format!("core {core} cannot be used; this process may use {}", ranges(&usable));
            Err(Usage(message).into())
        }
    }
}

/// Numbers in the form in which a list of cores is given: 0-3,6.
fn ranges(numbers: &[usize]) -> String {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for &number in numbers {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => runs.push((number, number)),
        }
    }
    let words = runs.iter().map(|&(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    });
    words.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_listed_as_they_are_given() {
        assert_eq!(ranges(&[0, 1, 2, 3, 6, 8, 9]), "0-3,6,8-9");
        assert_eq!(ranges(&[5]), "5");
    }

    #[test]
    fn a_core_that_is_not_there_is_answered_with_those_that_are() {
        check_cores(&[]).unwrap();
        let error = check_cores(&[1023]).unwrap_err();
        assert!(error.is::<Usage>(), "{error}");
        assert!(error.to_string().starts_with("core 1023 cannot be used; this process may use "), "{error}");
    }
}
