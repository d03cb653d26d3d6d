//! What experiments found, as a page.

use wirecap_core::choice::NamedValue;
use wirecap_report::{Origin, Provenance, Report, Section};

use crate::experiments::{Experiment, findings::Findings};

/// The page of these experiments.
pub fn report(found: &[(&NamedValue<Experiment>, Findings)]) -> Report {
    let section = |(experiment, findings): &(&NamedValue<Experiment>, Findings)| {
        let mut section = Section::new(experiment.name).paragraph(experiment.explanation);
        section = findings.paragraphs.iter().fold(section, |section, text| section.paragraph(text));
        section = findings.charts.iter().fold(section, |section, chart| section.chart(chart.clone()));
        findings.tables.iter().fold(section, |section, table| section.table(table.clone()))
    };
    Report {
        title: "The experiments of the WireCAP paper".into(),
        origin: Origin::Simulated,
        provenance: Provenance::of_this_process(),
        sections: found.iter().map(section).collect(),
    }
}

#[cfg(test)]
mod tests {
    use wirecap_core::Choice;

    use super::*;
    use crate::{experiments::simulation::Simulation, parameters::Parameters};

    #[test]
    fn an_experiment_has_a_section_with_its_chart_and_its_table() {
        let experiment = Experiment::ALL.iter().find(|one| one.value == Experiment::Figure3).unwrap();
        let findings = experiment.value.run(&Simulation::new(Parameters::default())).unwrap();
        let html = report(&[(experiment, findings)]).html().unwrap();
        for text in ["<h2>figure3 <span class=\"origin\">simulated", "<svg role=\"img\"", "largest / mean"] {
            assert!(html.contains(text), "{text}");
        }
    }
}
