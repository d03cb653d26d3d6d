//! The lengths of frames: one, or a mix.

use crate::{
    error::Error,
    frame::{FCS_LEN, FRAME_LEN_MAX, FrameSpec},
    limits::{MAX_SIZES, MAX_WEIGHT},
    random::Random,
};

/// A length of frames, and its weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Bytes without FCS.
    pub len: usize,
    /// Share, relative to the others.
    pub weight: u32,
}

/// The lengths of frames.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sizes {
    /// INVARIANT: 1 to [`MAX_SIZES`], each weight from 1 to [`MAX_WEIGHT`].
    sizes: Vec<Size>,
}

impl Sizes {
    /// All frames of `len` bytes, without FCS.
    pub fn fixed(len: usize) -> Self {
        Self { sizes: vec![Size { len, weight: 1 }] }
    }

    /// The "simple IMIX": 7 of 64 bytes, 4 of 594 and 1 of 1518, with FCS. It is usually given as 40, 576 and
    /// 1500 bytes of IP; the shortest is padded to the minimum of Ethernet.
    pub fn imix() -> Self {
        let size = |len, weight| Size { len: len - FCS_LEN, weight };
        Self { sizes: vec![size(64, 7), size(594, 4), size(1518, 1)] }
    }

    /// Any mix.
    ///
    /// # Errors
    /// [`Error::SizeMix`] for none or more than [`MAX_SIZES`] sizes, or weights other than 1 to
    /// [`MAX_WEIGHT`].
    pub fn mix(sizes: Vec<Size>) -> Result<Self, Error> {
        let weights = sizes.iter().all(|size| (1..=MAX_WEIGHT).contains(&size.weight));
        if !weights || !(1..=MAX_SIZES).contains(&sizes.len()) {
            return Err(Error::SizeMix);
        }
        Ok(Self { sizes })
    }

    /// The sizes.
    pub fn list(&self) -> &[Size] {
        &self.sizes
    }

    /// The same sizes, each raised to at least the headers of `spec` and the marks.
    ///
    /// # Errors
    /// [`Error::FrameLen`] for a size that is too long, and for a single size that is too short.
    pub fn for_frames(&self, spec: &FrameSpec) -> Result<Self, Error> {
        let (min, max) = (spec.len_min(), FRAME_LEN_MAX);
        let may_raise = self.sizes.len() > 1;
        let fitted = self.sizes.iter().map(|&Size { len, weight }| match len {
            len if len > max || (len < min && !may_raise) => Err(Error::FrameLen { len, min, max }),
            len => Ok(Size { len: len.max(min), weight }),
        });
        Ok(Self { sizes: fitted.collect::<Result<_, _>>()? })
    }

    /// The longest length, in bytes without FCS.
    pub fn longest(&self) -> usize {
        self.sizes.iter().map(|size| size.len).max().expect("at least one size")
    }

    /// The mean length over many frames, in bytes without FCS.
    pub fn mean(&self) -> f64 {
        let weights: u64 = self.sizes.iter().map(|size| u64::from(size.weight)).sum();
        let bytes: u64 = self.sizes.iter().map(|size| size.len as u64 * u64::from(size.weight)).sum();
        bytes as f64 / weights as f64
    }
}

/// Draws sizes, by position in the list.
#[derive(Debug, Clone)]
pub(crate) struct SizeChooser {
    /// Each size, repeated by its weight.
    slots: Vec<u8>,
}

impl SizeChooser {
    pub(crate) fn new(sizes: &Sizes) -> Self {
        let slots = sizes.sizes.iter().zip(0u8..);
        let slots = slots.flat_map(|(size, index)| std::iter::repeat_n(index, size.weight as usize));
        Self { slots: if sizes.sizes.len() == 1 { vec![0] } else { slots.collect() } }
    }

    #[inline]
    pub(crate) fn next(&self, random: &mut Random) -> usize {
        match self.slots[..] {
            [only] => only.into(),
            _ => self.slots[random.below(self.slots.len() as u32) as usize].into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{IpVersion, Transport};

    #[test]
    fn sizes_are_drawn_by_their_weights() {
        let imix = Sizes::imix();
        let (chooser, mut random, mut counts) = (SizeChooser::new(&imix), Random::new(3), [0u32; 3]);
        for _ in 0..120_000 {
            counts[chooser.next(&mut random)] += 1;
        }
        for (count, expected) in counts.into_iter().zip([70_000, 40_000, 10_000]) {
            assert!(count.abs_diff(expected) < 800, "{counts:?}");
        }
        assert_eq!(imix.mean(), (7.0 * 60.0 + 4.0 * 590.0 + 1514.0) / 12.0);
        assert_eq!((imix.longest(), Sizes::fixed(100).mean()), (1514, 100.0));
    }

    #[test]
    fn a_mix_grows_to_fit_its_headers_and_a_short_single_size_is_refused() {
        let spec = FrameSpec { ip: IpVersion::V6, transport: Transport::Tcp, ..FrameSpec::default() };
        let raised = Sizes::imix().for_frames(&spec).unwrap();
        assert_eq!(raised.list()[0], Size { len: 92, weight: 7 });
        assert_eq!(raised.list()[1..], Sizes::imix().list()[1..]);
        let short = Sizes::fixed(60).for_frames(&spec);
        assert!(matches!(short, Err(Error::FrameLen { len: 60, min: 92, .. })));
        let size = |len, weight| Size { len, weight };
        let long = Sizes::mix(vec![size(60, 1), size(FRAME_LEN_MAX + 1, 1)]).unwrap();
        assert!(matches!(long.for_frames(&spec), Err(Error::FrameLen { .. })));
        for bad in [vec![], vec![size(60, 0)], vec![size(60, MAX_WEIGHT + 1)], vec![size(60, 1); 17]] {
            assert!(matches!(Sizes::mix(bad), Err(Error::SizeMix)));
        }
    }
}
