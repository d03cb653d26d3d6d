//! Which parameters have an effect on which experiment.
//!
//! Rule: this list is the only one. A parameter that is not in the list of an experiment is refused for it,
//! and the label of its tables does not name it; the tests compare the list with what experiments print.

use wirecap_core::Choice;

use super::Experiment;
use crate::parameters::{
    Parameter::{self, Balancer, Bus, Copy, FreePace, M, Pace, PfRing, Queues, R, Rate, Ring, Seed, T},
    Parameters,
};

impl Experiment {
    /// The parameters that have an effect on it, at least with some values of the others.
    pub fn parameters(self) -> &'static [Parameter] {
        match self {
            // DPDK is not in the paper's text.
            Experiment::Text => &[Seed, Queues, Ring, M, R, T, Pace, FreePace, Rate, PfRing, Copy, Bus],
            Experiment::Table1 | Experiment::Figure11 => {
                &[Seed, Queues, Ring, M, R, T, Pace, PfRing, Copy, Balancer]
            }
            Experiment::Figure3 => &[Seed, Queues],
            Experiment::Figure8 => &[Ring, M, R, FreePace, Rate, PfRing, Copy],
            Experiment::Figure9 => &[Ring, M, R, Pace, Rate, PfRing, Copy],
            Experiment::Figure10 => &[Ring, M, R, Pace, Rate],
            // It has thresholds of its own, and only advanced mode.
            Experiment::Figure12 => &[Seed, Queues, Ring, M, R, Pace],
            // The rate is that of the wire; there is no balancer that forwards.
            Experiment::Figure13 => &[Seed, Queues, Ring, M, R, T, Pace, Rate, PfRing, Copy],
            Experiment::Figure14 => &[Queues, Ring, M, R, T, FreePace, Bus],
            // Links, paces and sizes of its own.
            Experiment::Today => &[],
        }
    }

    /// Whether a parameter has an effect on it.
    pub fn has(self, parameter: Parameter) -> bool {
        self.parameters().contains(&parameter)
    }

    /// The parameters that have an effect on it and are not the default ones, each as it is set: `ring=4096`.
    pub fn changed(self, parameters: &Parameters) -> Vec<String> {
        parameters.changed(self.parameters())
    }

    /// The experiments on which a parameter has an effect.
    pub fn with(parameter: Parameter) -> impl Iterator<Item = Experiment> {
        Experiment::ALL.iter().map(|one| one.value).filter(move |experiment| experiment.has(parameter))
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::experiments::simulation::Simulation;

    /// Other values of all parameters that are not in the list of an experiment.
    pub fn without_effect(experiment: Experiment) -> Parameters {
        let others = Parameter::ALL.iter().map(|one| one.value).filter(|&one| !experiment.has(one));
        set(Parameters::default(), &others.map(other).collect::<Vec<_>>())
    }

    /// Sets parameters, each as it is written.
    fn set(mut parameters: Parameters, settings: &[&str]) -> Parameters {
        for setting in settings {
            parameters.set(&setting.parse().unwrap()).unwrap();
        }
        parameters
    }

    /// Few queues, so that experiments take less time.
    fn small() -> Parameters {
        set(Parameters::default(), &["queues=2"])
    }

    /// A value that is far from the default one.
    fn other(parameter: Parameter) -> &'static str {
        match parameter {
            Seed => "seed=7",
            Queues => "queues=1",
            Ring => "ring=1",
            M => "M=128",
            R => "R=20",
            T => "T=5",
            Pace => "pace=5000",
            FreePace => "free-pace=1e6",
            Rate => "rate=1e6",
            PfRing => "pf-ring=10",
            Copy => "copy-ns=50000",
            Balancer => "balancer=1e4",
            Bus => "bus=1e7",
        }
    }

    /// Everything that is printed.
    fn printed(experiment: Experiment, parameters: Parameters) -> String {
        let findings = experiment.run(&Simulation::new(parameters)).unwrap();
        let tables = findings.tables.iter().map(ToString::to_string);
        findings.paragraphs.iter().cloned().chain(tables).collect::<Vec<_>>().join("\n")
    }

    /// Each parameter of the list changes what is printed. That the others do not is compared with the tables
    /// of the document.
    fn check(experiment: Experiment) {
        let expected = printed(experiment, small());
        for &parameter in experiment.parameters() {
            let changed = printed(experiment, set(small(), &[other(parameter)]));
            assert_ne!(changed, expected, "{experiment}: {parameter} has no effect");
        }
    }

    #[test]
    fn changed_parameters_are_named_where_they_have_an_effect() {
        assert_eq!(Experiment::Table1.changed(&Parameters::default()), [""; 0]);
        let parameters = set(Parameters::default(), &["T=80", "ring=4096", "M=256"]);
        assert_eq!(Experiment::Table1.changed(&parameters), ["ring=4096", "T=80"]);
        assert_eq!(Experiment::Figure12.changed(&parameters), ["ring=4096"]);
        assert_eq!(Experiment::Today.changed(&parameters), [""; 0]);
    }

    #[test]
    fn the_list_of_the_text_is_what_has_an_effect() {
        check(Experiment::Text);
    }

    #[test]
    fn the_lists_of_bursts_are_what_has_an_effect() {
        [Experiment::Figure8, Experiment::Figure9, Experiment::Figure10].into_iter().for_each(check);
    }

    #[test]
    fn the_lists_of_skew_are_what_has_an_effect() {
        [Experiment::Table1, Experiment::Figure3, Experiment::Figure11].into_iter().for_each(check);
    }

    #[test]
    fn the_lists_of_thresholds_and_forwarding_are_what_has_an_effect() {
        [Experiment::Figure12, Experiment::Figure13, Experiment::Figure14].into_iter().for_each(check);
    }

    #[test]
    fn each_parameter_has_an_effect_on_an_experiment() {
        for parameter in Parameter::ALL {
            assert!(Experiment::with(parameter.value).count() > 0, "{}", parameter.name);
        }
    }
}
