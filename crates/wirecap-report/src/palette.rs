//! The colours of series.

/// The series that a chart can have: more cannot be told apart.
pub const MAX_SERIES: usize = 12;

/// Red, green and blue: readable on white and on black, and mostly without seeing red or green.
pub const COLOURS: [[u8; 3]; MAX_SERIES] = [
    [0, 114, 178],
    [213, 94, 0],
    [0, 158, 115],
    [204, 121, 167],
    [230, 159, 0],
    [86, 180, 233],
    [140, 120, 80],
    [150, 80, 190],
    [220, 70, 90],
    [110, 140, 40],
    [60, 140, 140],
    [128, 128, 128],
];
