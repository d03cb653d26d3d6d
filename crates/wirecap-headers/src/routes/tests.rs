//! Against a scan of all lines, and what is refused.
