//! Whether figures are measured or simulated.

use std::fmt;

/// Where the figures of a report come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A real machine ran the experiment.
    Measured,
    /// A model ran it in virtual time.
    Simulated,
}

impl Origin {
    /// The sentence at the top of the page.
    pub(crate) fn sentence(self) -> &'static str {
        match self {
            Origin::Measured => "Every figure on this page is measured, on the machine named here.",
            Origin::Simulated => {
                "Every figure on this page is simulated, unless a heading names the paper; none is measured."
            }
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Origin::Measured => "measured",
            Origin::Simulated => "simulated",
        })
    }
}
