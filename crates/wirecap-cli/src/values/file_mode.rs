//! Permissions of files.

use std::{fmt, str::FromStr};

/// Permissions of files, as chmod(2) takes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileMode(pub(crate) u32);

impl FileMode {
    /// The bits for owner, group and others: files of packets are not run.
    const ALL: u32 = 0o666;
    /// Without it, the owner could not go on writing.
    const OWNER_WRITES: u32 = 0o200;
}

impl FromStr for FileMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = (3..=4).contains(&text.len()) && text.bytes().all(|digit| digit.is_ascii_digit());
        let mode = digits.then(|| u32::from_str_radix(text, 8).ok()).flatten();
        let mode = mode.filter(|mode| mode & !Self::ALL == 0 && mode & Self::OWNER_WRITES != 0);
        mode.map(Self).ok_or_else(|| {
            "write permissions in octal digits, like 0640: 6 may read and write, 4 read, 0 neither; the owner has to be able to \
             write"
                .into()
        })
    }
}

impl fmt::Display for FileMode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:04o}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_are_octal_and_leave_the_owner_writing() {
        for (text, mode) in [("0640", 0o640), ("600", 0o600), ("664", 0o664), ("0222", 0o222)] {
            let parsed: FileMode = text.parse().unwrap();
            assert_eq!(parsed, FileMode(mode));
            assert_eq!(parsed.to_string().parse(), Ok(parsed));
        }
        for wrong in ["", "64", "0440", "0750", "4640", "640 ", "0o640", "+640", "u=rw", "0680", "00640"] {
            assert!(wrong.parse::<FileMode>().is_err(), "{wrong}");
        }
    }
}
