//! The directory that an output needs.

use std::path::{Component, Path, PathBuf};

/// The directory of an output. The part of its name from the first `%` on changes with the time, so what is
/// before it counts: `/data` of `/data/%Y/%j.pcapng`.
pub fn output_directory(file: &Path) -> PathBuf {
    let has_time = |part: &Component<'_>| part.as_os_str().as_encoded_bytes().contains(&b'%');
    let directory = file.parent().unwrap_or(Path::new(""));
    let fixed: PathBuf = directory.components().take_while(|part| !has_time(part)).collect();
    if fixed.as_os_str().is_empty() { ".".into() } else { fixed }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_of_a_series_is_what_its_names_share() {
        for (file, directory) in [
            ("x.pcapng", "."),
            ("./x.pcapng", "."),
            ("a/x_%H.pcapng", "a"),
            ("/data/x.pcapng", "/data"),
            ("/x.pcapng", "/"),
            ("/data/%Y/%j.pcapng", "/data"),
            ("/data/d%Y/more/x.pcapng", "/data"),
            ("%Y/x.pcapng", "."),
            ("../a/%Y/x.pcapng", "../a"),
        ] {
            assert_eq!(output_directory(Path::new(file)), Path::new(directory), "{file}");
        }
    }
}
