//! The page: HTML and CSS in one file, no script, nothing loaded from elsewhere.

use std::{fmt::Write, path::Path};

use wirecap_lab::table::Table;

use crate::{
    drawing,
    error::Error,
    file,
    origin::Origin,
    report::{Part, Report, Section},
    text::escape,
};

const STYLE: &str = include_str!("style.css");
/// No browser runs or loads anything from a report, whatever texts it has.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

impl Report {
    /// The page.
    ///
    /// # Errors
    /// A chart cannot be drawn.
    pub fn html(&self) -> Result<String, Error> {
        page(self)
    }

    /// Writes the page to a file: it is there whole, or what was there before is unchanged.
    ///
    /// # Errors
    /// A chart cannot be drawn, or the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        let page = self.html()?;
        file::write(path, page.as_bytes()).map_err(|error| Error::File { path: path.into(), error })
    }
}

/// Whether a report can be written to a file, whose contents stay: to ask before long work.
///
/// # Errors
/// [`Error::File`].
pub fn check_writable(path: &Path) -> Result<(), Error> {
    file::check(path).map_err(|error| Error::File { path: path.into(), error })
}

/// The page of a report.
fn page(report: &Report) -> Result<String, Error> {
    let Report { title, origin, provenance, sections } = report;
    let title = escape(title);
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <title>{title} ({origin})</title>\n<style>\n{STYLE}</style>\n</head>\n<body class=\"{origin}\">\n\
         <header>\n<h1>{title} {}</h1>\n<p class=\"sentence\">{}</p>\n<dl>\n",
        badge(*origin),
        origin.sentence(),
    );
    let facts =
        [("command", &provenance.command), ("machine", &provenance.machine), ("date", &provenance.date)];
    for (name, value) in facts {
        push(&mut page, format_args!("<dt>{name}</dt><dd>{}</dd>\n", escape(value)));
    }
    page.push_str("</dl>\n</header>\n");
    if sections.len() > 1 {
        page.push_str("<nav aria-label=\"contents\">\n<ul>\n");
        for (number, Section { heading, .. }) in (1..).zip(sections) {
            push(&mut page, format_args!("<li><a href=\"#section-{number}\">{}</a></li>\n", escape(heading)));
        }
        page.push_str("</ul>\n</nav>\n");
    }
    page.push_str("<main>\n");
    let mut charts = 0;
    for (number, Section { heading, parts }) in (1..).zip(sections) {
        let badge = badge(*origin);
        let heading = escape(heading);
        push(&mut page, format_args!("<section id=\"section-{number}\">\n<h2>{heading} {badge}</h2>\n"));
        for part in parts {
            push_part(&mut page, part, *origin, &mut charts)?;
        }
        page.push_str("</section>\n");
    }
    page.push_str("</main>\n</body>\n</html>\n");
    Ok(page)
}

fn push_part(page: &mut String, part: &Part, origin: Origin, charts: &mut usize) -> Result<(), Error> {
    match part {
        Part::Paragraph(text) => push(page, format_args!("<p>{}</p>\n", escape(text))),
        Part::Table(table) => push_table(page, table, origin),
        Part::Chart(chart) => {
            chart.check()?;
            *charts += 1;
            let picture = drawing::svg(chart, origin, *charts);
            let description = escape(&chart.description);
            // The caption is the last child of its figure: HTML allows it only there or in front.
            push(page, format_args!("<figure>\n{picture}<details>\n"));
            page.push_str("<summary>The figures of this chart</summary>\n");
            push_table(page, &chart.table(), origin);
            let badge = badge(origin);
            push(
                page,
                format_args!("</details>\n<figcaption>{description} {badge}</figcaption>\n</figure>\n"),
            );
        }
    }
    Ok(())
}

fn push_table(page: &mut String, table: &Table, origin: Origin) {
    // A table that is printed has the word in its title; here the badge says it.
    let title = table.title().strip_suffix(&format!(" ({origin})")).unwrap_or(table.title());
    let (title, badge) = (escape(title), badge(origin));
    push(page, format_args!("<div class=\"wide\"><table>\n<caption>{title} {badge}</caption>\n<thead><tr>"));
    for cell in table.header() {
        push(page, format_args!("<th scope=\"col\">{}</th>", escape(cell)));
    }
    page.push_str("</tr></thead>\n<tbody>\n");
    for row in table.rows() {
        page.push_str("<tr>");
        for (column, cell) in row.iter().enumerate() {
            let cell = marked(cell);
            match column {
                0 => push(page, format_args!("<th scope=\"row\">{cell}</th>")),
                _ => push(page, format_args!("<td>{cell}</td>")),
            }
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody>\n</table></div>\n");
    for note in table.notes() {
        push(page, format_args!("<p class=\"note\">{}</p>\n", escape(note)));
    }
}

/// A cell is Markdown: what is bold stays bold.
fn marked(cell: &str) -> String {
    match cell.strip_prefix("**").and_then(|cell| cell.strip_suffix("**")) {
        Some(bold) => format!("<strong>{}</strong>", escape(bold)),
        None => escape(cell),
    }
}

fn badge(origin: Origin) -> String {
    format!("<span class=\"origin\">{origin}</span>")
}

fn push(page: &mut String, text: std::fmt::Arguments<'_>) {
    page.write_fmt(text).expect("memory takes everything");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        chart::{Axis, Chart, Line, Plot},
        provenance::Provenance,
    };

    const HOSTILE: &str = "</title></svg><script>alert('1')</script>\"&\u{0}";

    fn report(text: &str, origin: Origin) -> Report {
        let mut table = Table::new(text, &[text, text]);
        table.row([text.into(), "**no**".into()]);
        table.note(text);
        let (x, y) = (Axis::linear(text), Axis::linear(text));
        let lines = vec![Line { name: text.into(), points: vec![(0.0, 1.0), (1.0, 2.0)] }];
        let chart = Chart { title: text.into(), description: text.into(), plot: Plot::Lines { x, y, lines } };
        let provenance = Provenance { command: text.into(), machine: text.into(), date: text.into() };
        let section = || Section::new(text).paragraph(text).table(table.clone()).chart(chart.clone());
        Report { title: text.into(), origin, provenance, sections: vec![section(), section()] }
    }

    #[test]
    fn hostile_text_stays_text() {
        let page = page(&report(HOSTILE, Origin::Measured)).unwrap();
        for needle in ["<script", "alert('", "\u{0}"] {
            assert!(!page.contains(needle), "{needle}");
        }
        assert_eq!(page.matches("<title").count(), page.matches("</title>").count());
        assert_eq!((page.matches("<svg").count(), page.matches("</svg>").count()), (2, 2));
        assert!(page.contains("&lt;/title&gt;&lt;/svg&gt;&lt;script&gt;alert(&apos;1&apos;)"));
    }

    #[test]
    fn each_part_bears_its_origin() {
        for (origin, other) in [(Origin::Measured, "simulated"), (Origin::Simulated, "measured")] {
            let page = page(&report("text", origin)).unwrap();
            let badge = badge(origin);
            // The page, and in each section: heading, table, chart, table of the chart.
            assert_eq!(page.matches(&badge).count(), 1 + 2 * 4);
            for element in ["h1", "h2", "caption", "figcaption"] {
                let tag = format!("<{element}>");
                for text in page.split(&tag).skip(1) {
                    let text = text.split_once(&format!("</{element}>")).unwrap().0;
                    assert!(text.contains(&badge), "{element}: {text}");
                }
            }
            assert!(page.contains(&format!("<title>text ({origin})</title>")));
            let (head, body) = page.split_once("</head>").unwrap();
            assert!(head.contains("default-src 'none'"));
            let sentence = format!("<p class=\"sentence\">{}</p>", origin.sentence());
            assert!(!body.replace(&sentence, "").contains(other), "{body}");
        }
    }

    #[test]
    fn captions_of_figures_come_last_and_captions_of_tables_say_their_origin_once() {
        let mut report = report("text", Origin::Measured);
        let table = Table::new("Losses (measured)", &["engine"]);
        report.sections[0].parts = vec![Part::Table(table), report.sections[0].parts.pop().unwrap()];
        let page = page(&report).unwrap();
        assert!(page.contains("<caption>Losses <span class=\"origin\">measured</span></caption>"), "{page}");
        assert_eq!(page.matches("</figcaption>\n</figure>").count(), 2, "{page}");
    }

    #[test]
    fn tables_have_heads_rows_notes_and_bold_cells() {
        let page = page(&report("text", Origin::Measured)).unwrap();
        assert!(
            page.contains("<thead><tr><th scope=\"col\">text</th><th scope=\"col\">text</th></tr></thead>")
        );
        assert!(page.contains("<tr><th scope=\"row\">text</th><td><strong>no</strong></td></tr>"));
        assert!(page.contains("<p class=\"note\">text</p>"));
        assert!(page.contains("<a href=\"#section-2\">") && page.contains("<section id=\"section-2\">"));
        // The figures of the chart.
        assert!(page.contains("<tr><th scope=\"row\">1</th><td>2</td></tr>"));
    }

    #[test]
    fn a_chart_that_cannot_be_drawn_is_an_error() {
        let mut report = report("text", Origin::Measured);
        report.sections[1].parts.push(Part::Chart(Chart {
            title: "nothing".into(),
            description: String::new(),
            plot: Plot::Lines { x: Axis::linear(""), y: Axis::linear(""), lines: vec![] },
        }));
        assert!(matches!(page(&report), Err(Error::Empty(chart)) if chart == "nothing"));
    }
}
