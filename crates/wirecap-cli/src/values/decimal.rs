//! Numbers that may have a fraction and a unit, parsed exactly: without floating-point numbers.

/// Parses a number in units of 1 / `unit`: 1.5 with a unit of 1000 is 1500. Truncates the rest. `None` unless
/// the text is digits, optionally with a period between them, and if the number is too large.
pub(crate) fn decimal(text: &str, unit: u64) -> Option<u64> {
    let (whole, fraction) = parts(text)?;
    let whole = whole.parse::<u64>().ok()?.checked_mul(unit)?;
    // Further digits are less than any unit used here.
    let fraction = &fraction[..fraction.len().min(18)];
    let tenths = 10_u128.pow(fraction.len() as u32);
    let part = fraction.parse::<u128>().unwrap_or(0) * u128::from(unit) / tenths;
    whole.checked_add(part as u64)
}

/// Parses a number with a precision of a millionth: a percentage, an exponent.
pub(crate) fn real(text: &str) -> Option<f64> {
    Some(decimal(text, MILLION)? as f64 / MILLION as f64)
}

/// Parses a number with an exponent: 1e6, 2.5e3. `None` if it is no whole number.
pub(crate) fn with_exponent(text: &str) -> Option<u64> {
    let (number, exponent) = text.split_once(['e', 'E'])?;
    let (whole, fraction) = parts(number)?;
    let digits = exponent.bytes().all(|byte| byte.is_ascii_digit());
    let exponent: usize = digits.then(|| exponent.parse().ok()).flatten()?;
    // A longer number does not fit anyway.
    let zeros = exponent.checked_sub(fraction.len()).filter(|&zeros| zeros < 20)?;
    format!("{whole}{fraction}{:0<zeros$}", "").parse().ok()
}

/// Parses a number with a decimal suffix or an exponent: 1000, 10k, 1.5M, 2.5G, 1e6.
pub(crate) fn scaled(text: &str) -> Option<u64> {
    if let Some(number) = with_exponent(text) {
        return Some(number);
    }
    let units = [('k', 1_000), ('K', 1_000), ('M', MILLION), ('G', 1_000 * MILLION)];
    let with_unit = units.iter().find_map(|&(letter, unit)| Some((text.strip_suffix(letter)?, unit)));
    let (digits, unit) = with_unit.unwrap_or((text, 1));
    decimal(digits, unit)
}

/// Whether [`decimal`] parses it, apart from its size.
pub(super) fn is_decimal(text: &str) -> bool {
    parts(text).is_some()
}

pub(crate) const MILLION: u64 = 1_000_000;

/// The digits before and after the period.
fn parts(text: &str) -> Option<(&str, &str)> {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.split_once('.') {
        Some((whole, fraction)) => (digits(whole) && digits(fraction)).then_some((whole, fraction)),
        None => digits(text).then_some((text, "")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_exact_in_their_unit() {
        for (text, unit, expected) in [
            ("0", 1, 0),
            ("10", MILLION, 10 * MILLION),
            ("0.1", 1_000_000_000, 100_000_000),
            ("1.25", 1_000, 1_250),
            ("1.9999", 1_000, 1_999),
            ("0.3333333333333333333333", 3_000, 999),
            ("18446744073709551615", 1, u64::MAX),
            ("18446744073709.551615", MILLION, u64::MAX),
        ] {
            assert_eq!(decimal(text, unit), Some(expected), "{text}");
        }
        for bad in ["", ".", "1.", ".5", "-1", "+1", "1e3", "1,5", "1..2", "1.2.3", " 1", "inf", "é"] {
            assert!(decimal(bad, 1).is_none() && !is_decimal(bad), "{bad}");
        }
        for large in ["18446744073709551616", "18446744073709551615.0000001"] {
            assert!(decimal(large, MILLION).is_none() && is_decimal(large), "{large}");
        }
    }

    #[test]
    fn suffixes_are_decimal() {
        assert_eq!(
            ["7", "1k", "1.5K", "2.5M", "1G"].map(scaled),
            [7, 1_000, 1_500, 2_500_000, 1_000_000_000].map(Some)
        );
        for bad in ["", "k", "1kk", "1 k", "1m", "1T", "99999999999G"] {
            assert_eq!(scaled(bad), None, "{bad}");
        }
        assert_eq!(
            ["1e6", "1E3", "2.5e3", "0e0", "18446744073709551615e0"].map(with_exponent),
            [MILLION, 1_000, 2_500, 0, u64::MAX].map(Some)
        );
        for bad in
            ["e6", "1e", "1e-3", "1e+3", "2.55e1", "1e20", "2e19", "1e6k", "1e99999999999999999999", "é"]
        {
            assert_eq!((with_exponent(bad), scaled(bad)), (None, None), "{bad}");
        }
        assert_eq!((real("80"), real("0.8"), real("NaN")), (Some(80.0), Some(0.8), None));
    }
}
