//! What an experiment can be given: `--param NAME=VALUE`.

use std::str::FromStr;

use thiserror::Error;
use wirecap_core::{Choice, choice::UnknownName, choices};

use crate::{HANDLER_PPS, WIRE_RATE_PPS};

choices! {
    /// The name of a parameter.
    pub enum Parameter {
        /// The seed of the traffic: the same seed, the same figures.
        Seed = "seed",
        /// Receive queues of Table 1 and Figure 3, and the most of Figures 11 to 14: 1 to 16.
        Queues = "queues",
        /// Descriptors of each ring of the NIC.
        Ring = "ring",
        /// Cells of a chunk.
        M = "M",
        /// Chunks of a pool.
        R = "R",
        /// The threshold in percent.
        T = "T",
        /// Packets per second that a handler handles, x = 300.
        Pace = "pace",
        /// Packets per second that a handler without load handles, x = 0.
        FreePace = "free-pace",
        /// Packets per second of bursts.
        Rate = "rate",
        /// Packets that the buffer of PF_RING holds.
        PfRing = "pf-ring",
        /// Nanoseconds that the kernel needs for a packet under PF_RING.
        Copy = "copy-ns",
        /// Packets per second that the balancer of DPDK moves.
        Balancer = "balancer",
        /// Transactions per second of the bus in Figure 14.
        Bus = "bus",
    }
}

/// The parameters of all experiments; by default those of the paper.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameters {
    /// See [`Parameter::Seed`].
    pub seed: u64,
    /// See [`Parameter::Queues`].
    pub queues: usize,
    /// See [`Parameter::Ring`].
    pub ring: u32,
    /// See [`Parameter::M`].
    pub m: u32,
    /// See [`Parameter::R`].
    pub r: u32,
    /// See [`Parameter::T`].
    pub t: u8,
    /// See [`Parameter::Pace`].
    pub pace_pps: f64,
    /// See [`Parameter::FreePace`].
    pub free_pace_pps: f64,
    /// See [`Parameter::Rate`].
    pub rate_pps: f64,
    /// See [`Parameter::PfRing`].
    pub pf_ring: u64,
    /// See [`Parameter::Copy`].
    pub copy_ns: f64,
    /// See [`Parameter::Balancer`].
    pub balancer_pps: f64,
    /// See [`Parameter::Bus`].
    pub bus_per_s: f64,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            seed: 1,
            queues: 6,
            // Section 4 of the paper, as are the sizes of pools and of the buffer of PF_RING.
            ring: 1_024,
            m: 256,
            r: 100,
            t: 60,
            pace_pps: HANDLER_PPS,
            // Assumed: it only counts.
            free_pace_pps: 25e6,
            rate_pps: WIRE_RATE_PPS,
            pf_ring: 10_240,
            // Fitted to the share that PF_RING delivers at queue 0 in Table 1: 43.2 % of 1.9 million packets,
            // of which 140,000 come slowly, leave the handler 80 % of its core at 80,000 packets/s.
            copy_ns: 2_500.0,
            // Assumed.
            balancer_pps: 10e6,
            // Assumed, between what the text says is carried and what it says is not: see `experiments::bus`.
            bus_per_s: 100e6,
        }
    }
}

impl Parameters {
    /// Of some parameters, those that are not the default ones, each as it is set: `ring=4096`.
    pub fn changed(&self, among: &[Parameter]) -> Vec<String> {
        let changed = among.iter().filter(|&&parameter| self.is_changed(parameter));
        changed.map(|&parameter| format!("{parameter}={}", self.value(parameter))).collect()
    }

    /// Whether a parameter is not the default one.
    pub fn is_changed(&self, parameter: Parameter) -> bool {
        self.value(parameter) != Self::default().value(parameter)
    }

    /// The value of a parameter, as it is written.
    pub fn value(&self, parameter: Parameter) -> String {
        match parameter {
            Parameter::Seed => self.seed.to_string(),
            Parameter::Queues => self.queues.to_string(),
            Parameter::Ring => self.ring.to_string(),
            Parameter::M => self.m.to_string(),
            Parameter::R => self.r.to_string(),
            Parameter::T => self.t.to_string(),
            Parameter::Pace => self.pace_pps.to_string(),
            Parameter::FreePace => self.free_pace_pps.to_string(),
            Parameter::Rate => self.rate_pps.round().to_string(),
            Parameter::PfRing => self.pf_ring.to_string(),
            Parameter::Copy => self.copy_ns.to_string(),
            Parameter::Balancer => self.balancer_pps.to_string(),
            Parameter::Bus => self.bus_per_s.to_string(),
        }
    }

    /// Sets a parameter.
    ///
    /// # Errors
    /// The parameter cannot have this value.
    pub fn set(&mut self, setting: &Setting) -> Result<(), ParameterError> {
        let Setting { parameter, value } = setting;
        let refused =
            |expected| ParameterError::Value { parameter: *parameter, value: value.clone(), expected };
        let whole = |least, most, expected| whole(value, least, most).ok_or_else(|| refused(expected));
        let positive = |most, expected| positive(value, most).ok_or_else(|| refused(expected));
        let pace = || positive(1e12, "packets per second, more than 0, such as 38844 or 2e6");
        match parameter {
            Parameter::Seed => self.seed = whole(0, u64::MAX, "a whole number")?,
            Parameter::Queues => self.queues = whole(1, 16, "1 to 16 queues")? as usize,
            Parameter::Ring => self.ring = whole(1, 1 << 20, "1 to 1048576 descriptors")? as u32,
            Parameter::M => self.m = power_of_two(value).ok_or_else(|| refused(POWER_OF_TWO))?,
            Parameter::R => self.r = whole(2, 1 << 16, "2 to 65536 chunks")? as u32,
            Parameter::T => self.t = whole(0, 100, "0 to 100 percent")? as u8,
            Parameter::Pace => self.pace_pps = pace()?,
            Parameter::FreePace => self.free_pace_pps = pace()?,
            Parameter::Rate => self.rate_pps = pace()?,
            Parameter::PfRing => self.pf_ring = whole(1, 1 << 32, "1 packet or more")?,
            Parameter::Copy => self.copy_ns = positive(1e9, "nanoseconds, more than 0")?,
            Parameter::Balancer => self.balancer_pps = pace()?,
            Parameter::Bus => self.bus_per_s = positive(1e12, "transactions per second, more than 0")?,
        }
        Ok(())
    }
}

const POWER_OF_TWO: &str = "a power of two from 64 to 4096";

fn whole(value: &str, least: u64, most: u64) -> Option<u64> {
    value.parse().ok().filter(|value| (least..=most).contains(value))
}

fn power_of_two(value: &str) -> Option<u32> {
    let value = whole(value, 64, 4_096)? as u32;
    value.is_power_of_two().then_some(value)
}

fn positive(value: &str, most: f64) -> Option<f64> {
    value.parse().ok().filter(|value: &f64| *value > 0.0 && *value <= most)
}

/// A parameter and its value, as written: `NAME=VALUE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// The parameter.
    pub parameter: Parameter,
    /// Its value, which [`Parameters::set`] checks.
    pub value: String,
}

impl FromStr for Setting {
    type Err = ParameterError;

    fn from_str(text: &str) -> Result<Self, ParameterError> {
        let (name, value) = text.split_once('=').ok_or_else(|| ParameterError::Form(text.into()))?;
        let setting = Self { parameter: Parameter::named(name)?, value: value.into() };
        Parameters::default().set(&setting)?;
        Ok(setting)
    }
}

/// Why a parameter cannot be set.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ParameterError {
    /// No `=`.
    #[error("{0:?} has no value: write NAME=VALUE, such as ring=4096")]
    Form(String),
    /// No such parameter.
    #[error(transparent)]
    Unknown(#[from] UnknownName),
    /// No such value.
    #[error("{parameter} cannot be {value:?}: write {expected}")]
    Value {
        /// The parameter.
        parameter: Parameter,
        /// The value.
        value: String,
        /// What it may be.
        expected: &'static str,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_parameter_takes_its_own_default_and_keeps_the_others() {
        for choice in Parameter::ALL {
            let mut parameters = Parameters { rate_pps: WIRE_RATE_PPS.round(), ..Parameters::default() };
            let before = parameters.clone();
            let value = before.value(choice.value);
            let setting: Setting = format!("{}={value}", choice.name).parse().unwrap();
            parameters.set(&setting).unwrap();
            assert_eq!(parameters, before, "{}", choice.name);
            let other = if choice.value == Parameter::M { "128" } else { "7" };
            parameters.set(&format!("{}={other}", choice.name).parse().unwrap()).unwrap();
            assert_eq!(parameters.value(choice.value), other);
            let changed =
                Parameter::ALL.iter().filter(|one| parameters.value(one.value) != before.value(one.value));
            assert_eq!(changed.count(), 1, "{}", choice.name);
        }
    }

    #[test]
    fn wrong_names_and_values_get_a_sentence() {
        let sentence = |text: &str| text.parse::<Setting>().unwrap_err().to_string();
        assert_eq!(sentence("ring"), "\"ring\" has no value: write NAME=VALUE, such as ring=4096");
        assert!(sentence("rnig=1").ends_with("did you mean ring?"), "{}", sentence("rnig=1"));
        assert_eq!(sentence("T=101"), "T cannot be \"101\": write 0 to 100 percent");
        assert_eq!(sentence("M=100"), "M cannot be \"100\": write a power of two from 64 to 4096");
        for wrong in ["pace=0", "pace=-1", "pace=NaN", "pace=inf", "pace=", "queues=0", "ring=1.5", "R=1"] {
            assert!(sentence(wrong).contains("cannot be"), "{wrong}");
        }
    }
}
