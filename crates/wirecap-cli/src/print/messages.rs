//! Lines on standard error about what happens: `note!` and `warn!` take what `format!` takes.

/// Prints a line that begins with `wirecap: `.
macro_rules! note {
    ($($words:tt)*) => {
        $crate::print::stdio::print_stderr(format_args!("wirecap: {}", format_args!($($words)*)))
    };
}

/// Prints a line that begins with `wirecap: WARNING: `.
macro_rules! warn {
    ($($words:tt)*) => {
        note!("WARNING: {}", format_args!($($words)*))
    };
}
