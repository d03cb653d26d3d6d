//! Messages on standard error: `note!`, `warn!` and `fail!` take what `format!` takes.

/// Prints a line that begins with `wirecap: `.
macro_rules! note {
    ($($words:tt)*) => {
        $crate::print::stdio::print_message(&$crate::message::Message::note(format!($($words)*)))
    };
}

/// Prints a line that begins with `wirecap: WARNING: `.
macro_rules! warn {
    ($($words:tt)*) => {
        $crate::print::stdio::print_message(&$crate::message::Message::warning(format!($($words)*)))
    };
}

/// Prints a line about what makes the command fail. It begins with `wirecap: `, too.
macro_rules! fail {
    ($($words:tt)*) => {
        $crate::print::stdio::print_message(&$crate::message::Message::error(format!($($words)*)))
    };
}
