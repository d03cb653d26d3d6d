//! Charts as PNG files, by rsvg-convert of librsvg: what a browser shows, for papers and slides.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use crate::{
    chart::Chart,
    drawing,
    error::Error,
    file,
    report::{Part, Report},
};

const CONVERTER: &str = "rsvg-convert";
/// Two pixels for each of the chart: 1,920 by 880.
const FLAGS: [&str; 3] = ["--format=png", "--zoom=2", "--background-color=white"];
/// Characters of the title in the name of a file.
const NAME_CHARS: usize = 60;

impl Report {
    /// Writes each chart to a file in a directory, which is made if it is missing: `01-` and the words of its
    /// title. Returns the paths, in the order of the page.
    ///
    /// # Errors
    /// A chart cannot be drawn, rsvg-convert is missing or fails, or a file cannot be written; the files
    /// before it stay.
    pub fn write_png(&self, directory: &Path) -> Result<Vec<PathBuf>, Error> {
        fs::create_dir_all(directory).map_err(|error| Error::File { path: directory.into(), error })?;
        let parts = self.sections.iter().flat_map(|section| &section.parts);
        let charts = parts.filter_map(|part| if let Part::Chart(chart) = part { Some(chart) } else { None });
        let write = |(number, chart): (usize, &Chart)| {
            chart.check()?;
            let picture = converted(&drawing::picture(chart, self.origin))?;
            let path = directory.join(format!("{number:02}-{}.png", slug(&chart.title)));
            file::write(&path, &picture).map_err(|error| Error::File { path: path.clone(), error })?;
            Ok(path)
        };
        (1..).zip(charts).map(write).collect()
    }
}

/// Whether charts can be written as PNG to a directory, which is made: to ask before long work.
///
/// # Errors
/// [`Error::Converter`], [`Error::File`].
pub fn check_png(directory: &Path) -> Result<(), Error> {
    run(Command::new(CONVERTER).arg("--version").stdin(Stdio::null()), "")?;
    let check = || {
        fs::create_dir_all(directory)?;
        file::check(&directory.join("x.png"))
    };
    check().map_err(|error| Error::File { path: directory.into(), error })
}

fn converted(svg: &str) -> Result<Vec<u8>, Error> {
    run(Command::new(CONVERTER).args(FLAGS).stdin(Stdio::piped()), svg)
}

/// What the program prints.
fn run(command: &mut Command, input: &str) -> Result<Vec<u8>, Error> {
    let output = output(command, input).map_err(|error| Error::Converter { program: CONVERTER, error })?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let said = format!("{} ({})", String::from_utf8_lossy(&output.stderr).trim(), output.status);
    Err(Error::Converter { program: CONVERTER, error: io::Error::other(said) })
}

fn output(command: &mut Command, input: &str) -> io::Result<Output> {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    // It reads all of its input before it prints. If it fails before that, its message says more.
    if let Some(mut pipe) = child.stdin.take() {
        let _ = pipe.write_all(input.as_bytes());
    }
    child.wait_with_output()
}

/// The words of a title, for the name of a file.
fn slug(title: &str) -> String {
    let words = title.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let mut slug = String::new();
    for word in words {
        if slug.len() + word.len() >= NAME_CHARS {
            break;
        }
        if !slug.is_empty() {
            slug.push('-');
        }
        slug.push_str(&word.to_ascii_lowercase());
    }
    slug
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_the_words_of_the_title() {
        assert_eq!(
            slug("Figure 11: packets lost, by number of queues"),
            "figure-11-packets-lost-by-number-of-queues"
        );
        assert_eq!(slug("../\u{e9}\0"), "");
        assert!(slug(&"many words ".repeat(100)).len() < NAME_CHARS);
    }

    #[test]
    fn a_failure_of_the_converter_is_told() {
        let missing = run(&mut Command::new("/nonexistent/rsvg-convert"), "").unwrap_err().to_string();
        assert!(missing.contains("librsvg2-bin"), "{missing}");
        let failed = run(Command::new("sh").args(["-c", "echo no font >&2; exit 1"]), "").unwrap_err();
        assert!(failed.to_string().contains("no font"), "{failed}");
    }
}
