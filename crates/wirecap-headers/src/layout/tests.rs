//! Made frames of every kind, cut at every length.
