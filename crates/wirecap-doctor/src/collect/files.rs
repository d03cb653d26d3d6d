//! Files of the kernel, below a root that tests choose.

use std::{
    fs,
    path::{Path, PathBuf},
    str::FromStr,
};

/// Where the files of the kernel are.
#[derive(Debug)]
pub(super) struct Files {
    root: PathBuf,
}

impl Files {
    pub(super) fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// A path of the kernel below the root.
    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// What is in a file, without the line break at its end.
    pub(super) fn text(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.path(path)).ok().map(|text| text.trim_end().to_owned())
    }

    /// A number, or another value, that a file has.
    pub(super) fn value<T: FromStr>(&self, path: &str) -> Option<T> {
        self.text(path)?.trim().parse().ok()
    }

    /// A list of processors, nodes or the like: `0-3,8`.
    pub(super) fn list(&self, path: &str) -> Vec<u32> {
        self.text(path).map(|text| list(&text)).unwrap_or_default()
    }

    /// The numbers of the entries of a directory that are called `prefix` and a number, in order.
    pub(super) fn numbered(&self, directory: &str, prefix: &str) -> Vec<u32> {
        let names = fs::read_dir(self.path(directory)).into_iter().flatten().flatten();
        let number = |name: &Path| name.to_str()?.strip_prefix(prefix)?.parse().ok();
        let mut numbers: Vec<_> = names.filter_map(|entry| number(Path::new(&entry.file_name()))).collect();
        numbers.sort_unstable();
        numbers
    }
}

/// Reads a list such as `0-3,8-11`; leaves out malformed parts.
pub(super) fn list(text: &str) -> Vec<u32> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse::<u32>().ok()?..=last.trim().parse().ok()?)
    };
    text.split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A root with these files, which is removed with the value.
    pub(in crate::collect) fn root(files: &[(&str, &str)]) -> (tempfile::TempDir, Files) {
        let directory = tempfile::tempdir().unwrap();
        let root = Files::new(directory.path());
        for (path, text) in files {
            let path = root.path(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        (directory, root)
    }

    #[test]
    fn files_are_read_and_what_is_missing_is_unknown() {
        let (_directory, files) = root(&[
            ("/sys/a/cpu0/x", "7\n"),
            ("/sys/a/cpu10/x", ""),
            ("/sys/a/cpufreq", ""),
            ("/sys/list", "0-2,8\n"),
        ]);
        assert_eq!(files.numbered("/sys/a", "cpu"), [0, 10]);
        assert_eq!((files.value::<u32>("/sys/a/cpu0/x"), files.value::<u32>("/sys/none")), (Some(7), None));
        assert_eq!((files.list("/sys/list"), files.list("/sys/none")), (vec![0, 1, 2, 8], vec![]));
        assert_eq!(list(""), Vec::<u32>::new());
    }
}
