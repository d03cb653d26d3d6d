//! Charts as SVG.
//!
//! ```text
//!   ┌ title (simulated) ─────────────────────┐
//!   │ plot                        │ legend   │   `simulated` once more in the corner of the plot
//!   └────────────────────────────────────────┘
//! ```
//!
//! Rule: what is black takes the colour of the text around the picture, so a dark page has light axes.

use std::{iter, ops::Range};

use plotters::{
    coord::{
        Shift,
        ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter},
    },
    element::{Circle, Cross, TriangleMarker},
    prelude::{
        BLACK, Cartesian2d, ChartBuilder, ChartContext, Color, DrawingArea, DrawingAreaErrorKind,
        DrawingBackend, IntoDrawingArea, LineSeries, PathElement, RGBColor, Rectangle, SVGBackend,
    },
    style::{
        IntoTextStyle, TextStyle,
        text_anchor::{HPos, Pos, VPos},
    },
};

use crate::{
    chart::{Chart, Line, Plot, Series},
    origin::Origin,
    palette::COLOURS,
    scale::{Scale, Span, number},
    text::{escape, is_harmful},
};

/// Width and height, in pixels.
const SIZE: (u32, u32) = (960, 440);
/// Characters of a line of the title.
const TITLE_CHARS: usize = 100;
/// Characters of a name in the legend.
const LEGEND_CHARS: usize = 34;
/// The width of a character, nearly.
const CHAR_WIDTH: u32 = 7;
/// The width that labels of heights have at least, with the name of their axis, and the name alone.
const HEIGHTS_WIDTH: u32 = 74;
const AXIS_NAME_WIDTH: u32 = 34;
/// The room around a plot.
const MARGIN: u32 = 12;
/// Points of a line that are marked; of more, only the line is drawn.
const MAX_MARKS: usize = 40;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn<'a, T = ()> = Result<T, DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>>;
type Context<'c, 'a> = ChartContext<'c, SVGBackend<'a>, Cartesian2d<Span, Span>>;

impl Ranged for Span {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, place: &f64, (first, last): (i32, i32)) -> i32 {
        let share = (place - self.from) / (self.until - self.from);
        first + (share * f64::from(last - first)).round() as i32
    }

    /// All labels, and no lines between them.
    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() {
            return Vec::new();
        }
        self.ticks.iter().map(|tick| tick.0).collect()
    }

    fn range(&self) -> Range<f64> {
        self.from..self.until
    }
}

impl ValueFormatter<f64> for Span {
    fn format(place: &f64) -> String {
        number(*place)
    }
}

/// Draws a chart, which has been checked, as a picture of its own, black on nothing.
pub fn picture(chart: &Chart, origin: Origin) -> String {
    let mut svg = String::new();
    draw(chart, origin, SVGBackend::with_string(&mut svg, SIZE).into_drawing_area())
        .expect("memory takes everything");
    svg
}

/// The same for a page. `number` makes its identifiers unique there.
pub fn svg(chart: &Chart, origin: Origin, number: usize) -> String {
    // In texts, quotes are escaped: only attributes are changed.
    let svg = picture(chart, origin).replace("\"#000000\"", "\"currentColor\"");
    let (tag, rest) = svg.split_once('>').expect("a picture begins with a tag");
    let attributes = tag.strip_prefix("<svg").expect("a picture is <svg>");
    format!(
        "<svg role=\"img\" aria-labelledby=\"chart-{number}-title chart-{number}-text\"{attributes}>\n\
         <title id=\"chart-{number}-title\">{} ({origin})</title>\n\
         <desc id=\"chart-{number}-text\">{} All figures are {origin}.</desc>{rest}",
        escape(&chart.title),
        escape(&chart.description),
    )
}

fn colour(number: usize) -> RGBColor {
    let [red, green, blue] = COLOURS[number];
    RGBColor(red, green, blue)
}

fn style(size: u32) -> TextStyle<'static> {
    ("sans-serif", size).into_text_style(&SIZE).color(&BLACK)
}

fn draw<'a>(chart: &Chart, origin: Origin, area: Area<'a>) -> Drawn<'a> {
    let title = wrapped(&format!("{} ({origin})", chart.title), TITLE_CHARS);
    for (row, line) in title.iter().enumerate() {
        area.draw_text(line, &style(19), (12, 8 + 20 * row as i32))?;
    }
    let names = chart.plot.names();
    let longest = names.iter().map(|name| name.chars().count().min(LEGEND_CHARS)).max().unwrap_or(0);
    let legend_width = longest as u32 * CHAR_WIDTH + 46;
    let (_, below) = area.split_vertically(14 + 20 * title.len() as u32);
    let (left, right) = below.split_horizontally(SIZE.0 - legend_width);
    match &chart.plot {
        Plot::Lines { x, y, lines } => {
            let points = || lines.iter().flat_map(|line| &line.points);
            let across = Span::of(x.scale, points().map(|point| point.0), false);
            let up = Span::of(y.scale, points().map(|point| point.1), true);
            let mut plot = axes(&left, &across, &up, &x.label, &y.label, 42)?;
            for (number, line) in lines.iter().enumerate() {
                draw_line(&area, &mut plot, number, line, [x.scale, y.scale])?;
            }
        }
        Plot::GroupedBars { groups, y, series } => {
            let values = series.iter().flat_map(|one| one.values.iter().flatten().copied());
            let up = Span::of(Scale::Linear, values, true);
            let mut plot = group_axes(&area, &left, groups, &up, &y.label)?;
            for (number, Series { values, .. }) in series.iter().enumerate() {
                let width = 0.8 / series.len() as f64;
                let left = 0.1 + width * number as f64;
                let bars = values.iter().enumerate().filter_map(|(group, value)| {
                    let from = group as f64 + left;
                    value.map(|value| [(from, 0.0), (from + width * 0.94, value)])
                });
                plot.draw_series(bars.map(|bar| Rectangle::new(bar, colour(number).filled())))?;
            }
        }
        Plot::StackedBars { groups, y, series } => {
            let mut heights = vec![0.0; groups.len()];
            let mut bars = Vec::new();
            for (number, Series { values, .. }) in series.iter().enumerate() {
                for (group, value) in values.iter().enumerate() {
                    let from = heights[group];
                    heights[group] += value.unwrap_or(0.0);
                    let corners = [(group as f64 + 0.2, from), (group as f64 + 0.8, heights[group])];
                    bars.extend(value.map(|_| Rectangle::new(corners, colour(number).filled())));
                }
            }
            let up = Span::of(Scale::Linear, heights.iter().copied(), true);
            group_axes(&area, &left, groups, &up, &y.label)?.draw_series(bars)?;
        }
    }
    let word = style(17).pos(Pos::new(HPos::Right, VPos::Top));
    left.draw_text(&origin.to_string(), &word, (left.dim_in_pixel().0 as i32 - 20, 4))?;
    legend(chart, &names, &right)?;
    area.present()
}

/// The width of the labels of heights: long ones are not cut off.
fn heights_width(up: &Span) -> u32 {
    HEIGHTS_WIDTH.max(AXIS_NAME_WIDTH + up.longest_label() as u32 * CHAR_WIDTH)
}

/// The width of a plot in this area.
fn plot_width(area: &Area<'_>, up: &Span) -> u32 {
    area.dim_in_pixel().0.saturating_sub(heights_width(up) + 2 * MARGIN)
}

/// The axes of a plot, with their labels.
fn axes<'c, 'a>(
    area: &'c Area<'a>,
    across: &Span,
    up: &Span,
    across_label: &str,
    up_label: &str,
    below: u32,
) -> Drawn<'a, Context<'c, 'a>> {
    let (beside, width) = (heights_width(up), plot_width(area, up));
    let across = across.clone().spaced(f64::from(width) / f64::from(CHAR_WIDTH));
    let mut plot = ChartBuilder::on(area)
        .margin(MARGIN)
        .margin_top(26)
        .x_label_area_size(below)
        .y_label_area_size(beside)
        .build_cartesian_2d(across.clone(), up.clone())?;
    let word = |span: &Span, place: f64| {
        let tick = span.ticks.iter().find(|tick| tick.0 == place);
        tick.map(|tick| tick.1.clone()).unwrap_or_default()
    };
    plot.configure_mesh()
        .max_light_lines(0)
        .bold_line_style(BLACK.mix(0.13))
        .axis_style(BLACK.mix(0.6))
        .label_style(style(15))
        .axis_desc_style(style(16))
        .x_desc(printable(across_label))
        .y_desc(printable(up_label))
        .x_label_formatter(&|place| word(&across, *place))
        .y_label_formatter(&|place| word(up, *place))
        .draw()?;
    Ok(plot)
}

/// The axes of bars: the names of the groups are wrapped below them.
fn group_axes<'c, 'a>(
    root: &Area<'a>,
    area: &'c Area<'a>,
    groups: &[String],
    up: &Span,
    up_label: &str,
) -> Drawn<'a, Context<'c, 'a>> {
    let width = plot_width(area, up) / groups.len().max(1) as u32;
    // A character between the names of neighbours.
    let most = (width / CHAR_WIDTH).saturating_sub(1).max(1) as usize;
    let names: Vec<_> = groups.iter().map(|name| wrapped(name, most)).collect();
    let rows = names.iter().map(Vec::len).max().unwrap_or(1).min(6);
    let across = Span { from: 0.0, until: groups.len() as f64, ticks: Vec::new() };
    let plot = axes(area, &across, up, "", up_label, 16 + 15 * rows as u32)?;
    let style = style(15).pos(Pos::new(HPos::Center, VPos::Top));
    for (number, name) in names.iter().enumerate() {
        let (x, y) = plot.backend_coord(&(number as f64 + 0.5, up.from));
        for (row, line) in name.iter().take(rows).enumerate() {
            root.draw_text(line, &style, (x, y + 8 + 15 * row as i32))?;
        }
    }
    Ok(plot)
}

fn draw_line<'a>(
    root: &Area<'a>,
    plot: &mut Context<'_, 'a>,
    number: usize,
    line: &Line,
    [across, up]: [Scale; 2],
) -> Drawn<'a> {
    let places: Vec<_> = line.points.iter().map(|&(x, y)| (across.place(x), up.place(y))).collect();
    let colour = colour(number).stroke_width(2);
    plot.draw_series(LineSeries::new(places.iter().copied(), colour))?;
    if places.len() <= MAX_MARKS {
        places.iter().try_for_each(|place| mark(root, number, plot.backend_coord(place)))?;
    }
    Ok(())
}

/// A mark whose shape tells lines apart for those who do not see colours.
fn mark<'a>(area: &Area<'a>, number: usize, at: (i32, i32)) -> Drawn<'a> {
    let colour = colour(number);
    match number % 3 {
        0 => area.draw(&Circle::new(at, 4, colour.filled())),
        1 => area.draw(&TriangleMarker::new(at, 5, colour.filled())),
        _ => area.draw(&Cross::new(at, 4, colour.stroke_width(2))),
    }
}

fn legend<'a>(chart: &Chart, names: &[&str], area: &Area<'a>) -> Drawn<'a> {
    for (number, name) in names.iter().enumerate() {
        let y = 34 + 22 * number as i32;
        let colour = colour(number);
        match chart.plot {
            Plot::Lines { .. } => {
                area.draw(&PathElement::new(vec![(2, y), (26, y)], colour.stroke_width(2)))?;
                mark(area, number, (14, y))?;
            }
            _ => area.draw(&Rectangle::new([(6, y - 6), (22, y + 6)], colour.filled()))?,
        }
        area.draw_text(&shortened(name, LEGEND_CHARS), &style(16), (34, y - 7))?;
    }
    Ok(())
}

/// At most this number of characters; a sign says that there were more.
fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return printable(text);
    }
    let kept: String = text.chars().take(most.saturating_sub(1)).collect();
    printable(&kept) + "…"
}

/// Lines of at most this number of characters, broken between words; a longer word is shortened.
fn wrapped(text: &str, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let word = shortened(word, most);
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= most => {
                line.extend(iter::once(' ').chain(word.chars()));
            }
            _ => lines.push(word),
        }
    }
    lines
}

/// Without characters that are harmful.
fn printable(text: &str) -> String {
    text.replace(is_harmful, "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{chart::Axis, palette::MAX_SERIES};

    fn series(name: &str, values: [Option<f64>; 2]) -> Series {
        Series { name: name.into(), values: values.into() }
    }

    fn charts() -> [Chart; 3] {
        let y = Axis::linear("percent");
        let groups = vec!["five queues of one port".into(), "six".into()];
        let bars = vec![series("basic <1>", [Some(18.2), None]), series("advanced", [Some(2.0), Some(4.0)])];
        let lines = ["DNA", "B-(256, 500)"]
            .map(|name| Line { name: name.into(), points: vec![(1e3, 0.0), (1e5, 98.7), (1e7, 99.7)] });
        let plots = [
            Plot::Lines { x: Axis::log("packets"), y: y.clone(), lines: lines.into() },
            Plot::GroupedBars { groups: groups.clone(), y: y.clone(), series: bars.clone() },
            Plot::StackedBars { groups, y, series: bars },
        ];
        plots.map(|plot| Chart {
            title: "Loss & <gain>".into(),
            description: "Less is \"better\".".into(),
            plot,
        })
    }

    #[test]
    fn each_chart_has_its_title_legend_labels_and_origin() {
        for chart in charts() {
            let svg = svg(&chart, Origin::Simulated, 3);
            assert!(
                svg.starts_with("<svg role=\"img\" aria-labelledby=\"chart-3-title chart-3-text\" width=")
            );
            assert!(svg.trim_end().ends_with("</svg>"));
            for name in chart.plot.names() {
                assert!(svg.contains(&format!("{}\n</text>", escape(name))), "{name}: {svg}");
            }
            for text in ["Loss &amp; &lt;gain&gt; (simulated)", "Less is &quot;better&quot;.", "percent"] {
                assert!(svg.contains(text), "{text}: {svg}");
            }
            // The title for readers, its description, the heading, and the corner.
            assert_eq!(svg.matches("simulated").count(), 4, "{svg}");
            assert!(!svg.contains("measured") && !svg.contains("#000000"));
        }
        assert_eq!(svg(&charts()[0], Origin::Measured, 1).matches("measured").count(), 4);
    }

    #[test]
    fn each_value_has_a_bar_of_its_height() {
        let [lines, grouped, stacked] = charts().map(|chart| svg(&chart, Origin::Measured, 1));
        // Two in the legend.
        assert_eq!(grouped.matches("<rect").count(), 2 + 3);
        assert_eq!(stacked.matches("<rect").count(), 2 + 3);
        assert_eq!(lines.matches("<circle").count(), 1 + 3);
        assert_eq!(lines.matches("<polygon").count(), 1 + 3);
        let heights = |svg: &str| -> Vec<f64> {
            let bars = svg.split("<rect ").skip(1).map(|tag| {
                let (_, rest) = tag.split_once("height=\"").unwrap();
                rest.split_once('"').unwrap().0.parse().unwrap()
            });
            bars.filter(|height| *height != 12.0).collect()
        };
        let grouped = heights(&grouped);
        assert!((grouped[0] / grouped[1] - 9.1).abs() < 0.3 && grouped[2] > grouped[1], "{grouped:?}");
        let stacked = heights(&stacked);
        assert!((stacked[0] / stacked[1] - 9.1).abs() < 0.5, "{stacked:?}");
    }

    #[test]
    fn a_line_of_one_point_has_a_mark() {
        let [mut chart, ..] = charts();
        let alone = |chart: &Chart| picture(chart, Origin::Measured).matches("<circle").count();
        if let Plot::Lines { lines, .. } = &mut chart.plot {
            lines.truncate(1);
            lines[0].points.truncate(1);
        }
        // One is in the legend.
        assert_eq!(alone(&chart), 2);
    }

    #[test]
    fn no_two_entries_of_a_legend_have_one_colour() {
        let [_, mut chart, _] = charts();
        if let Plot::GroupedBars { series, .. } = &mut chart.plot {
            *series = vec![series[0].clone(); MAX_SERIES];
        }
        let svg = picture(&chart, Origin::Measured);
        let in_legend = svg.split("<rect ").skip(1).filter(|tag| tag.contains("height=\"12\""));
        let colours: BTreeSet<_> =
            in_legend.filter_map(|tag| tag.split("fill=\"").nth(1)?.split('"').next()).collect();
        assert_eq!(colours.len(), MAX_SERIES, "{colours:?}");
    }

    #[test]
    fn names_of_neighbouring_groups_do_not_touch() {
        let [_, mut chart, _] = charts();
        if let Plot::GroupedBars { groups, series, .. } = &mut chart.plot {
            *groups = vec!["40 GbE 16".into(); 12];
            series.iter_mut().for_each(|one| one.values = vec![Some(1.0); 12]);
        }
        let svg = picture(&chart, Origin::Measured);
        assert_eq!(svg.matches("\n40 GbE\n").count(), 12, "{svg}");
    }

    #[test]
    fn labels_of_heights_are_whole_and_as_precise_as_their_step() {
        let svg = |value| {
            let [mut chart, ..] = charts();
            if let Plot::Lines { lines, .. } = &mut chart.plot {
                lines[0].points = vec![(1e3, value)];
                lines.truncate(1);
            }
            picture(&chart, Origin::Measured)
        };
        let small = svg(0.009);
        assert!(small.contains("\n0.008\n") && small.contains("\n0.010\n"), "{small}");
        // The text is aligned to the right, so its place has to be at least its width from the edge.
        let large = svg(8e12);
        let label = "\n8,000,000,000,000\n";
        let (before, _) = large.split_once(label).unwrap_or_else(|| panic!("{large}"));
        let (_, at) = before.rsplit_once("<text x=\"").unwrap();
        let x: u32 = at.split('"').next().unwrap().parse().unwrap();
        assert!(x >= label.trim().len() as u32 * CHAR_WIDTH, "{x}");
    }

    #[test]
    fn long_texts_are_wrapped_or_shortened() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("extraordinary", 5), ["extr…"]);
        assert_eq!(shortened("a\u{7}b", 9), "a\u{fffd}b");
        assert!(wrapped("", 5).is_empty());
    }
}
