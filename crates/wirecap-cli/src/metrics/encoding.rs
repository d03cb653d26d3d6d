//! How metrics are written: OpenMetrics 1.0, or for clients that do not accept it the text format of
//! Prometheus, which differs in the heads of families.

use std::fmt;

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text::encode},
    metrics::MetricType,
    registry::{Registry, Unit as ClientUnit},
};

use super::families::{Family, Figure, Kind, Sample, Unit};

/// What all names begin with.
const PREFIX: &str = "wirecap";

/// A format of metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    OpenMetrics,
    PrometheusText,
}

impl Format {
    /// For a client that accepts these media types.
    pub(super) fn accepted(types: &str) -> Self {
        match types.contains("application/openmetrics-text") {
            true => Format::OpenMetrics,
            false => Format::PrometheusText,
        }
    }

    /// Its media type.
    pub(super) fn media_type(self) -> &'static str {
        match self {
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Format::PrometheusText => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// The metrics in a format.
pub(super) fn text(families: Vec<Family>, format: Format) -> String {
    let mut registry = Registry::with_prefix(PREFIX);
    registry.register_collector(Box::new(Families(families)));
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = encode(&mut text, &registry);
    match format {
        Format::OpenMetrics => text,
        Format::PrometheusText => to_prometheus(&text),
    }
}

#[derive(Debug)]
struct Families(Vec<Family>);

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for Family { name, help, unit, kind, samples } in &self.0 {
            let unit = client_unit(*unit);
            let kind = match kind {
                Kind::Counter => MetricType::Counter,
                Kind::Gauge => MetricType::Gauge,
                Kind::Info => MetricType::Info,
            };
            let mut family = encoder.encode_descriptor(name, help, unit.as_ref(), kind)?;
            for sample in samples {
                encode_sample(&mut family, kind, sample)?;
            }
        }
        Ok(())
    }
}

fn encode_sample(family: &mut MetricEncoder<'_>, kind: MetricType, (labels, figure): &Sample) -> fmt::Result {
    let labels: Vec<_> = labels.iter().map(|(name, value)| (*name, escaped(value))).collect();
    if matches!(kind, MetricType::Info) {
        return family.encode_info(&labels);
    }
    let write = |encoder: &mut MetricEncoder<'_>| match figure {
        Figure::Count(count) => encoder.encode_counter::<NoLabelSet, u64, u64>(count, None),
        Figure::Level(level) => encoder.encode_gauge(level),
    };
    if labels.is_empty() {
        return write(family);
    }
    write(&mut family.encode_family(&labels)?)
}

/// A value between quotes, which the encoder writes as it is: names of trace files may contain anything.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn client_unit(unit: Unit) -> Option<ClientUnit> {
    match unit {
        Unit::Packets => Some(ClientUnit::Other("packets".into())),
        Unit::Bytes => Some(ClientUnit::Bytes),
        Unit::Seconds => Some(ClientUnit::Seconds),
        Unit::Ratio => Some(ClientUnit::Other("ratio".into())),
        Unit::None => None,
    }
}

/// OpenMetrics names families without the suffix of their samples, and has heads that the text format of
/// Prometheus lacks.
fn to_prometheus(text: &str) -> String {
    let (mut out, mut help) = (String::with_capacity(text.len()), None);
    for line in text.lines() {
        if let Some(head) = line.strip_prefix("# HELP ") {
            help = head.split_once(' ').map(|(_, help)| help);
        } else if let Some(head) = line.strip_prefix("# TYPE ") {
            let (name, kind) = head.split_once(' ').unwrap_or((head, "untyped"));
            let (suffix, kind) = match kind {
                "counter" => ("_total", kind),
                "info" => ("_info", "gauge"),
                kind => ("", kind),
            };
            if let Some(help) = help.take() {
                out += &format!("# HELP {name}{suffix} {help}\n");
            }
            out += &format!("# TYPE {name}{suffix} {kind}\n");
        } else if !line.starts_with('#') {
            out += line;
            out.push('\n');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn families() -> Vec<Family> {
        let labels = |cause: &str| vec![("port", "eth1".into()), ("cause", cause.into())];
        vec![
            Family {
                name: "lost",
                help: "Packets lost.",
                unit: Unit::Packets,
                kind: Kind::Counter,
                samples: vec![
                    (labels("no_free_cell"), Figure::Count(3)),
                    (labels("a\"b\\c\nd"), Figure::Count(0)),
                ],
            },
            Family {
                name: "pool_used",
                help: "How full.",
                unit: Unit::Ratio,
                kind: Kind::Gauge,
                samples: vec![(Vec::new(), Figure::Level(0.25))],
            },
            Family {
                name: "build",
                help: "The version.",
                unit: Unit::None,
                kind: Kind::Info,
                samples: vec![(vec![("version", "1".into())], Figure::Count(1))],
            },
        ]
    }

    #[test]
    fn open_metrics_have_help_type_unit_and_an_end() {
        let expected = "\
# HELP wirecap_lost_packets Packets lost.
# TYPE wirecap_lost_packets counter
# UNIT wirecap_lost_packets packets
wirecap_lost_packets_total{port=\"eth1\",cause=\"no_free_cell\"} 3
wirecap_lost_packets_total{port=\"eth1\",cause=\"a\\\"b\\\\c\\nd\"} 0
# HELP wirecap_pool_used_ratio How full.
# TYPE wirecap_pool_used_ratio gauge
# UNIT wirecap_pool_used_ratio ratio
wirecap_pool_used_ratio 0.25
# HELP wirecap_build The version.
# TYPE wirecap_build info
wirecap_build_info{version=\"1\"} 1
# EOF
";
        assert_eq!(text(families(), Format::OpenMetrics), expected);
    }

    #[test]
    fn prometheus_text_names_the_samples_in_the_heads() {
        let expected = "\
# HELP wirecap_lost_packets_total Packets lost.
# TYPE wirecap_lost_packets_total counter
wirecap_lost_packets_total{port=\"eth1\",cause=\"no_free_cell\"} 3
wirecap_lost_packets_total{port=\"eth1\",cause=\"a\\\"b\\\\c\\nd\"} 0
# HELP wirecap_pool_used_ratio How full.
# TYPE wirecap_pool_used_ratio gauge
wirecap_pool_used_ratio 0.25
# HELP wirecap_build_info The version.
# TYPE wirecap_build_info gauge
wirecap_build_info{version=\"1\"} 1
";
        assert_eq!(text(families(), Format::PrometheusText), expected);
        assert_eq!(Format::accepted("text/plain"), Format::PrometheusText);
        let prometheus =
            "application/openmetrics-text;version=1.0.0;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        assert_eq!(Format::accepted(prometheus), Format::OpenMetrics);
    }
}
