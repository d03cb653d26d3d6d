//! The rules of `wirecap doctor`.

use wirecap_core::Choice;
use wirecap_doctor::Rule;

use super::markdown::{head, row};
use crate::text::doctor::advice::{self, Advice};

pub(super) fn page() -> String {
    let about = "What [`wirecap doctor`](../doctor.md) looks at, what a finding costs, and what helps. The names are stable: \
                 `--fix` and `--json` use them.";
    let mut page = head("Rules of the doctor", about);
    page += "\n| rule | looks at | a finding costs | what helps |\n|---|---|---|---|\n";
    for rule in Rule::ALL {
        let Advice { cost, remedy } = advice::of(rule.value);
        page += &row(&[&format!("`{}`", rule.name), rule.explanation, cost, remedy]);
    }
    page
}
