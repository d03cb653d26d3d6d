//! Lists of cores: `0,2-3`.

use thiserror::Error;

/// Highest core number Linux can be built for.
const MAX_CORE: usize = 8191;

/// A text that is not a list of cores.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CoreListError {
    /// One of its parts is not a core.
    #[error("{part:?} is not a core number; write numbers and ranges with commas, like 0,2-3")]
    NotACore {
        /// The part.
        part: String,
    },
    /// A range ends before it begins.
    #[error("the range {first}-{last} runs backwards; write {last}-{first}")]
    Backwards {
        /// Where it begins.
        first: usize,
        /// Where it ends.
        last: usize,
    },
}

/// Reads a list of cores: numbers and ranges, separated by commas. The order stays.
///
/// ```
/// use wirecap::config::parse_cores;
///
/// assert_eq!(parse_cores("4,0-2"), Ok(vec![4, 0, 1, 2]));
/// assert!(parse_cores("3-1").unwrap_err().to_string().contains("write 1-3"));
/// ```
///
/// # Errors
/// [`CoreListError`]: what is wrong, and how to write it.
pub fn parse_cores(text: &str) -> Result<Vec<usize>, CoreListError> {
    let number = |part: &str| {
        let core = part.parse().ok().filter(|&core| core <= MAX_CORE);
        core.ok_or_else(|| CoreListError::NotACore { part: part.into() })
    };
    let mut list = Vec::new();
    for item in text.split(',') {
        let (first, last) = item.split_once('-').unwrap_or((item, item));
        let (first, last) = (number(first)?, number(last)?);
        if first > last {
            return Err(CoreListError::Backwards { first, last });
        }
        list.extend(first..=last);
    }
    Ok(list)
}
