//! A picture of a profile, as SVG.
//!
//! ```text
//!   ┌──────────────────────────────────────────┐
//!   │ packets of the largest bin of each point │   a line for each queue
//!   ├────────────────────────────┬─────────────┤
//!   │ Gini coefficient over time │ shares      │
//!   └────────────────────────────┴─────────────┘
//! ```
//!
//! Rule: a burst is never averaged away: a point shows its largest bin.

use plotters::{
    coord::Shift,
    prelude::{
        BLACK, ChartBuilder, Color, DrawingArea, DrawingAreaErrorKind, DrawingBackend, FontTransform,
        IntoDrawingArea, IntoFont, LineSeries, Palette, Palette99, PathElement, RGBColor, Rectangle,
        SVGBackend, Text, WHITE,
    },
    style::text_anchor::{HPos, Pos, VPos},
};

use crate::{series::Series, summary::Summary};

/// Width and height, in pixels.
const SIZE: (u32, u32) = (1200, 760);
/// Queues with a line of their own: more cannot be told apart.
const MAX_LINES: usize = 16;

type Area<B> = DrawingArea<B, Shift>;
type Drawn<B> = Result<(), DrawingAreaErrorKind<<B as DrawingBackend>::ErrorType>>;

/// Draws a profile with these names for the queues. Without packets in closed bins, the axes are empty.
pub fn picture(title: &str, names: &[String], summary: &Summary, series: &Series) -> String {
    let mut svg = String::new();
    let drawn =
        draw(title, names, summary, series, SVGBackend::with_string(&mut svg, SIZE).into_drawing_area());
    drawn.expect("memory takes everything");
    svg
}

fn draw<B: DrawingBackend>(
    title: &str,
    names: &[String],
    summary: &Summary,
    series: &Series,
    area: Area<B>,
) -> Drawn<B> {
    area.fill(&WHITE)?;
    let (above, below) = area.split_vertically(SIZE.1 * 3 / 5);
    let (left, right) = below.split_horizontally(SIZE.0 * 3 / 5);
    lines(title, names, summary, series, &above)?;
    gini(summary, series, &left)?;
    shares(names, summary, &right)?;
    area.present()
}

/// The seconds that a point covers. Without points, those of a bin: an axis cannot have length 0.
fn seconds_per_point(summary: &Summary, series: &Series) -> f64 {
    summary.bin_ns as f64 * series.bins_per_point.max(1) as f64 / 1e9
}

/// A label of an axis. Rounded, since three times 0.1 is 0.30000000000000004.
fn label(value: &f64) -> String {
    format!("{}", (value * 1e9).round() / 1e9)
}

/// A value for each point. Points that the series leaves out are 0; the first and the last one of each gap
/// suffice.
fn line(series: &Series, step: f64, value: impl Fn(usize) -> f64) -> Vec<(f64, f64)> {
    let mut line = Vec::new();
    let mut next = 0;
    for (index, point) in series.points.iter().enumerate() {
        if point.point > next {
            line.push((next as f64 * step, 0.0));
            line.push(((point.point - 1) as f64 * step, 0.0));
        }
        line.push((point.point as f64 * step, value(index)));
        next = point.point + 1;
    }
    line
}

/// The queues that have most packets, in the order of their numbers.
fn busiest(summary: &Summary) -> Vec<usize> {
    let mut queues: Vec<_> = (0..summary.queues.len()).collect();
    queues.sort_by_key(|&queue| std::cmp::Reverse(summary.queues[queue].packets));
    queues.truncate(MAX_LINES);
    queues.sort_unstable();
    queues
}

fn lines<B: DrawingBackend>(
    title: &str,
    names: &[String],
    summary: &Summary,
    series: &Series,
    area: &Area<B>,
) -> Drawn<B> {
    let queues = busiest(summary);
    let left_out = summary.queues.len() - queues.len();
    let title = match left_out {
        _ if series.points.is_empty() => format!("{title}: no packets"),
        0 => title.to_owned(),
        _ => format!("{title}; without the {left_out} queues that have the fewest packets"),
    };
    let step = seconds_per_point(summary, series);
    let largest = series.points.iter().flat_map(|point| &*point.largest_bin).max().copied().unwrap_or(0);
    let end = summary.seconds.max(step);
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(70)
        .build_cartesian_2d(0.0..end, 0.0..largest.max(1) as f64 * 1.05)?;
    let per_bin = format!("packets per {} ms", summary.bin_ns as f64 / 1e6);
    let mut mesh = chart.configure_mesh();
    mesh.x_desc("seconds").y_desc(per_bin).light_line_style(WHITE);
    mesh.x_label_formatter(&label).y_label_formatter(&label);
    mesh.draw()?;
    for (at, queue) in queues.into_iter().enumerate() {
        let colour = Palette99::pick(at).to_rgba();
        let points = line(series, step, |index| series.points[index].largest_bin[queue] as f64);
        let drawn = chart.draw_series(LineSeries::new(points, &colour))?;
        drawn
            .label(names[queue].clone())
            .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 16, y)], colour.stroke_width(3)));
    }
    chart.configure_series_labels().background_style(WHITE.mix(0.8)).border_style(BLACK.mix(0.3)).draw()
}

fn gini<B: DrawingBackend>(summary: &Summary, series: &Series, area: &Area<B>) -> Drawn<B> {
    let step = seconds_per_point(summary, series);
    let mut chart = ChartBuilder::on(area)
        .caption("Gini coefficient of the queues (0 is even)", ("sans-serif", 16))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(70)
        .build_cartesian_2d(0.0..summary.seconds.max(step), 0.0..1.0)?;
    chart.configure_mesh().x_desc("seconds").light_line_style(WHITE).draw()?;
    let points = line(series, step, |index| series.points[index].gini);
    chart.draw_series(LineSeries::new(points, &BLACK)).map(|_| ())
}

fn shares<B: DrawingBackend>(names: &[String], summary: &Summary, area: &Area<B>) -> Drawn<B> {
    let queues = busiest(summary);
    let even = 100.0 / summary.queues.len().max(1) as f64;
    // Without packets, all shares are 0, and the line is the highest.
    let top = summary.queues.iter().map(|queue| queue.share * 100.0).fold(even, f64::max);
    let mut chart = ChartBuilder::on(area)
        .caption("percent of all packets; the line is an even share", ("sans-serif", 16))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(50)
        .build_cartesian_2d(0.0..queues.len() as f64, 0.0..top * 1.05)?;
    let mut mesh = chart.configure_mesh();
    mesh.disable_x_mesh().x_labels(0).x_desc("queues, in the colours of their lines");
    mesh.y_label_formatter(&label).light_line_style(WHITE).draw()?;
    let bars = queues.iter().enumerate().map(|(at, &queue)| {
        let (left, share) = (at as f64, summary.queues[queue].share * 100.0);
        Rectangle::new([(left + 0.15, 0.0), (left + 0.85, share)], Palette99::pick(at).filled())
    });
    chart.draw_series(bars)?;
    let upright = ("sans-serif", 13).into_font().transform(FontTransform::Rotate270);
    let labels = queues.iter().enumerate().map(|(at, &queue)| {
        let style = upright.color(readable_on(at)).pos(Pos::new(HPos::Left, VPos::Center));
        Text::new(names[queue].clone(), (at as f64 + 0.5, top * 0.02), style)
    });
    chart.draw_series(labels)?;
    let even = [(0.0, even), (queues.len() as f64, even)];
    chart.draw_series(LineSeries::new(even, &BLACK)).map(|_| ())
}

/// Black, or white on a dark colour.
fn readable_on(at: usize) -> &'static RGBColor {
    let (red, green, blue) = Palette99::pick(at).to_rgba().rgb();
    let light = u32::from(red) * 3 + u32::from(green) * 6 + u32::from(blue);
    if light < 1_000 { &WHITE } else { &BLACK }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BinSettings, Profiler, Tally};

    fn drawn(queues: usize, packets: u64) -> String {
        let mut profiler = Profiler::new(queues, BinSettings::new(10_000_000, 100_000_000));
        let mut tally = Tally::new(10_000_000);
        (0..packets).for_each(|number| tally.count(number * 3_000_000, number as usize % queues));
        // Much later.
        tally.count(packets * 3_000_000 + 2_000_000_000 * packets, 0);
        if packets > 0 {
            profiler.add(&tally, |_| {});
        }
        profiler.close(|_| {});
        let names: Vec<_> = (0..queues).map(|queue| format!("queue <{queue}>")).collect();
        picture("packets & bytes", &names, &profiler.summary(), profiler.series())
    }

    #[test]
    fn each_queue_has_a_line_a_name_and_a_share() {
        let svg = drawn(3, 1_000);
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        assert!(svg.matches("<polyline").count() >= 5);
        for text in ["queue &lt;2&gt;", "packets &amp; bytes", "packets per 10 ms", "Gini"] {
            assert!(svg.contains(text), "{text}");
        }
    }

    #[test]
    fn without_packets_the_axes_are_empty_and_the_title_says_why() {
        for queues in [1, 3, 40] {
            let svg = drawn(queues, 0);
            assert!(svg.trim_end().ends_with("</svg>"));
            for text in ["packets &amp; bytes: no packets", "packets per 10 ms", "Gini"] {
                assert!(svg.contains(text), "{queues} queues, {text}: {svg}");
            }
            assert!(!svg.contains("00000000") && !svg.contains("99999999"), "{svg}");
        }
    }

    #[test]
    fn many_queues_are_cut_to_the_busiest_and_the_title_says_so() {
        let svg = drawn(40, 4_000);
        assert!(svg.contains("without the 24 queues that have the fewest packets") && svg.len() < 1 << 20);
    }

    #[test]
    fn of_very_many_queues_each_that_is_drawn_has_a_colour_of_its_own() {
        let mut profiler = Profiler::new(200, BinSettings::new(10_000_000, 100_000_000));
        let mut tally = Tally::new(10_000_000);
        let busiest: Vec<_> = (0..100).step_by(11).chain([99, 198]).collect();
        busiest.iter().enumerate().for_each(|(at, &queue)| tally.count(at as u64 * 20_000_000, queue));
        profiler.add(&tally, |_| {});
        profiler.close(|_| {});
        let names: Vec<_> = (0..200).map(|queue| format!("queue {queue}")).collect();
        let svg = picture("packets", &names, &profiler.summary(), profiler.series());
        let bars = svg.lines().filter(|line| line.starts_with("<rect") && line.contains("opacity=\"1\""));
        let colour = |line: &str| line.split("fill=\"").nth(1).map(|rest| rest[..7].to_owned());
        let colours: std::collections::BTreeSet<_> =
            bars.filter_map(colour).filter(|c| c != "#FFFFFF").collect();
        assert_eq!(colours.len(), MAX_LINES, "{colours:?}");
        assert_eq!(svg.matches(">\nqueue 198\n<").count(), 2, "a legend and a bar");
    }

    #[test]
    fn a_gap_is_drawn_as_two_points() {
        let point = |point| crate::Point { point, packets: [1].into(), largest_bin: [1].into(), gini: 0.0 };
        let mut series = Series::default();
        series.points.extend([0, 1, 500].map(point));
        let line = line(&series, 1.0, |_| 1.0);
        assert_eq!(line, [(0.0, 1.0), (1.0, 1.0), (2.0, 0.0), (499.0, 0.0), (500.0, 1.0)]);
    }
}
