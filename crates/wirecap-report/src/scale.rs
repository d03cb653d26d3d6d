//! Scales: where values lie on an axis, and which of them are labelled.

use wirecap_lab::table::grouped;

/// How values are placed on an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// By difference.
    Linear,
    /// By ratio.
    Log,
}

/// Labels that an axis has at most.
const MAX_TICKS: usize = 9;

impl Scale {
    /// Whether a value has a place.
    pub(crate) fn has(self, value: f64) -> bool {
        match self {
            Scale::Linear => value.is_finite(),
            Scale::Log => value.is_finite() && value > 0.0,
        }
    }

    /// The place of a value, in the unit of [`Span`].
    pub(crate) fn place(self, value: f64) -> f64 {
        match self {
            Scale::Linear => value,
            Scale::Log => value.log10(),
        }
    }
}

/// The part of an axis that is drawn.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// The place of its beginning.
    pub from: f64,
    /// The place of its end; more than `from`.
    pub until: f64,
    /// Places and words of the labels.
    pub ticks: Vec<(f64, String)>,
}

impl Span {
    /// A span with room for these values: for values along an axis, as little as possible; for heights
    /// (`from_zero`), from 0 on a linear scale.
    pub fn of(scale: Scale, values: impl Iterator<Item = f64> + Clone, from_zero: bool) -> Self {
        let least = values.clone().fold(f64::INFINITY, f64::min);
        let most = values.fold(f64::NEG_INFINITY, f64::max);
        match scale {
            Scale::Linear if from_zero => Self::linear(least.min(0.0), most.max(0.0), true),
            Scale::Linear => Self::linear(least, most, false),
            Scale::Log => Self::log(least, most),
        }
    }

    fn linear(least: f64, most: f64, rounds: bool) -> Self {
        let (least, most) = if least < most { (least, most) } else { (least, least + 1.0) };
        let step = nice_step((most - least) / (MAX_TICKS - 1) as f64);
        let (first, last) = if rounds {
            ((least / step).floor(), (most / step).ceil())
        } else {
            ((least / step).ceil(), (most / step).floor())
        };
        let ticks = (0..=(last - first) as usize).map(|count| (first + count as f64) * step);
        let (from, until) = if rounds { (first * step, last * step) } else { (least, most) };
        Self { from, until, ticks: ticks.map(|at| (at, tick(at, step))).collect() }
    }

    fn log(least: f64, most: f64) -> Self {
        let (from, until) = if least < most { (least, most) } else { (least / 2.0, least * 2.0) };
        let (first, last) = (from.log10().floor() as i32, until.log10().ceil() as i32);
        // Within a few decades, 2 and 5 are labelled as well; of many decades, not each.
        let digits: &[f64] = if last - first <= 2 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let every = ((last - first) as usize).div_ceil(MAX_TICKS).max(1);
        let values = (first..=last)
            .step_by(every)
            .flat_map(|decade| digits.iter().map(move |digit| digit * 10_f64.powi(decade)));
        // Rounding must not lose the ends.
        let inside = values.filter(|value| (from * 0.999..=until * 1.001).contains(value));
        let ticks = inside.map(|value| (value.log10(), number(value))).collect();
        Self { from: from.log10(), until: until.log10(), ticks }
    }

    /// Characters of the longest label.
    pub fn longest_label(&self) -> usize {
        self.ticks.iter().map(|(_, word)| word.chars().count()).max().unwrap_or(0)
    }

    /// Without the words of labels that would overlap the one before them, on an axis that is this number of
    /// characters long.
    pub fn spaced(mut self, chars: f64) -> Self {
        let per_char = (self.until - self.from) / chars;
        let mut free_from = f64::NEG_INFINITY;
        for (place, word) in &mut self.ticks {
            let half = word.chars().count() as f64 / 2.0 * per_char;
            if *place - half < free_from {
                word.clear();
            } else {
                free_from = *place + half + per_char;
            }
        }
        self
    }
}

/// The next of 1, 2, 5 times a power of ten.
fn nice_step(least: f64) -> f64 {
    let power = 10_f64.powf(least.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|digit| digit * power);
    steps.into_iter().find(|step| *step >= least * (1.0 - 1e-9)).unwrap_or(10.0 * power)
}

/// The label of a tick, with as many decimals as the step between ticks needs.
fn tick(at: f64, step: f64) -> String {
    // The logarithm of 0.01 may be a little less than -2.
    let decimals = (-(step.log10() + 1e-9).floor()).clamp(0.0, 15.0) as usize;
    separated(&format!("{at:.decimals$}"))
}

/// A number with four significant digits, whole ones with all of theirs, and separated thousands.
pub fn number(value: f64) -> String {
    let digits = if value == 0.0 { 0 } else { (3 - value.abs().log10().floor() as i32).clamp(0, 9) as usize };
    let text = format!("{value:.digits$}");
    let has_fraction = text.contains('.');
    separated(if has_fraction { text.trim_end_matches('0').trim_end_matches('.') } else { &text })
}

/// A number in digits with separated thousands, and zero without a sign.
fn separated(text: &str) -> String {
    let (whole, fraction) = text.split_at(text.find('.').unwrap_or(text.len()));
    let (sign, whole) = whole.strip_prefix('-').map_or(("", whole), |whole| ("-", whole));
    let is_zero = !text.contains(|letter: char| ('1'..='9').contains(&letter));
    let whole = whole.parse().map_or_else(|_| whole.to_owned(), grouped);
    format!("{}{whole}{fraction}", if is_zero { "" } else { sign })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(span: &Span) -> Vec<&str> {
        span.ticks.iter().map(|(_, word)| word.as_str()).collect()
    }

    #[test]
    fn numbers_have_four_significant_digits() {
        let numbers = [0.0, -0.0, 1.0, 0.1 + 0.2, 12.345, -1_234_567.0, 0.000_123_4, 99.99, 1e7];
        let expected = ["0", "0", "1", "0.3", "12.35", "-1,234,567", "0.0001234", "99.99", "10,000,000"];
        assert_eq!(numbers.map(number), expected.map(String::from));
    }

    #[test]
    fn heights_begin_at_zero_and_end_at_a_label() {
        let span = Span::of(Scale::Linear, [12.0, 74.1].into_iter(), true);
        assert_eq!((span.from, span.until), (0.0, 80.0));
        assert_eq!(words(&span), ["0", "10", "20", "30", "40", "50", "60", "70", "80"]);
        let negative = Span::of(Scale::Linear, [-3.0, 4.0].into_iter(), true);
        assert!(negative.from <= -3.0 && words(&negative).contains(&"0"), "{negative:?}");
        let nothing = Span::of(Scale::Linear, [0.0].into_iter(), true);
        assert!(nothing.from < nothing.until && nothing.ticks.len() > 1, "{nothing:?}");
    }

    #[test]
    fn labels_have_as_many_decimals_as_their_step_needs() {
        let up = |most| Span::of(Scale::Linear, [most].into_iter(), true);
        assert_eq!(words(&up(0.4)), ["0.00", "0.05", "0.10", "0.15", "0.20", "0.25", "0.30", "0.35", "0.40"]);
        let short = up(0.008);
        assert_eq!(words(&short)[..4], ["0.000", "0.001", "0.002", "0.003"]);
        assert_eq!(words(&up(3_000_000.0))[1], "500,000");
        let high = Span::of(Scale::Linear, [100_000.0, 100_000.8].into_iter(), false);
        assert_eq!(words(&high)[..3], ["100,000.0", "100,000.1", "100,000.2"]);
        let around = Span::of(Scale::Linear, [-0.3, 0.3].into_iter(), true);
        assert!(words(&around).contains(&"0.0") && !words(&around).contains(&"-0.0"), "{around:?}");
    }

    #[test]
    fn labels_that_would_overlap_are_left_out() {
        let span = || Span::of(Scale::Linear, [0.0, 8e9].into_iter(), false);
        let shown = |chars| words(&span().spaced(chars)).iter().filter(|word| !word.is_empty()).count();
        assert_eq!([shown(150.0), shown(100.0), shown(25.0)], [9, 5, 3]);
        assert_eq!((span().spaced(25.0).ticks.len(), span().longest_label()), (9, 13));
    }

    #[test]
    fn a_logarithmic_axis_has_its_decades() {
        let span = Span::of(Scale::Log, [1e3, 1e7].into_iter(), false);
        assert_eq!(words(&span), ["1,000", "10,000", "100,000", "1,000,000", "10,000,000"]);
        assert_eq!((span.from, span.until), (3.0, 7.0));
        let short = Span::of(Scale::Log, [1.0, 64.0].into_iter(), false);
        assert_eq!(words(&short), ["1", "2", "5", "10", "20", "50"]);
        let single = Span::of(Scale::Log, [1e5].into_iter(), false);
        assert!(single.from < 5.0 && single.until > 5.0);
    }
}
